package gateway

import (
	"errors"
	"fmt"
	"time"

	"github.com/pion/webrtc/v4"

	"sightline/gateway/rtc"
)

// AddTrack gives the session a track of a PeerConnection that the calling program made: call it from the PeerConnection's
// OnTrack. The first video becomes the source "camera", the next "screen"; sound is drained. The track is read until it ends,
// by the session alone. It fails when the session has ended or another publisher holds it.
func (s *Session) AddTrack(pc *webrtc.PeerConnection, track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) error {
	return s.addForeign("", pc, track, receiver)
}

// AddSource is AddTrack for a PeerConnection beside the session's publisher: its first video becomes the named source (1 to 32 of
// A-Z a-z 0-9 _ -; what is named "screen" is one), everything else that comes with this name is drained. It fails when somebody else
// publishes that source.
func (s *Session) AddSource(name string, pc *webrtc.PeerConnection, track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) error {
	if name == "" {
		return errors.New("a source needs a name")
	}
	if err := checkSourceName(name); err != nil {
		return err
	}
	return s.addForeign(name, pc, track, receiver)
}

func (s *Session) addForeign(name string, pc *webrtc.PeerConnection, track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) error {
	p, err := s.foreign(name, pc)
	if err != nil {
		return err
	}
	in := rtc.Wrap(pc, track, receiver)
	p.mu.Lock()
	p.tracks++
	if in.Kind == "video" {
		in.Source = p.foreignName(in.MID)
	}
	p.mu.Unlock()
	s.addTrack(p, in)
	return nil
}

// foreign is the publication of a PeerConnection under a name, which begins now if there was none.
func (s *Session) foreign(name string, pc *webrtc.PeerConnection) (*publication, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, endedProblem(s.id)
	}
	p := &publication{session: s, source: name, done: make(chan struct{}), wants: make(chan struct{}, 1), foreign: pc, state: rtc.StateConnected}
	switch old := s.holderLocked(p); {
	case old != nil && old.foreign == pc:
		return old, nil
	case old != nil:
		return nil, fmt.Errorf("session %s has another publisher", s.id)
	}
	if err := s.roomLocked(p); err != nil {
		return nil, err
	}
	s.placeLocked(name, p)
	s.published, s.used = true, true
	s.touchLocked(time.Now())
	return p, nil
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
