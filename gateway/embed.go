package gateway

import (
	"fmt"

	"github.com/pion/webrtc/v4"

	"sightline/gateway/rtc"
)

// AddTrack gives the session a track of a PeerConnection that the calling program made: call it from the PeerConnection's
// OnTrack. The first video becomes the source "camera", the next "screen"; sound is drained. The track is read until it ends,
// by the session alone. It fails when the session has ended or another publisher holds it.
func (s *Session) AddTrack(pc *webrtc.PeerConnection, track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) error {
	in := rtc.Wrap(pc, track, receiver)
	s.mu.Lock()
	p := s.publisher
	if p != nil && p.foreign != pc {
		s.mu.Unlock()
		return fmt.Errorf("session %s has another publisher", s.id)
	}
	if s.ended {
		s.mu.Unlock()
		return endedProblem(s.id)
	}
	if p == nil {
		p = &publication{session: s, done: make(chan struct{}), wants: make(chan struct{}, 1), foreign: pc, state: rtc.StateConnected}
		s.publisher, s.published, s.used = p, true, true
	}
	p.mu.Lock()
	p.tracks++
	if in.Kind == "video" {
		in.Source = p.foreignName(in.MID)
	}
	p.mu.Unlock()
	s.mu.Unlock()
	s.addTrack(p, in)
	return nil
}

// foreignName is the source of a section: the layers of a simulcast share one. p.mu is held.
func (p *publication) foreignName(mid string) string {
	name := p.names[mid]
	if name == "" || mid == "" {
		name = foreignSource(p.videos)
		p.videos++
		if p.names == nil {
			p.names = make(map[string]string)
		}
		p.names[mid] = name
	}
	return name
}

// foreignSource names the n-th video of a PeerConnection of which only the order is known.
func foreignSource(n int) string {
	switch n {
	case 0:
		return "camera"
	case 1:
		return "screen"
	}
	return fmt.Sprintf("video-%d", n+1)
}
