package rtc

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"sightline/gateway/problem"
)

func TestG13CloseNotifyEndsThePeerAtOnce(t *testing.T) {
	e := newEngine(t, nil)
	p := newPublisher(t, publisherOptions{})
	peer, s := publish(t, e, p, "camera")
	began := time.Now()
	if err := p.pc.Close(); err != nil {
		t.Fatal(err)
	}
	waitDone(t, peer)
	if took := time.Since(began); took > iceDisconnectedAfter {
		t.Errorf("took %v: as if it had vanished", took)
	}
	waitFor(t, "the track's reader ended", func() bool { return s.ended.Load() == 1 })
	wantLastState(t, s, StateClosed)
	if muxEntries(e) != 0 || e.Stats() != (EngineStats{}) {
		t.Errorf("left: %d mux entries, %+v", muxEntries(e), e.Stats())
	}
}

func TestG13VanishedPublisherFailsAndIsGone(t *testing.T) {
	if total := iceDisconnectedAfter + iceFailedAfter; total > 15*time.Second {
		t.Errorf("a vanished publisher is noticed only after %v", total)
	}
	e := newEngine(t, func(c *Config) { c.disconnectedAfter, c.failedAfter = time.Second, time.Second })
	p := newPublisher(t, publisherOptions{})
	peer, s := publish(t, e, p, "camera")
	_ = p.socket.Close() // no close_notify, no more packets
	waitDone(t, peer)
	for _, want := range []State{StateConnected, StateDisconnected, StateFailed} {
		if !s.saw(want) {
			t.Errorf("state %s was not told: %v", want, s.states)
		}
	}
	wantLastState(t, s, StateClosed)
}

func TestG12NeverConnectedPeerIsGivenUp(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.ConnectTimeout = 300 * time.Millisecond; c.MaxUnconnected = 2 })
	s := &sink{}
	first, _, err := e.Accept(t.Context(), minimal, s.handlers())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = e.Accept(t.Context(), minimal, Handlers{}); err != nil {
		t.Fatal(err)
	}
	_, _, err = e.Accept(t.Context(), minimal, Handlers{})
	wantProblem(t, err, problem.Overloaded, "at most 2")
	if problem.From(err).RetryAfter <= 0 {
		t.Error("overloaded without Retry-After")
	}
	waitDone(t, first)
	if !s.saw(StateFailed) {
		t.Errorf("states %v", s.states)
	}
	waitFor(t, "room for others", func() bool { return e.Stats() == (EngineStats{}) })
	p, _, err := e.Accept(t.Context(), minimal, Handlers{})
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}

func TestCancelledAcceptLeavesNothing(t *testing.T) {
	e := newEngine(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := e.Accept(ctx, minimal, Handlers{}); err == nil {
		t.Fatal("accepted for nobody")
	}
	if e.Stats() != (EngineStats{}) || muxEntries(e) != 0 {
		t.Errorf("left: %+v, %d mux entries", e.Stats(), muxEntries(e))
	}
}

func TestPeerOutlivesTheContextOfItsOffer(t *testing.T) {
	e := newEngine(t, nil)
	p, s := newPublisher(t, publisherOptions{}), &sink{}
	ctx, cancel := context.WithCancel(t.Context())
	peer, answer, err := e.Accept(ctx, p.offer(nil), s.handlers())
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	p.accept(answer)
	p.send()
	waitFor(t, "packets", func() bool { return s.count("camera") > 10 })
}

// TestG13ManyPeersAtRandomPoints opens and closes peers wherever they are in their set-up.
func TestG13ManyPeersAtRandomPoints(t *testing.T) {
	const peers, atATime = 200, 8
	e := newEngine(t, func(c *Config) { c.TCPPort = 0 })
	one := func(t *testing.T, rnd *rand.Rand) {
		s := &sink{}
		p := newPublisher(t, publisherOptions{audio: rnd.IntN(2) == 0})
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(30))*time.Millisecond+time.Microsecond)
		defer cancel()
		if rnd.IntN(4) > 0 {
			ctx = t.Context()
		}
		peer, answer, err := e.Accept(ctx, p.offer(nil), s.handlers())
		if err != nil {
			return // cancelled while gathering
		}
		if rnd.IntN(5) > 0 {
			p.accept(answer)
			p.send()
		}
		<-time.After(time.Duration(rnd.IntN(80)) * time.Millisecond)
		if rnd.IntN(2) == 0 {
			_ = p.pc.Close()
		}
		peer.Close()
	}
	t.Run("warm up", func(t *testing.T) { one(t, rand.New(rand.NewPCG(1, 1))) })
	base := runtime.NumGoroutine()
	t.Run("many", func(t *testing.T) {
		var wg sync.WaitGroup
		next := make(chan uint64)
		for range atATime {
			wg.Go(func() {
				for seed := range next {
					t.Run("", func(t *testing.T) { one(t, rand.New(rand.NewPCG(seed, 2))) })
				}
			})
		}
		for i := range uint64(peers) {
			next <- i
		}
		close(next)
		wg.Wait()
	})
	waitFor(t, "goroutines back to base", func() bool { return runtime.NumGoroutine() <= base+5 })
	if e.Stats() != (EngineStats{}) {
		t.Errorf("left: %+v", e.Stats())
	}
	waitFor(t, "mux maps empty", func() bool { return muxEntries(e) == 0 })
}

func TestCloseFromManySidesIsOne(t *testing.T) {
	e := newEngine(t, nil)
	peer, _ := publish(t, e, newPublisher(t, publisherOptions{}), "camera")
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(peer.Close)
	}
	wg.Go(func() { _ = e.Close() })
	wg.Wait()
	waitDone(t, peer)
	_, _, err := e.Accept(t.Context(), minimal, Handlers{})
	wantProblem(t, err, problem.Draining, "shutting down")
	wantProblem(t, peer.Trickle(t.Context(), "a=end-of-candidates"), problem.NotFound, "gone")
	_, err = peer.Restart(t.Context(), "a=ice-ufrag:newone\r\na=ice-pwd:0123456789012345678901\r\n")
	wantProblem(t, err, problem.NotFound, "gone")
}
