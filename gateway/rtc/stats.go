package rtc

// PeerStats is a snapshot of one peer.
type PeerStats struct {
	State           State        `json:"state"`
	DTLSState       string       `json:"dtls_state"`
	LocalCandidate  string       `json:"local_candidate"`  // type of the selected pair's end: host, srflx, prflx; empty before
	RemoteCandidate string       `json:"remote_candidate"` // the same, theirs
	Protocol        string       `json:"protocol"`         // udp, tcp
	RTTMs           float64      `json:"rtt_ms"`           // latest of ICE's own checks; 0 before the first
	BytesReceived   uint64       `json:"bytes_received"`   // RTP of all tracks, drained ones too
	PacketsReceived uint64       `json:"packets_received"`
	Tracks          []TrackStats `json:"-"`
	Speaker         SpeakerStats `json:"-"`
}

// Stats gives a snapshot.
func (p *Peer) Stats() PeerStats {
	s := PeerStats{State: p.state.Load().(State)}
	dtls := p.pc.SCTP().Transport()
	s.DTLSState = dtls.State().String()
	ice := dtls.ICETransport()
	if s.State != StateConnected && s.State != StateDisconnected {
		// Pion's transport must not be asked while it starts.
	} else if pair, err := ice.GetSelectedCandidatePair(); err == nil && pair != nil {
		s.LocalCandidate, s.RemoteCandidate = pair.Local.Typ.String(), pair.Remote.Typ.String()
		s.Protocol = pair.Local.Protocol.String()
		if st, ok := ice.GetSelectedCandidatePairStats(); ok {
			s.RTTMs = st.CurrentRoundTripTime * 1000
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.voice != nil {
		s.Speaker = p.voice.stats()
	}
	for _, t := range p.tracks {
		ts := t.Stats()
		s.Tracks = append(s.Tracks, ts)
		s.BytesReceived += ts.Bytes
		s.PacketsReceived += ts.Packets
	}
	return s
}
