package gateway

import (
	"fmt"

	"github.com/pion/webrtc/v4"

	"sightline/gateway/rtc"
)

// AddTrack gives the session a track of a PeerConnection that the calling program made: call it from the PeerConnection's
// OnTrack. Video becomes a source named as Config says for our own publishers; sound is drained. The track is read until it
// ends. It fails when the session has ended or a WHIP publisher holds it.
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
		p = &publication{session: s, done: make(chan struct{}), foreign: pc, state: rtc.StateConnected}
		s.publisher, s.published = p, true
	}
	p.mu.Lock()
	p.tracks++
	p.mu.Unlock()
	s.mu.Unlock()
	s.addTrack(p, in)
	return nil
}
