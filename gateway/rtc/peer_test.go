package rtc

import (
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/pion/ice/v4"
	"github.com/pion/rtp"
	"github.com/pion/stun/v4"
	"github.com/pion/webrtc/v4"

	"sightline/gateway/problem"
)

func TestPublishersConnectAndTheirPacketsArrive(t *testing.T) {
	for name, c := range map[string]struct {
		options publisherOptions
		edit    func(string) string
		sources []string
		proto   string
	}{
		"video":             {publisherOptions{}, nil, []string{"camera"}, "udp"},
		"audio and video":   {publisherOptions{audio: true}, nil, []string{"microphone", "camera"}, "udp"},
		"camera and screen": {publisherOptions{audio: true, screen: true}, nil, []string{"microphone", "camera", "screen"}, "udp"},
		"no candidates":     {publisherOptions{}, stripCandidates, []string{"camera"}, "udp"},
		"setup passive":     {publisherOptions{}, func(s string) string { return strings.ReplaceAll(s, "setup:actpass", "setup:passive") }, []string{"camera"}, "udp"},
		"setup active":      {publisherOptions{}, func(s string) string { return strings.ReplaceAll(s, "setup:actpass", "setup:active") }, []string{"camera"}, "udp"},
		"upper case":        {publisherOptions{audio: true}, func(s string) string { return strings.NewReplacer(" udp ", " UDP ", "opus/", "OPUS/").Replace(s) }, []string{"microphone", "camera"}, "udp"},
		"TCP only":          {publisherOptions{tcp: true}, nil, []string{"camera"}, "tcp"},
		"dangling group":    {publisherOptions{}, func(s string) string { return strings.Replace(s, "BUNDLE 0", "BUNDLE 9 0", 1) }, []string{"camera"}, "udp"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, func(c *Config) { c.TCPPort = 0 })
			p, s := newPublisher(t, c.options), &sink{}
			offer := p.offer(nil)
			if c.edit != nil {
				offer = c.edit(offer)
			}
			peer, answer, err := e.Accept(t.Context(), offer, s.handlers())
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			p.accept(answer)
			p.send()
			for _, source := range c.sources {
				waitFor(t, source, func() bool { return s.count(source) > 10 })
			}
			waitFor(t, "round trip time", func() bool { return peer.Stats().RTTMs > 0 })
			st := peer.Stats()
			if st.State != StateConnected || st.DTLSState != "connected" || st.Protocol != c.proto || st.LocalCandidate != "host" ||
				st.RemoteCandidate == "" || st.BytesReceived < 10*1000 || len(st.Tracks) != len(c.sources) {
				t.Errorf("stats %+v", st)
			}
			if e.Stats() != (EngineStats{Peers: 1}) {
				t.Errorf("engine %+v", e.Stats())
			}
		})
	}
}

func TestTrackTellsWhatItIs(t *testing.T) {
	e := newEngine(t, nil)
	_, s := publish(t, e, newPublisher(t, publisherOptions{audio: true}), "microphone", "camera")
	for _, track := range s.tracks {
		switch track.Kind {
		case "video":
			if track.Codec != "VP8" || track.ClockRate != 90000 || track.SSRC == 0 || track.MID == "" || !track.AnswersPLI() {
				t.Errorf("video: %+v", track.Stats())
			}
		case "audio":
			if track.Codec != "opus" || track.ClockRate != 48000 {
				t.Errorf("audio: %+v", track.Stats())
			}
		default:
			t.Errorf("kind %q", track.Kind)
		}
	}
}

func TestKeyFrameRequestNamesItsSender(t *testing.T) {
	e := newEngine(t, nil)
	p := newPublisher(t, publisherOptions{})
	_, s := publish(t, e, p, "camera")
	s.tracks[0].RequestKeyFrame()
	waitFor(t, "a PLI", func() bool { return p.plis.Load() == 1 })
	if p.pliSSRC.Load() == 0 {
		t.Error("PLI with sender SSRC 0")
	}
}

func TestEverySimulcastLayerIsHandedOn(t *testing.T) {
	e := newEngine(t, nil)
	peer, s := publish(t, e, newPublisher(t, publisherOptions{simulcast: true}), "camera")
	waitFor(t, "packets of the second layer", func() bool {
		tracks := peer.Stats().Tracks
		return len(tracks) == 2 && tracks[0].Packets > 50 && tracks[1].Packets > 50
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tracks) != 2 || s.tracks[0].RID == "" || s.tracks[1].RID == "" || s.tracks[0].RID == s.tracks[1].RID || s.tracks[0].MID != s.tracks[1].MID {
		t.Errorf("%d tracks handed on: %+v", len(s.tracks), s.tracks)
	}
}

func TestTrickledCandidatesAreUsed(t *testing.T) {
	e := newEngine(t, nil)
	p, s := newPublisher(t, publisherOptions{}), &sink{}
	offer := p.offer(nil)
	peer, _, err := e.Accept(t.Context(), stripCandidates(offer), s.handlers())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	// The client never hears our answer, so only our own checks can reach it: proof that the candidate was used.
	reached := make(chan struct{})
	probe, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	go func() {
		if _, _, err := probe.ReadFrom(make([]byte, 1500)); err == nil {
			close(reached)
		}
	}()
	ufrag, pwd := peer.ICE()
	frag := "a=ice-ufrag:" + ufrag + "\r\na=ice-pwd:" + pwd + "\r\nm=video 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\na=candidate:1 1 UDP 2130706431 " +
		strings.Replace(probe.LocalAddr().String(), ":", " ", 1) + " typ host generation 0 ufrag " + ufrag + "\r\na=end-of-candidates\r\n"
	if err := peer.Trickle(t.Context(), frag); err != nil {
		t.Fatal(err)
	}
	select {
	case <-reached:
	case <-time.After(waitTime):
		t.Fatal("no check was sent to the trickled candidate")
	}
	err = peer.Trickle(t.Context(), strings.ReplaceAll(frag, ufrag, "other"))
	wantProblem(t, err, problem.PreconditionFailed, "another ICE generation")
	wantProblem(t, peer.Trickle(t.Context(), "nonsense"), problem.InvalidArgument, "line 1 of the fragment")
}

func TestG12NoPacketToForbiddenAddresses(t *testing.T) {
	for _, allow := range []bool{true, false} {
		probe, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer probe.Close()
		// The engine's own sockets are on loopback in both cases: what is not sent is not sent because of the policy.
		e := newEngine(t, func(c *Config) { c.TCPPort, c.remote = 0, &policy{loopback: allow} })
		port := strings.TrimPrefix(probe.LocalAddr().String(), "127.0.0.1:")
		candidate := "a=candidate:1 1 udp 2130706431 127.0.0.1 " + port + " typ host\r\n"
		peer, _, err := e.Accept(t.Context(), minimal+candidate, Handlers{})
		if err != nil {
			t.Fatal(err)
		}
		ufrag, pwd := peer.ICE()
		if err := peer.Trickle(t.Context(), "a=ice-ufrag:"+ufrag+"\r\na=ice-pwd:"+pwd+"\r\n"+candidate+
			strings.Replace(candidate, "127.0.0.1", "::ffff:127.0.0.1", 1)); err != nil {
			t.Fatal(err)
		}
		wait := waitTime
		if !allow {
			wait = 2 * time.Second // a check comes within milliseconds, as the allowed case shows
		}
		_ = probe.SetReadDeadline(time.Now().Add(wait))
		_, _, err = probe.ReadFrom(make([]byte, 1500))
		if allow && err != nil {
			t.Errorf("allowed, but no check came: %v", err)
		}
		if !allow && err == nil {
			t.Error("a check was sent to loopback")
		}
		peer.Close()
	}
}

func TestRestartsKeepTheCallAndForgetTheOldGeneration(t *testing.T) {
	e := newEngine(t, nil)
	p := newPublisher(t, publisherOptions{audio: true})
	peer, s := publish(t, e, p, "camera")
	var old []credentials
	for i := range 10 {
		old = append(old, generation(peer))
		offer := p.offer(&webrtc.OfferOptions{ICERestart: true})
		frag, err := peer.Restart(t.Context(), asFragment(offer))
		if err != nil {
			t.Fatalf("restart %d: %v", i, err)
		}
		f, err := parseFragment(frag)
		if err != nil || f.ufrag == old[i].local || len(f.candidates) == 0 || !f.end {
			t.Fatalf("restart %d answers %q: %v", i, frag, err)
		}
		p.accept(restartedAnswer(p.pc.CurrentRemoteDescription().SDP, frag))
		if ufrag, _ := peer.ICE(); !strings.Contains(offer, "a=ice-ufrag:"+ufrag+"\r\n") {
			t.Errorf("remote ufrag %q is not the client's new one", ufrag)
		}
		before := s.count("camera")
		waitFor(t, "packets after the restart", func() bool { return s.count("camera") > before+20 })
	}
	waitFor(t, "connected again", func() bool { return peer.Stats().State == StateConnected })
	if n := muxEntries(e); n != 1 {
		t.Errorf("%d entries in the UDP mux, want 1", n)
	}
	if !answersCheck(t, e, generation(peer), waitTime) {
		t.Error("a check of the generation in force is not answered")
	}
	for i, c := range old {
		if answersCheck(t, e, c, 300*time.Millisecond) { // the one in force answers within a few
			t.Errorf("a check of old generation %d is answered", i)
		}
	}
}

func TestFailedRestartLeavesTheCallAlone(t *testing.T) {
	e := newEngine(t, nil)
	p := newPublisher(t, publisherOptions{})
	peer, s := publish(t, e, p, "camera")
	ufrag, pwd := peer.ICE()
	for _, c := range []struct {
		frag  string
		code  problem.Code
		words string
	}{
		{"", problem.InvalidArgument, "holds neither"},
		{"garbage", problem.InvalidArgument, "line 1"},
		{"a=ice-ufrag:newone\r\n", problem.InvalidArgument, "a=ice-pwd of the fragment has 0"},
		{"a=ice-ufrag:newone\r\na=ice-pwd:short\r\n", problem.InvalidArgument, "a=ice-pwd of the fragment has 5"},
		{"a=ice-ufrag:" + ufrag + "\r\na=ice-pwd:" + pwd + "\r\n", problem.InvalidArgument, "needs a new a=ice-ufrag"},
		{strings.Repeat("a=candidate:x\r\n", 2000), problem.TooLarge, "at most 16384"},
	} {
		_, err := peer.Restart(t.Context(), c.frag)
		wantProblem(t, err, c.code, c.words)
	}
	before := s.count("camera")
	waitFor(t, "packets go on", func() bool { return s.count("camera") > before+50 })
	if now, _ := peer.ICE(); now != ufrag || peer.Stats().State != StateConnected {
		t.Errorf("ufrag %q, state %v", now, peer.Stats().State)
	}
}

func TestWrappedTrackOfAnotherProgramIsRead(t *testing.T) {
	p := newPublisher(t, publisherOptions{})
	var s webrtc.SettingEngine
	s.SetIncludeLoopbackCandidate(true)
	s.SetIPFilter(func(ip net.IP) bool { return ip.Equal(net.IPv4(127, 0, 0, 1)) })
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	wrapped := make(chan *InTrack, 1)
	pc.OnTrack(func(track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) { wrapped <- Wrap(pc, track, receiver) })
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: p.offer(nil)}); err != nil {
		t.Fatal(err)
	}
	answer, err := pc.CreateAnswer(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(answer); err != nil {
		t.Fatal(err)
	}
	<-gathered
	p.accept(pc.LocalDescription().SDP)
	p.send()
	track := <-wrapped
	for range 20 {
		if packet, err := track.ReadRTP(); err != nil || len(packet.Payload) != 1002 {
			t.Fatalf("%v, %v", packet, err)
		}
	}
	track.RequestKeyFrame()
	waitFor(t, "a PLI", func() bool { return p.plis.Load() > 0 && p.pliSSRC.Load() != 0 })
	if err := pc.Close(); err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		if _, err = track.ReadRTP(); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("the track does not end with its connection")
	}
}

func waitDone(t *testing.T, p *Peer) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(waitTime):
		t.Fatal("the peer is not gone")
	}
}

func wantLastState(t *testing.T, s *sink, want State) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.states); n == 0 || s.states[n-1] != want {
		t.Errorf("states %v, want the last to be %s", s.states, want)
	}
}

// credentials are what a remote side needs to check an ICE generation of ours.
type credentials struct{ local, localPwd, remote string }

func generation(p *Peer) credentials {
	p.mu.Lock()
	defer p.mu.Unlock()
	return credentials{p.sig.local.ufrag, p.sig.local.pwd, p.sig.plan.ufrag}
}

// restartedAnswer is what a client makes of our fragment: its stored answer with other credentials and candidates.
func restartedAnswer(answer, frag string) string {
	f, _ := parseFragment(frag)
	var b strings.Builder
	first := true
	for line := range strings.Lines(stripCandidates(answer)) {
		switch {
		case strings.HasPrefix(line, "a=ice-ufrag:"):
			line = "a=ice-ufrag:" + f.ufrag + "\r\n"
		case strings.HasPrefix(line, "a=ice-pwd:"):
			line = "a=ice-pwd:" + f.pwd + "\r\n"
			if first {
				for _, c := range f.candidates {
					line += "a=candidate:" + c + "\r\n"
				}
			}
			first = false
		}
		b.WriteString(line)
	}
	return b.String()
}

// answersCheck sends a valid connectivity check of a generation to the engine's port, from a new address.
func answersCheck(t *testing.T, e *Engine, c credentials, within time.Duration) bool {
	t.Helper()
	port, _ := e.Ports()
	conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	m, err := stun.Build(stun.BindingRequest, stun.TransactionID, stun.NewUsername(c.local+":"+c.remote),
		ice.AttrControlling(1), ice.PriorityAttr(1), stun.NewShortTermIntegrity(c.localPwd), stun.Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(m.Raw); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(within))
	_, err = conn.Read(make([]byte, 1500))
	return err == nil
}

// muxEntries counts the peers that the UDP muxes know, under their locks.
func muxEntries(e *Engine) int {
	n := 0
	muxes := reflect.ValueOf(e.socks.udp).Elem().FieldByName("muxes")
	for i := range muxes.Len() {
		m := reflect.ValueOf((*ice.UDPMuxDefault)(muxes.Index(i).Elem().UnsafePointer())).Elem()
		mu := (*sync.Mutex)(unsafe.Pointer(m.FieldByName("mu").UnsafeAddr()))
		mu.Lock()
		n += m.FieldByName("connsIPv4").Len() + m.FieldByName("connsIPv6").Len()
		mu.Unlock()
		addrs := (*sync.RWMutex)(unsafe.Pointer(m.FieldByName("addressMapMu").UnsafeAddr()))
		addrs.Lock()
		if a := m.FieldByName("addressMap").Len(); n == 0 {
			n += a
		}
		addrs.Unlock()
	}
	return n
}

// FFmpeg fills its packets up to 1500 bytes; SRTP adds its tag to that.
func TestLongestPacketsArriveWhole(t *testing.T) {
	e := newEngine(t, nil)
	p := newPublisher(t, publisherOptions{bare: true})
	sizes := make(chan int, 1000)
	peer, answer, err := e.Accept(t.Context(), p.offer(nil), Handlers{Track: func(track *InTrack) {
		go func() {
			for {
				packet, err := track.ReadRTP()
				if err != nil {
					return
				}
				select {
				case sizes <- packet.MarshalSize():
				default:
				}
			}
		}()
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	p.accept(answer)
	for seq, seen := uint16(0), 0; seen < 10; seq++ {
		if seq > 6000 {
			t.Fatal("no packet of 1500 bytes arrived")
		}
		if err := p.tracks[0].WriteRTP(&rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: seq}, Payload: make([]byte, 1488)}); err != nil {
			t.Fatal(err)
		}
		select {
		case n := <-sizes:
			if n != 1500 {
				t.Fatalf("a packet of %d bytes, want 1500", n)
			}
			seen++
		case <-time.After(5 * time.Millisecond):
		}
	}
}
