package frames

import (
	"fmt"
	"slices"
	"time"
)

// MaxFPS bounds the rate of a subscription, in images per second.
const MaxFPS = 30

// Want is a subscription's wish.
type Want struct {
	FPS     float64 // images per second: over 0, up to MaxFPS
	Options EncodeOptions

	SpeakingFPS float64       // the rate while the caller speaks, see Subscription.Speech; 0: FPS
	OnChange    bool          // only images that show something else than the last one given, at most FPS
	MaxGap      time.Duration // with OnChange: one after so long nevertheless; 0: none
}

func (w Want) rate(speaking bool) float64 {
	if speaking && w.SpeakingFPS > 0 {
		return w.SpeakingFPS
	}
	return w.FPS
}

// Validate names the first field that is out of range, and the range.
func (w Want) Validate() error {
	if !(w.FPS > 0 && w.FPS <= MaxFPS) {
		return fmt.Errorf("fps %v: must be over 0 and at most %d", w.FPS, MaxFPS)
	}
	if w.SpeakingFPS != 0 && !(w.SpeakingFPS > 0 && w.SpeakingFPS <= MaxFPS) {
		return fmt.Errorf("speaking fps %v: must be over 0 and at most %d", w.SpeakingFPS, MaxFPS)
	}
	if w.MaxGap < 0 || w.MaxGap > 0 && !w.OnChange {
		return fmt.Errorf("max gap %v: must not be negative, and goes with on change", w.MaxGap)
	}
	return w.Options.Validate()
}

// Subscription is one watcher of a track: a one-slot mailbox that the track fills at the wanted rate (G9).
type Subscription struct {
	track *Track
	box   *Latest[*Image]
	want  Want
	key   optionsKey

	// guarded by track.mu
	sampler sampler
	seen    uint64 // number of the last picture it was given: one that is early enough to be due again is not taken twice
	gone    bool

	change    changeGate
	unchanged uint64 // images withheld by it since Unchanged was last asked
	speaking  bool
	given     time.Time // the picture of its last image
}

// Subscribe adds a watcher; the first one wakes the track. Validate the Want first: a rate out of range is moved into it, and with bad
// options every encoding fails and is counted.
func (t *Track) Subscribe(w Want) *Subscription {
	w.Options = w.Options.clone()
	s := &Subscription{track: t, box: NewLatest[*Image](), want: w, key: w.Options.key(), sampler: newSampler(w.FPS), change: changeGate{gap: w.MaxGap}}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.subs = append(t.subs, s)
	if img := t.present(s.key, time.Now()); img != nil {
		s.box.Put(img)
		t.st.Delivered++
	}
	t.activate()
	return s
}

// C receives when there may be an image to take.
func (s *Subscription) C() <-chan struct{} { return s.box.C() }

// Take gives the newest image and how many it displaced since the last one taken; ok is false when there is none.
func (s *Subscription) Take() (img *Image, superseded uint64, ok bool) { return s.box.Take() }

// Close ends the subscription; Take then gives nothing. It may be called again.
func (s *Subscription) Close() {
	s.box.Close()
	t := s.track
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	t.subs = slices.DeleteFunc(t.subs, func(o *Subscription) bool { return o == s })
	signal(t.control)
}
