package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pion/webrtc/v4"

	"sightline/frames"
	"sightline/gateway/problem"
	"sightline/gateway/rtc"
)

// publication is a session's publisher, or a side publisher: one peer that sends media. It implements whip.Publication.
type publication struct {
	session *Session
	source  string                 // of a side publisher: what it publishes; empty: it is the session's publisher
	foreign *webrtc.PeerConnection // of an embedding program, which then owns it; nil for our own peers
	done    chan struct{}
	once    sync.Once
	wants   chan struct{} // capacity 1: what is wanted of its video may have changed

	mu     sync.Mutex
	peer   *rtc.Peer // nil while the offer is being answered
	answer string
	state  rtc.State
	tracks int               // of a foreign one: it has left when its last track has ended
	videos int               // of a foreign one, ever added: they name the sources
	names  map[string]string // of a foreign one's sections, by mid

	video      map[string]*video // by mid; guarded by session.mu
	microphone *microphone       // guarded by session.mu
}

// publish answers an offer and makes its peer the session's publisher. There is one at a time: while the present one is
// connected, another is refused unless its token may take over; one that has lost its connection is replaced. Of side publishers, who name a
// source, the same holds for each name.
func (s *Session) publish(ctx context.Context, engine *rtc.Engine, source, offer string) (*publication, error) {
	p := &publication{session: s, source: source, done: make(chan struct{}), wants: make(chan struct{}, 1), state: rtc.StateConnecting}
	if err := s.claim(p, mayTakeOver(ctx)); err != nil {
		return nil, err
	}
	peer, answer, err := engine.Accept(ctx, offer, rtc.Handlers{
		Track: func(t *rtc.InTrack) { s.addTrack(p, t) },
		State: p.stateChanged,
		Log:   s.logger,
	})
	if err != nil {
		s.unpublish(p)
		s.tasks.Done()
		return nil, err
	}
	p.mu.Lock()
	p.peer, p.answer = peer, answer
	p.mu.Unlock()
	s.use()
	go p.watch(peer)
	switch ended, publishes := s.stands(p); {
	case ended: // its end has not seen the peer
		p.closeSoon()
		return nil, endedProblem(s.id)
	case !publishes: // nor has who took over
		p.closeSoon()
		return nil, problem.New(problem.AlreadyPublishing, "somebody else has taken session %s over", s.id)
	}
	if v := s.currentVoice(); v != nil && p.source == "" {
		p.giveVoice(v)
	}
	return p, nil
}

// stands says whether the session has ended, and whether p still is its publisher.
func (s *Session) stands(p *publication) (ended, publishes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended, s.holdsLocked(p)
}

// claim makes p the publisher and counts it as a task of the session.
func (s *Session) claim(p *publication, takeover bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.holderLocked(p)
	if old != nil && !old.lost() && !(takeover && old.foreign == nil) {
		return problem.New(problem.AlreadyPublishing, "somebody publishes to session %s: stop that first, or choose another session", s.id)
	}
	if err := s.roomLocked(p); err != nil {
		return err
	}
	if !s.beginLocked() {
		return endedProblem(s.id)
	}
	if old != nil {
		old.closeSoon()
	}
	s.placeLocked(p.source, p)
	s.touchLocked(time.Now())
	return nil
}

// watch waits for the peer's end, and tells it meanwhile what is wanted of its video.
func (p *publication) watch(peer *rtc.Peer) {
	defer p.session.tasks.Done()
	p.session.shared.metrics.peerBegins(peer)
	defer p.session.shared.metrics.peerEnds(peer)
	defer p.session.unpublish(p)
	ticker := time.NewTicker(repeatAsk)
	defer ticker.Stop()
	k := &asker{sources: map[*source]*easing{}}
	for {
		select {
		case <-peer.Done():
			return
		case <-p.wants:
		case <-ticker.C:
		}
		p.askNow(k, peer, time.Now())
	}
}

// unpublish takes p from its session, if it still is its publisher.
func (s *Session) unpublish(p *publication) {
	p.once.Do(func() { close(p.done) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holdsLocked(p) {
		s.placeLocked(p.source, nil)
		s.touchLocked(time.Now())
		if s.voice != nil && p.source == "" {
			s.voice.lose()
		}
	}
}

// giveVoice lets the publisher hear the session, if its offer has room for that.
func (p *publication) giveVoice(v *voice) {
	peer := p.current()
	if peer == nil { // being answered: publish does it then
		return
	}
	write, ok := peer.Speaker()
	if !ok {
		write = nil
	}
	v.listener.setWriter(write)
	peer.SpeakerReports(v.egress.Lost)
}

func (p *publication) stateChanged(state rtc.State) {
	p.mu.Lock()
	p.state = state
	p.mu.Unlock()
	if state == rtc.StateConnected {
		p.session.mu.Lock()
		p.session.published = true
		p.session.mu.Unlock()
	}
	p.session.logger.Info("publisher "+string(state), "peer_state", string(state))
}

// lost reports whether the peer has no connection any more, so that another may take its place.
func (p *publication) lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == rtc.StateDisconnected || p.state == rtc.StateFailed || p.state == rtc.StateClosed
}

func (p *publication) current() *rtc.Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peer
}

// trackEnded ends a foreign publication with its last track; our own peers tell their end themselves.
func (p *publication) trackEnded() {
	p.mu.Lock()
	p.tracks--
	gone := p.foreign != nil && p.tracks <= 0
	p.mu.Unlock()
	if gone {
		p.session.unpublish(p)
	}
}

// closeSoon closes the peer without waiting; its task of the session ends with it.
func (p *publication) closeSoon() {
	if peer := p.current(); peer != nil {
		go peer.Close() // bounded by the peer's own watchdog, and waited for through its Done
	}
}

// SessionID is the public id.
func (p *publication) SessionID() string { return p.session.id }

// Answer is our SDP.
func (p *publication) Answer() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answer
}

// RemoteUfrag is the publisher's ICE user fragment in force.
func (p *publication) RemoteUfrag() string {
	ufrag, _ := p.current().ICE()
	return ufrag
}

// Trickle adds candidates.
func (p *publication) Trickle(ctx context.Context, frag string) error {
	return p.current().Trickle(ctx, frag)
}

// Restart restarts ICE.
func (p *publication) Restart(ctx context.Context, frag string) (string, error) {
	return p.current().Restart(ctx, frag)
}

// Close ends the publication.
func (p *publication) Close(reason string) {
	p.session.logger.Info("publisher leaves", keyReason, reason)
	if peer := p.current(); peer != nil {
		peer.Close()
	}
	p.session.unpublish(p)
}

// Done is closed when the publisher is gone.
func (p *publication) Done() <-chan struct{} { return p.done }

// addTrack takes one incoming track in: video becomes a source, sound the microphone.
func (s *Session) addTrack(p *publication, in *rtc.InTrack) {
	switch {
	case in.Kind == "video":
	case p.source != "":
		s.drainTrack(p, in)
		return
	default:
		s.addMicrophone(p, in)
		return
	}
	layer, v, run, err := s.startSource(p, in)
	if err != nil {
		s.logger.Warn("a video track is not used", keySource, in.Source, keyError, err)
		s.drainTrack(p, in)
		return
	}
	if run != nil {
		s.wantsChanged()
		s.shared.metrics.running(v.track)
		go func() { // counted by startSource
			defer s.tasks.Done()
			if err := v.track.Run(run); err != nil && !errors.Is(err, context.Canceled) {
				s.logger.Error("a video track ended", keySource, v.src.name, keyError, err)
			}
			s.shared.metrics.retire(v.track)
		}()
	}
	go func() { // counted by startSource
		defer s.tasks.Done()
		defer s.layerEnded(v)
		readVideo(in, layer)
		p.trackEnded()
	}()
}

// readVideo moves packets from the network to a track's layer until it ends. Push never blocks, so Pion's buffer stays empty.
func readVideo(in *rtc.InTrack, layer *frames.Layer) {
	for {
		packet, err := in.ReadRTP()
		if err != nil {
			return
		}
		if !layer.Push(packet, time.Now()) {
			in.Reuse()
		}
	}
}

// drainTrack reads a track that nothing uses: Pion's interceptors work in its reader, and unread packets would be reported lost.
func (s *Session) drainTrack(p *publication, in *rtc.InTrack) {
	if !s.begin() {
		return
	}
	go func() {
		defer s.tasks.Done()
		defer p.trackEnded()
		in.Drain()
	}()
}
