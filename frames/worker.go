package frames

import (
	"context"
	"errors"
	"time"

	"sightline/frames/internal/coded"
	"sightline/frames/internal/jpegfast"
)

// backlogWait is how long a due image is put off while newer frames wait to be decoded: after a burst the newest picture is wanted.
const backlogWait = 200 * time.Millisecond

// worker is the goroutine that owns all C memory of a track.
type worker struct {
	t        *Track
	dec      decoder
	reserved int64 // of the budget, for dec
	enc      *jpegfast.Encoder

	joined  bool // dec and enc may be the pool's
	suspect bool // dec has failed: it is not lent to others
	settle  settling

	pic Picture // valid until the next Decode
	at  shown   // when it is from

	scene scene  // how it looks, if
	seen  *scene // it is compared; else nil

	jobs []job // scratch
}

// shown says which frame the decoder's picture is of.
type shown struct {
	n          uint64 // pictures counted from 1; 0: there is none
	ts         uint32
	receivedAt time.Time
	captured   capture
	hold       time.Time // until when no images are made of it, because a better one follows; zero: it is good
}

// job is one image to make and who gets it.
type job struct {
	key     optionsKey
	options EncodeOptions
	subs    []*Subscription
	waiters []*waiter
}

func (t *Track) runWorker(ctx context.Context) {
	w := &worker{t: t}
	defer w.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.work:
		}
		for ctx.Err() == nil && w.step(ctx) {
		}
		w.rest()
	}
}

// step does one piece of work; false: there is none.
func (w *worker) step(ctx context.Context) bool {
	t := w.t
	t.mu.Lock()
	active, queued, key := t.asm.active, t.queue.n, t.queue.hasKey()
	more := queued == 0 && w.plan()
	t.mu.Unlock()
	if !active {
		w.close()
		return false
	}
	if queued == 0 && !more || t.cfg.Budget.acquire(ctx, key) != nil {
		return false
	}
	defer t.cfg.Budget.release()
	if more {
		w.encode()
		return true
	}
	t.mu.Lock()
	f, dropped := t.queue.pop()
	for _, d := range dropped {
		t.st.FrameDrops.Skipped++
		t.asm.recycle(d)
	}
	t.mu.Unlock()
	if f == nil {
		return true
	}
	err := w.decode(f)
	after, looked, ok := w.look(f, err)
	if err == nil {
		w.observe(f.receivedAt)
	}
	t.mu.Lock()
	if looked {
		t.settled(after, ok)
	}
	w.account(f, err)
	more = err == nil && w.plan()
	t.mu.Unlock()
	if more {
		w.encode()
	}
	return true
}

// decode decodes one frame; nil means a picture, ErrNoPicture none but no harm.
func (w *worker) decode(f *frame) error {
	err := safely(func() (err error) {
		if err := w.borrowDecoder(f); err != nil {
			return err
		}
		w.pic, err = w.dec.Decode(f.data)
		w.pic.Assume(f.colour)
		return err
	})
	if errors.Is(err, errPanic) {
		w.t.log.Error("decoder", "err", err)
		w.closeDecoder()
	}
	return err
}

// account counts what became of a frame and breaks the chain if it must be; t.mu is held.
func (w *worker) account(f *frame, err error) {
	t := w.t
	switch {
	case err == nil:
		t.st.Decoded++
		w.at = shown{n: t.st.Decoded, ts: f.ts, receivedAt: f.receivedAt, captured: f.captured}
		if f.hold {
			w.at.hold = f.receivedAt.Add(burstWait)
		}
	case errors.Is(err, coded.ErrNoPicture):
		w.at = shown{} // the planes of the last one may be written to
	default:
		w.at, w.suspect = shown{}, true
		t.worked()
		switch {
		case errors.Is(err, coded.ErrCorrupt):
			t.st.FrameDrops.Corrupt++
		case errors.Is(err, coded.ErrRefused):
			t.st.FrameDrops.Refused++
		default:
			t.st.FrameDrops.Decode++
		}
		if t.asm.active {
			w.breakChain()
		}
	}
	t.held = w.at
	t.asm.recycle(f)
	t.st.CBytes = w.bytes()
}

// breakChain drops back to the next key frame, which may be waiting already; t.mu is held.
func (w *worker) breakChain() {
	dropped, found := w.t.queue.toKey()
	for _, d := range dropped {
		w.t.st.FrameDrops.NeedKey++
		w.t.asm.recycle(d)
	}
	if !found {
		w.t.asm.breakChain()
		signal(w.t.control)
	}
}

// plan collects who is due for the present picture, one job for each set of options, and reports whether there are any. t.mu is held.
func (w *worker) plan() bool {
	w.jobs = w.jobs[:0]
	if w.at.n == 0 || !w.t.asm.active {
		return false
	}
	if !w.at.hold.IsZero() && time.Now().Before(w.at.hold) {
		w.t.holding = true
		return false
	}
	w.t.worked()
	at := w.at.receivedAt
	backlog := w.t.queue.n > 0
	for _, s := range w.t.subs {
		if s.seen >= w.at.n || !w.t.isDue(s, at) || backlog && s.sampler.overdue(at) < min(backlogWait, s.sampler.interval) {
			continue
		}
		s.seen = w.at.n
		s.sampler.took(at)
		if s.withholds(w.seen, at) {
			continue
		}
		j := w.job(s.key, s.want.Options)
		j.subs = append(j.subs, s)
	}
	for _, r := range w.t.waiters {
		if r.wants(w.at) && r.tried < w.at.n {
			r.tried = w.at.n
			j := w.job(r.key, r.options)
			j.waiters = append(j.waiters, r)
		}
	}
	return len(w.jobs) > 0
}

func (w *worker) job(key optionsKey, o EncodeOptions) *job {
	for i := range w.jobs {
		if w.jobs[i].key == key {
			return &w.jobs[i]
		}
	}
	n := len(w.jobs)
	if n == cap(w.jobs) {
		w.jobs = append(w.jobs, job{})
	}
	w.jobs = w.jobs[:n+1]
	j := &w.jobs[n]
	*j = job{key: key, options: o, subs: j.subs[:0], waiters: j.waiters[:0]}
	return j
}

// encode makes the planned images and hands them out.
func (w *worker) encode() {
	for i := range w.jobs {
		j := &w.jobs[i]
		if w.shared(j) {
			continue
		}
		var e encoded
		err := safely(func() (err error) {
			if err := w.borrowEncoder(); err != nil {
				return err
			}
			e, err = encodePicture(w.enc, &w.pic, j.options)
			return err
		})
		if errors.Is(err, errPanic) {
			w.t.log.Error("encoder", "err", err)
			w.closeEncoder()
		}
		w.deliver(j, e, err)
		clear(j.subs)
		clear(j.waiters)
	}
}

// shared hands out the image that was made of this picture before, for those who came to it later; false: there is none.
func (w *worker) shared(j *job) bool {
	t := w.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.cache {
		if c.img != nil && c.key == j.key && c.img.RTPTimestamp == w.at.ts && c.img.ReceivedAt.Equal(w.at.receivedAt) {
			t.hand(j, c.img)
			clear(j.subs)
			clear(j.waiters)
			return true
		}
	}
	return false
}

// deliver puts one image into every mailbox that wants it.
func (w *worker) deliver(j *job, e encoded, err error) {
	t := w.t
	t.mu.Lock()
	defer t.mu.Unlock()
	t.st.CBytes = w.bytes()
	if err != nil {
		t.st.EncodeErrors++
		for _, r := range j.waiters {
			t.answer(r, nil, err)
		}
		return
	}
	img := &Image{
		Source: t.cfg.Source, Seq: t.cfg.Images.Add(1), Data: e.data, MIME: j.options.Format.MIME(), Width: e.width, Height: e.height,
		CapturedAt: w.at.captured.at, CaptureError: w.at.captured.error, CaptureClock: w.at.captured.by, ReceivedAt: w.at.receivedAt, RTPTimestamp: w.at.ts, Black: e.black,
	}
	t.st.Encoded++
	t.st.LastCapturedAt, t.st.LastCaptureError, t.st.LastCaptureClock = img.CapturedAt, img.CaptureError, img.CaptureClock
	if t.asm.active && t.black != e.black {
		t.black = e.black
		signal(t.control)
	}
	t.remember(j.key, img)
	t.hand(j, img)
}

// hand gives an image to everybody of a job; t.mu is held.
func (t *Track) hand(j *job, img *Image) {
	for _, s := range j.subs {
		t.give(s, img)
	}
	for _, r := range j.waiters {
		if t.answer(r, img, nil) {
			t.st.Delivered++
		}
	}
}
