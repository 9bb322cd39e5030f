package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"sightline/frames"
	"sightline/gateway/rtc"
	"sightline/gateway/wire"
)

// maxSources bounds the named video inputs of one session.
const maxSources = 8

// source is a named video input of a session. It outlives its track: a publisher that comes back gets a new track under the
// old name, and watchers follow.
type source struct {
	name string

	mu      sync.Mutex
	track   *frames.Track
	cancel  context.CancelFunc
	state   frames.SourceState
	seqBase uint64 // images of earlier tracks: seq goes on over a reconnect

	of     *publication // whose track it is
	in     *rtc.InTrack // where the track's packets come from
	asked  asked        // the latest request for one image
	capBPS int          // what its sender is asked to keep to, bits/s; 0: to nothing
}

// startSource makes a track for an incoming one and finds or makes its source. It counts two tasks of the session.
func (s *Session) startSource(p *publication, in *rtc.InTrack) (*source, *frames.Track, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.publisher != p {
		return nil, nil, fmt.Errorf("its publisher has left")
	}
	src := s.sourceLocked(in.Source)
	if src == nil {
		if len(s.sources) >= maxSources {
			return nil, nil, fmt.Errorf("session has %d sources, the limit", maxSources)
		}
		src = &source{name: in.Source, state: frames.SourceState{Name: in.Source, State: frames.StateStalled}}
		s.sources = append(s.sources, src)
	}
	requestKeyFrame := in.RequestKeyFrame
	if !in.AnswersPLI() {
		requestKeyFrame = nil
	}
	var track *frames.Track
	track, err := frames.NewTrack(frames.TrackConfig{
		Source: in.Source, Codec: frames.Codec(in.Codec), RequestKeyFrame: requestKeyFrame,
		Budget: s.shared.budget, Log: s.logger,
		OnState: func(state frames.SourceState) { s.sourceChanged(src, track, state) },
	})
	if err != nil {
		return nil, nil, err
	}
	s.tasks.Add(2)
	return src, track, nil
}

func (s *Session) sourceLocked(name string) *source {
	i := slices.IndexFunc(s.sources, func(src *source) bool { return src.name == name })
	if i < 0 {
		return nil
	}
	return s.sources[i]
}

// begin makes track the source's own; the one before it, if any, ends.
func (src *source) begin(p *publication, in *rtc.InTrack, track *frames.Track, cancel context.CancelFunc) {
	src.mu.Lock()
	old, oldCancel := src.track, src.cancel
	src.track, src.cancel = track, cancel
	src.of, src.in, src.capBPS = p, in, 0
	if old != nil {
		src.seqBase += old.Stats().Encoded
	}
	src.mu.Unlock()
	if oldCancel != nil {
		oldCancel()
	}
}

// stop ends the present track.
func (src *source) stop() {
	src.mu.Lock()
	cancel := src.cancel
	src.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// current is the track now, nil before the first, and the seq before its first image.
func (src *source) current() (track *frames.Track, seqBase uint64) {
	src.mu.Lock()
	defer src.mu.Unlock()
	return src.track, src.seqBase
}

// sourceChanged is told by a track's Run; what an old track says after it was replaced does not count.
func (s *Session) sourceChanged(src *source, track *frames.Track, state frames.SourceState) {
	src.mu.Lock()
	if src.track != track {
		src.mu.Unlock()
		return
	}
	src.state = state
	src.mu.Unlock()
	s.mu.Lock()
	agents := make([]*agent, 0, len(s.agents))
	for _, a := range s.agents {
		agents = append(agents, a)
	}
	s.mu.Unlock()
	for _, a := range agents {
		a.sourceChanged(src.name)
	}
}

// message is the source as agents are told of it.
func (src *source) message() wire.Source {
	src.mu.Lock()
	defer src.mu.Unlock()
	return wire.Source{
		Type: wire.TypeSource, Name: src.name, State: string(src.state.State),
		Width: src.state.Width, Height: src.state.Height, Codec: string(src.state.Codec),
	}
}

// allSources is a copy of the list; sources are only ever added.
func (s *Session) allSources() []*source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sources)
}

// source finds a source by name; an empty name means the first.
func (s *Session) source(name string) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" && len(s.sources) > 0 {
		return s.sources[0]
	}
	return s.sourceLocked(name)
}
