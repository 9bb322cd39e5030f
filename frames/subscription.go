package frames

import "fmt"

// MaxFPS bounds the rate of a subscription, in images per second.
const MaxFPS = 30

// Want is a subscription's wish.
type Want struct {
	FPS     float64 // images per second: over 0, up to MaxFPS
	Options EncodeOptions
}

// Validate names the first field that is out of range, and the range.
func (w Want) Validate() error {
	if !(w.FPS > 0 && w.FPS <= MaxFPS) {
		return fmt.Errorf("fps %v: must be over 0 and at most %d", w.FPS, MaxFPS)
	}
	return w.Options.Validate()
}

// Subscription is one watcher of a track: a one-slot mailbox that the track fills at the wanted rate.
type Subscription struct {
	track *Track
	box   *Latest[*Image]
	want  Want
}

// C receives when there may be an image to take.
func (s *Subscription) C() <-chan struct{} { return s.box.C() }

// Take gives the newest image and how many newer ones displaced since the last that was taken; ok is false when there is none.
func (s *Subscription) Take() (img *Image, superseded uint64, ok bool) { return s.box.Take() }

// Close ends the subscription; Take then gives nothing. It may be called again.
func (s *Subscription) Close() { s.box.Close() }
