package sound

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sightline/switcher"
)

// Whatever is done in whatever order: every piece of sound is heard, waiting, dropped as late or thrown away by a stop,
// and counted once; the stream is sound; each turn is told to have begun before it ends, and ends once.
func TestG8EverySoundIsCountedOnce(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			s := newStage(t)
			var given time.Duration
			epoch := uint64(1)
			turns := func() switcher.TurnID { return turnOf(epoch-random.Uint64N(2), string(rune('a'+random.IntN(6)))) }
			ends := make(map[switcher.TurnID]int)
			noteStopped := func(heard []switcher.HeardTurn) {
				for _, h := range heard {
					ends[h.TurnID]++
				}
			}
			for range 400 {
				switch random.IntN(12) {
				case 0, 1, 2, 3, 4:
					rate := []int{8000, 12000, 16000, 24000, 48000}[random.IntN(5)]
					pcm := tone(440, rate, time.Duration(1+random.IntN(150))*ms)
					if s.p.queue.length < s.p.limit/2 {
						s.play(turns(), rate, pcm)
						given += time.Duration(len(pcm)) * time.Second / time.Duration(rate)
					}
				case 5, 6:
					s.p.end(turns())
				case 7:
					if random.IntN(4) == 0 {
						noteStopped(s.p.stop())
					}
				case 8:
					if random.IntN(6) == 0 {
						epoch++
					}
				case 9:
					s.refuse = nil
					if random.IntN(3) == 0 {
						s.refuse = errors.New("refused")
					}
				case 10:
					s.p.write, s.p.fresh = s.write, true
					if random.IntN(3) == 0 {
						s.p.write = nil
					}
				case 11:
					s.now = s.now.Add(time.Duration(random.IntN(150)) * ms) // nobody wakes the clock
				}
				s.wait(time.Duration(random.IntN(70))*ms, func() time.Duration { return time.Duration(random.IntN(8)) * ms })
				for _, h := range s.heard() {
					if h.Done || h.Stopped {
						ends[h.TurnID]++
					} else if h.Started.IsZero() || ends[h.TurnID] > 0 {
						t.Errorf("%+v", h)
					}
				}
				var pending time.Duration
				if s.p.pending {
					pending = s.p.owns.duration()
				}
				st := s.p.stats
				if sum := st.Played + st.StoppedTime + st.LateTime + s.p.queue.length.duration() + pending; (sum - given).Abs() > ms {
					t.Fatalf("%v given, %v accounted for: %+v, %v queued", given, sum, st, s.p.queue.length.duration())
				}
			}
			for id, n := range ends {
				if n > 1 {
					t.Errorf("%+v ended %d times", id, n)
				}
			}
			if len(s.packets) < 50 || len(ends) < 3 {
				t.Errorf("%d packets, %d turns ended: too little happened", len(s.packets), len(ends))
			}
			s.listen()
		})
	}
}
