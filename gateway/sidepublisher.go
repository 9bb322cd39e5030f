package gateway

import (
	"fmt"
	"regexp"

	"sightline/frames"
	"sightline/gateway/problem"
	"sightline/gateway/rtc"
)

// A side publisher publishes one video by name beside the session's publisher: a screen from another program than the camera, a second
// camera. Its sound is not taken.

var sourceName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

func checkSourceName(name string) error {
	if name != "" && !sourceName.MatchString(name) {
		return problem.New(problem.InvalidArgument, "source %q: 1 to 32 of A-Z a-z 0-9 _ -", name).WithField("source")
	}
	return nil
}

// holdsLocked says whether p still is one of the session's publishers.
func (s *Session) holdsLocked(p *publication) bool {
	return s.publisher == p || p.source != "" && s.sides[p.source] == p
}

// publishersLocked are all of them, the session's own first.
func (s *Session) publishersLocked() (all []*publication) {
	if s.publisher != nil {
		all = append(all, s.publisher)
	}
	for _, p := range s.sides {
		all = append(all, p)
	}
	return all
}

// holderLocked is who p would take the place of.
func (s *Session) holderLocked(p *publication) *publication {
	if p.source == "" {
		return s.publisher
	}
	return s.sides[p.source]
}

// placeLocked puts p into its place; nil takes it out.
func (s *Session) placeLocked(source string, p *publication) {
	switch {
	case source == "":
		s.publisher = p
	case p == nil:
		delete(s.sides, source)
	default:
		if s.sides == nil {
			s.sides = make(map[string]*publication)
		}
		s.sides[source] = p
	}
}

// roomLocked says why p cannot publish its source beside the others.
func (s *Session) roomLocked(p *publication) error {
	switch {
	case p.source == "":
		return nil
	case s.takenLocked(s.sourceLocked(p.source), p):
		return problem.New(problem.AlreadyPublishing, "the source %s of session %s is somebody else's: choose another name", p.source, s.id).WithField("source")
	case s.sides[p.source] == nil && len(s.sides) >= maxSources:
		return problem.New(problem.Overloaded, "session %s has %d publishers of single sources, the limit", s.id, len(s.sides))
	}
	return nil
}

// takenLocked says whether somebody else publishes the source: another publication that is there and whose track has not ended.
func (s *Session) takenLocked(src *source, p *publication) bool {
	if src == nil {
		return false
	}
	src.mu.Lock()
	of, state := src.of, src.state.State
	src.mu.Unlock()
	return of != nil && of != p && of != s.holderLocked(p) && s.holdsLocked(of) && !of.lost() && state != frames.StateEnded
}

// nameFor gives a video of p its source's name; the session's own publisher names its sections itself. s.mu is held.
func (s *Session) nameForLocked(p *publication, in *rtc.InTrack) error {
	if p.source != "" {
		for mid, v := range p.video {
			if mid != in.MID && v.layers > 0 {
				return fmt.Errorf("its publisher publishes %s alone", p.source)
			}
		}
		in.Source = p.source
	}
	if s.takenLocked(s.sourceLocked(in.Source), p) {
		return fmt.Errorf("another publisher has the source %s", in.Source)
	}
	return nil
}
