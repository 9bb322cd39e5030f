package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound"
	"sightline/switcher"
)

// heardBy runs a listener whose reports are kept.
func heardBy(t *testing.T) (l *listener, reports func() []switcher.HeardTurn) {
	t.Helper()
	e, err := sound.NewEgress(sound.EgressConfig{})
	if err != nil {
		t.Fatal(err)
	}
	l = newListener(e)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, 2)
	go func() { _ = e.Run(ctx); done <- struct{}{} }()
	go func() { _ = l.run(ctx); done <- struct{}{} }()
	var all []switcher.HeardTurn
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case h := <-l.Heard():
				all = append(all, h)
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done; <-done; <-collected })
	return l, func() []switcher.HeardTurn { synctest.Wait(); return all }
}

func TestATurnNobodyCanHearIsTakenInAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reports := heardBy(t)
		turn := switcher.TurnID{Epoch: 1, Item: "a"}
		began := time.Now()
		if err := l.Play(t.Context(), turn, 16000, make([]int16, 160000)); err != nil {
			t.Fatal(err)
		}
		l.EndTurn(turn)
		got := reports()
		if len(got) != 2 || got[0].Started.IsZero() || !got[1].Done || got[1].Played != 10*time.Second || time.Since(began) > 0 {
			t.Errorf("reports %+v after %s", got, time.Since(began))
		}
	})
}

func TestG8ALateSoundOfAStoppedTurnIsNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reports := heardBy(t)
		var packets int
		l.setWriter(func(*rtp.Packet) error { packets++; return nil })
		turn := switcher.TurnID{Epoch: 1, Item: "a"}
		if err := l.Play(t.Context(), turn, 16000, make([]int16, 32000)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		heard := l.Stop()
		if len(heard) != 1 || heard[0].Played < 400*time.Millisecond || heard[0].Played > 600*time.Millisecond {
			t.Fatalf("stopped: %+v", heard)
		}
		l.setWriter(nil) // the caller goes; what comes of the turn now is neither heard nor a new turn
		before := len(reports())
		if err := l.Play(t.Context(), turn, 16000, make([]int16, 32000)); err != nil {
			t.Fatal(err)
		}
		l.EndTurn(turn)
		time.Sleep(5 * time.Second)
		for _, h := range reports()[before:] {
			if h.Played > heard[0].Played || h.Done && h.Played > 0 {
				t.Errorf("reported after the stop: %+v", h)
			}
		}
	})
}

func TestATurnWaitsForACallerWhoComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, reports := heardBy(t)
		write := func(*rtp.Packet) error { return nil }
		l.setWriter(write)
		turn := switcher.TurnID{Epoch: 1, Item: "a"}
		if err := l.Play(t.Context(), turn, 16000, make([]int16, 32000)); err != nil {
			t.Fatal(err)
		}
		l.EndTurn(turn)
		time.Sleep(500 * time.Millisecond)
		l.setWriter(nil)
		time.Sleep(5 * time.Second)
		for _, h := range reports() {
			if h.Done {
				t.Fatalf("done while nobody heard: %+v", h)
			}
		}
		l.setWriter(write)
		time.Sleep(3 * time.Second)
		got := reports()
		if last := got[len(got)-1]; !last.Done || last.Played != 2*time.Second {
			t.Errorf("reports %+v", got)
		}
	})
}
