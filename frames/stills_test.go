package frames

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// held is a still that is not done before its gate opens.
type held struct {
	blank
	gate chan struct{}
}

func (h *held) At(x, y int) color.Color {
	<-h.gate
	return h.blank.At(x, y)
}

func heldStill(side int) *held {
	return &held{blank{image.Rect(0, 0, side, side)}, make(chan struct{})}
}

var tiny = EncodeOptions{Quality: 75, Resize: &ResizeOptions{Width: 16, Height: 16}}

func TestStillsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStills(StillsConfig{Workers: 2, Waiting: 3, WaitingBytes: 15000, Wait: time.Minute})
		var mu sync.Mutex
		var done []string
		gate := make(chan struct{})
		put := func(ctx context.Context, name string, frame any) {
			go func() {
				_, err := s.Encode(ctx, frame, &tiny)
				if err != nil {
					name += ": " + err.Error()
				}
				mu.Lock()
				defer mu.Unlock()
				done = append(done, name)
			}()
			synctest.Wait()
		}
		for _, name := range []string{"a", "b", "c"} {
			put(t.Context(), name, &held{blank{image.Rect(0, 0, 4, 4)}, gate})
		}
		jpeg := stillFile(t, "control-baseline.jpg") // 10482 bytes
		put(t.Context(), "d", jpeg)
		if st := s.Stats(); st.Working != 2 || st.Waiting != 2 || st.WaitingBytes != 10482 || st.Bytes == 0 || st.Bytes != st.MostBytes {
			t.Errorf("%+v", st)
		}
		if _, err := s.Encode(t.Context(), jpeg, &tiny); !errors.Is(err, ErrStillsFull) {
			t.Errorf("too many bytes wait: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		put(gone, "gone", &blank{image.Rect(0, 0, 4, 4)})
		if _, err := s.Encode(t.Context(), &blank{image.Rect(0, 0, 4, 4)}, &tiny); !errors.Is(err, ErrStillsFull) || !strings.Contains(err.Error(), "3 of ") {
			t.Errorf("a fourth waits: %v", err)
		}
		for _, bad := range []any{"no frame", jpeg[:500], &blank{image.Rect(0, 0, 20000, 1)}} { // refused although all is full
			if _, err := s.Encode(t.Context(), bad, &tiny); err == nil {
				t.Errorf("%T: no error", bad)
			}
		}
		cancel()
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if got := fmt.Sprint(done); !strings.Contains(got, "gone: context canceled") || len(done) != 5 {
			t.Errorf("%s", got)
		}
		if st := s.Stats(); st != (StillsStats{Made: 4, Bad: 2, TooLarge: 1, Full: 2, Late: 1, MostBytes: st.MostBytes}) {
			t.Errorf("%+v", st)
		}
	})
}

// Nobody overtakes, also where a small one would fit beside a large one that does not; who has waited long enough is told so.
func TestStillsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := planStill(&blank{image.Rect(0, 0, 4, 4)}, tiny)
		if err != nil {
			t.Fatal(err)
		}
		s := NewStills(StillsConfig{Workers: 4, Bytes: 2*p.need + 2<<20, Wait: time.Minute})
		first := heldStill(4)
		var mu sync.Mutex
		var order []string
		put := func(name string, frame any) {
			go func() {
				if _, err := s.Encode(t.Context(), frame, &tiny); err != nil {
					name += " " + err.Error()
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			}()
			synctest.Wait()
		}
		put("first", first)
		put("large", &Raw{Format: RawNV12, Width: 2100, Height: 2000, Planes: [3][]byte{make([]byte, 4200000), make([]byte, 2100000)}}) // 2.1 MB of chroma
		put("small", &blank{image.Rect(0, 0, 4, 4)})
		if len(order) != 0 || s.Stats().Waiting != 2 {
			t.Errorf("%v, %+v", order, s.Stats())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		close(first.gate)
		synctest.Wait()
		if len(order) != 3 || order[2] != "first" || !strings.Contains(order[0]+order[1], ErrStillsLate.Error()) {
			t.Errorf("%q", order)
		}
		if _, err := s.Encode(t.Context(), &Raw{Format: RawNV12, Width: 6000, Height: 3000, Planes: [3][]byte{make([]byte, 18000000), make([]byte, 9000000)}}, &tiny); !errors.Is(err, ErrStillTooLarge) {
			t.Errorf("more than there is for all: %v", err)
		}
	})
}

// TestStillsDoNotDelayVideo: with every place for stills taken for good and as many waiting as may, a track makes each image that it makes
// without them; and with every slot of video taken, stills are made.
func TestStillsDoNotDelayVideo(t *testing.T) {
	c := loadClip(t, face480)
	var alone TrackStats
	for _, flood := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			budget, stills := NewBudget(1), NewStills(StillsConfig{Workers: 1, Waiting: 32, Wait: time.Hour})
			r, p := newRig(t, func(cfg *TrackConfig) { cfg.Budget = budget }), newPublisher(c)
			defer r.stop()
			gate := make(chan struct{})
			if flood {
				for range 33 {
					go func() {
						if _, err := stills.Encode(t.Context(), &held{blank{image.Rect(0, 0, 64, 64)}, gate}, &tiny); err != nil {
							t.Error(err)
						}
					}()
				}
				synctest.Wait()
			}
			sub := r.track.Subscribe(Want{FPS: 10, Options: tiny})
			defer sub.Close()
			r.play(p, 45)
			st := r.track.Stats()
			if !flood {
				alone = st
			} else if s := stills.Stats(); s.Made != 0 || s.Working != 1 || s.Waiting != 32 {
				t.Errorf("%+v", s)
			}
			if st.Encoded != alone.Encoded || st.Decoded != alone.Decoded || st.Encoded < 14 || st.Superseded != alone.Superseded {
				t.Errorf("%d decoded and %d images, %d and %d without stills", st.Decoded, st.Encoded, alone.Decoded, alone.Encoded)
			}
			if err := budget.acquire(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			close(gate)
			synctest.Wait()
			if s := stills.Stats(); flood && (s.Made != 33 || s.Working != 0) {
				t.Errorf("with video at work: %+v", s)
			}
			budget.release()
		})
	}
}

// TestBudgetIsFair: as long as key frames wait without end, every fourth turn is another's.
func TestBudgetIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(1)
		if err := b.acquire(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 100)
		wait := func(name string, key bool, turns int) {
			go func() {
				for range turns {
					if err := b.acquire(t.Context(), key); err != nil {
						t.Error(err)
						return
					}
					order <- name
					b.release()
				}
			}()
			synctest.Wait()
		}
		for range 20 {
			wait("k", true, 1)
		}
		for range 4 {
			wait("d", false, 1)
		}
		b.release()
		synctest.Wait()
		close(order)
		got := ""
		for name := range order {
			got += name
		}
		if got != "kkkdkkkdkkkdkkkdkkkkkkkk" {
			t.Errorf("order %q", got)
		}
		if b.free != 1 {
			t.Errorf("%d slots free, want 1", b.free)
		}
	})
}
