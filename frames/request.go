package frames

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	cachedImages = 4  // newest images kept, one for each set of options
	maxWaiters   = 64 // requests waiting at once
)

// What Image's errors wrap.
var (
	ErrNoImage = errors.New("no image fresh enough")
	ErrBusy    = errors.New("too many requests wait for an image")
)

// Request asks for one image now.
type Request struct {
	Options EncodeOptions
	MaxAge  time.Duration // an image captured so long before the request will do; 0: its frame must arrive after the request
	Wait    time.Duration // how long to wait for one; 0: take only what is there
}

// Validate names the first field that is out of range, and the range.
func (r Request) Validate() error {
	if r.MaxAge < 0 {
		return fmt.Errorf("max age %v: must not be negative", r.MaxAge)
	}
	if r.Wait < 0 {
		return fmt.Errorf("wait %v: must not be negative", r.Wait)
	}
	return r.Options.Validate()
}

// waiter is a request that waits.
type waiter struct {
	key     optionsKey
	options EncodeOptions
	since   time.Time
	maxAge  time.Duration
	tried   uint64 // number of the last picture that was made into an image for it
	answer  chan answer
}

type answer struct {
	img *Image
	err error
}

// wants reports whether a picture is fresh enough.
func (r *waiter) wants(p shown) bool {
	if r.maxAge == 0 {
		return p.receivedAt.After(r.since)
	}
	return !p.captured.at.Before(r.since.Add(-r.maxAge))
}

type cachedImage struct {
	key optionsKey
	img *Image
}

// Image gives a cached image that is fresh enough, or waits for one. It wakes an idle track, which decodes for two seconds more. Errors:
// what Validate says, ErrBusy, ctx's, an encoder's, or ErrNoImage with the reason.
func (t *Track) Image(ctx context.Context, r Request) (*Image, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	now := time.Now()
	t.mu.Lock()
	if t.asm.active {
		t.lastDemand = now
	}
	key := r.Options.key()
	if img := t.cached(key, now, r.MaxAge); img != nil {
		t.st.Delivered++
		t.mu.Unlock()
		return img, nil
	}
	if r.Wait == 0 || t.over {
		defer t.mu.Unlock()
		return nil, t.noImage(now, r)
	}
	if len(t.waiters) >= maxWaiters {
		t.mu.Unlock()
		return nil, fmt.Errorf("%w: %d, the most", ErrBusy, maxWaiters)
	}
	w := &waiter{key: key, options: r.Options.clone(), since: now, maxAge: r.MaxAge, answer: make(chan answer, 1)}
	t.waiters = append(t.waiters, w)
	t.lastDemand = now
	t.activate()
	t.mu.Unlock()

	timer := time.NewTimer(r.Wait)
	defer timer.Stop()
	var err error
	select {
	case a := <-w.answer:
		return a.img, a.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
	case <-t.ended:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.forget(w) { // answered in the same moment
		select {
		case a := <-w.answer:
			return a.img, a.err
		default:
		}
	}
	if err == nil {
		err = t.noImage(time.Now(), r)
	}
	return nil, err
}

// cached finds the newest image of these options; t.mu is held.
func (t *Track) cached(key optionsKey, now time.Time, maxAge time.Duration) *Image {
	for _, c := range t.cache {
		if c.img != nil && c.key == key && maxAge > 0 && c.img.Age(now) <= maxAge {
			return c.img
		}
	}
	return nil
}

// remember keeps img instead of the last one of its options, or of the oldest; t.mu is held.
func (t *Track) remember(key optionsKey, img *Image) {
	at := 0
	for i, c := range t.cache {
		if c.img != nil && c.key == key {
			at = i
			break
		}
		if o := t.cache[at].img; o != nil && (c.img == nil || c.img.Seq < o.Seq) {
			at = i
		}
	}
	t.cache[at] = cachedImage{key, img}
}

// answer ends the wait of r; false if it waits no more. t.mu is held.
func (t *Track) answer(r *waiter, img *Image, err error) bool {
	if !t.forget(r) {
		return false
	}
	t.lastDemand = time.Now()
	r.answer <- answer{img, err}
	return true
}

func (t *Track) forget(r *waiter) bool {
	i := slices.Index(t.waiters, r)
	if i < 0 {
		return false
	}
	t.waiters = slices.Delete(t.waiters, i, i+1)
	return true
}

// noImage says why there is none; t.mu is held.
func (t *Track) noImage(now time.Time, r Request) error {
	state := t.state(now).State
	var newest *Image
	for _, c := range t.cache {
		if c.img != nil && (newest == nil || c.img.Seq > newest.Seq) {
			newest = c.img
		}
	}
	if newest == nil {
		return fmt.Errorf("%w: source %q is %s, there is no image of it yet", ErrNoImage, t.cfg.Source, state)
	}
	return fmt.Errorf("%w: source %q is %s, its newest image is %v old, wanted %v or less",
		ErrNoImage, t.cfg.Source, state, newest.Age(now).Round(time.Millisecond), r.MaxAge)
}
