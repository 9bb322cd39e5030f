package gateway

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sightline/frames"
	"sightline/gateway/rtc"
	"sightline/gateway/wire"
)

const sourceScreen = "screen" // the name of what is a screen by signalling

// maxSources bounds the named video inputs of one session.
const maxSources = 8

// source is a named video input of a session. It outlives its track: a publisher that comes back gets a new track under the
// old name, and watchers follow.
type source struct {
	name string

	mu     sync.Mutex
	track  *frames.Track
	cancel context.CancelFunc
	state  frames.SourceState
	images atomic.Uint64 // numbers those of all its tracks: seq goes on over a reconnect
	policy frames.Policy // as somebody has set it; empty: Config.DecodePolicy

	of     *publication // whose track it is
	in     *rtc.InTrack // where the track's packets come from
	asked  asked        // requests for one image each
	capBPS int          // what its sender is asked to keep to, bits/s; 0: to nothing
}

// video is one track of a publication: all that its section of the SDP sends.
type video struct {
	src    *source
	track  *frames.Track
	stop   context.CancelFunc
	codec  string
	layers int // being read; guarded by the session's mu
}

// startSource finds or makes the track of an incoming one's section, and its source; run is nil where they were there already. It counts a
// task of the session, and a second one for run.
func (s *Session) startSource(p *publication, in *rtc.InTrack) (layer *frames.Layer, v *video, run context.Context, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || !s.holdsLocked(p) {
		return nil, nil, nil, fmt.Errorf("its publisher has left")
	}
	if err := s.nameForLocked(p, in); err != nil {
		return nil, nil, nil, err
	}
	if v = p.video[in.MID]; v == nil || in.MID == "" || v.layers == 0 {
		if v, err = s.newVideoLocked(in); err != nil {
			return nil, nil, nil, err
		}
		run, v.stop = context.WithCancel(context.Background()) // ends with the last layer, or by source.stop
	}
	if v.codec != in.Codec {
		return nil, nil, nil, fmt.Errorf("it is of codec %s: the track is of %s", in.Codec, v.codec)
	}
	requestKeyFrame := in.RequestKeyFrame
	if !in.AnswersPLI() {
		requestKeyFrame = nil
	}
	if layer, err = v.track.Layer(in.RID, requestKeyFrame); err != nil {
		return nil, nil, nil, err
	}
	v.layers++
	s.tasks.Add(1)
	if run != nil {
		s.tasks.Add(1)
		if p.video == nil {
			p.video = make(map[string]*video)
		}
		p.video[in.MID] = v
		v.src.begin(p, in, v.track, v.stop)
	}
	in.OnReport(func(r rtc.SenderReport) { layer.Report(frames.SenderReport(r), time.Now()) })
	return layer, v, run, nil
}

func (s *Session) newVideoLocked(in *rtc.InTrack) (*video, error) {
	src := s.sourceLocked(in.Source)
	if src == nil {
		if len(s.sources) >= maxSources {
			return nil, fmt.Errorf("session has %d sources, the limit", maxSources)
		}
		src = &source{name: in.Source, state: frames.SourceState{Name: in.Source, State: frames.StateStalled, Screen: in.Screen || in.Source == sourceScreen}}
		s.sources = append(s.sources, src)
	}
	requestKeyFrame := in.RequestKeyFrame
	if !in.AnswersPLI() {
		requestKeyFrame = nil
	}
	var track *frames.Track
	track, err := frames.NewTrack(frames.TrackConfig{
		Source: in.Source, Codec: frames.Codec(in.Codec), RequestKeyFrame: requestKeyFrame,
		Extensions: extensions(in), ParameterSets: in.ParameterSets(),
		Screen: in.Screen || in.Source == sourceScreen, Policy: src.decodes(s.cfg.DecodePolicy),
		Budget: s.shared.budget, Images: &src.images, Log: s.logger,
		OnState: func(state frames.SourceState) { s.sourceChanged(src, track, state) },
	})
	return &video{src: src, track: track, codec: in.Codec}, err
}

// extensions says where in the packets' headers to look.
func extensions(in *rtc.InTrack) frames.Extensions {
	e := frames.Extensions{AbsCaptureTime: in.Extensions.AbsCaptureTime, ColorSpace: in.Extensions.ColorSpace, ContentType: in.Extensions.ContentType}
	if in.Codec == string(frames.CodecAV1) { // VP9 has it all in its payload
		e.Dependency = in.DependencyID()
	}
	return e
}

// layerEnded ends a track with its last layer.
func (s *Session) layerEnded(v *video) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.layers--; v.layers == 0 {
		v.stop()
	}
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
	oldCancel := src.cancel
	src.track, src.cancel = track, cancel
	src.of, src.in, src.capBPS = p, in, 0
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

// current is the track now, nil before the first.
func (src *source) current() *frames.Track {
	src.mu.Lock()
	defer src.mu.Unlock()
	return src.track
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
		Screen: src.state.Screen, Frozen: src.state.Frozen,
	}
}

// screen says whether it shows one, as far as signalling and its latest key frame say.
func (src *source) screen() bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return src.state.Screen
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
