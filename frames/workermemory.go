package frames

import (
	"time"

	"sightline/frames/internal/coded"
	"sightline/frames/internal/jpegfast"
)

// linger is how long a picture is kept where images are requested one by one: the next request may want it with other options.
const linger = 300 * time.Millisecond

// borrowDecoder takes a decoder from the pool for a key frame; where there is none, it makes one.
func (w *worker) borrowDecoder(f *frame) (err error) {
	if f.key {
		need := max(decoderBytes(w.t.cfg.Codec, f.width, f.height), w.reserved) // a decoder keeps what it once had
		if !w.t.cfg.Budget.reserve(w.reserved, need) {
			return coded.ErrRefused
		}
		w.reserved = need
	}
	if w.dec != nil {
		return nil
	}
	w.join()
	if f.key {
		w.dec = w.t.cfg.Budget.pool.decoder(w.t.cfg.Codec, f.width, f.height)
	}
	w.suspect = false
	if w.dec == nil {
		w.dec, err = w.t.newDecoder()
	}
	return err
}

func (w *worker) borrowEncoder() (err error) {
	if w.enc != nil {
		return nil
	}
	w.join()
	if w.enc = w.t.cfg.Budget.pool.encoder(); w.enc == nil {
		w.enc, err = jpegfast.New()
	}
	return err
}

func (w *worker) join() {
	if !w.joined {
		w.t.cfg.Budget.pool.join()
		w.joined = true
	}
}

// look lets settling see the picture of a frame that is watched; looked says that it has a result.
func (w *worker) look(f *frame, err error) (after int, looked, ok bool) {
	switch {
	case !f.watch || err != nil:
		w.settle.stop()
	case f.key:
		w.settle.begin(&w.pic)
	case w.settle.add(&w.pic):
		after, ok = w.settle.result()
		w.settle.stop()
		return after, true, ok
	}
	return 0, false, false
}

// rest gives decoder and encoder back while only key frames are decoded and none is at hand.
func (w *worker) rest() {
	t := w.t
	now := time.Now()
	t.mu.Lock()
	free := t.chosen.now.policy == PolicyKeyframe && t.queue.n == 0 && !t.gate.expecting(now) && !now.Before(w.at.hold) &&
		(now.Sub(t.lastDemand) >= demandHold || now.Sub(w.at.receivedAt) >= linger)
	if free {
		t.gate.open = false // what follows refers to pictures that are gone
		t.held = shown{}
	}
	t.mu.Unlock()
	if free {
		w.release()
	}
}

// release gives all C memory back to the pool, or frees it.
func (w *worker) release() {
	if w.dec == nil && w.enc == nil {
		return
	}
	pool, most := &w.t.cfg.Budget.pool, w.t.cfg.Budget.slots
	if w.dec != nil && !w.suspect && pool.takeDecoder(w.dec, w.t.cfg.Codec, w.pic.Width, w.pic.Height, most) {
		w.dec = nil
	}
	if w.enc != nil && pool.takeEncoder(w.enc, most) {
		w.enc = nil
	}
	w.closeDecoder()
	w.closeEncoder()
	w.t.mu.Lock()
	w.t.st.CBytes = 0
	w.t.mu.Unlock()
}

// close frees all C memory, the pool's with the last track that is watched; work goes on with a new decoder and encoder when there is some.
func (w *worker) close() {
	w.release()
	if !w.joined {
		return
	}
	w.joined = false
	if err := w.t.cfg.Budget.pool.leave(); err != nil {
		w.t.log.Error("freeing decoders", "err", err)
	}
}

func (w *worker) bytes() (n int64) {
	if w.dec != nil {
		n = w.dec.Bytes()
	}
	if w.enc != nil {
		n += w.enc.Bytes()
	}
	return n
}

func (w *worker) closeDecoder() {
	w.at, w.pic = shown{}, Picture{}
	w.settle.stop()
	if w.dec != nil {
		if err := w.dec.Close(); err != nil {
			w.t.log.Error("closing decoder", "err", err)
		}
		w.dec = nil
	}
	w.t.cfg.Budget.reserve(w.reserved, 0)
	w.reserved = 0
}

func (w *worker) closeEncoder() {
	if w.enc != nil {
		if err := w.enc.Close(); err != nil {
			w.t.log.Error("closing encoder", "err", err)
		}
		w.enc = nil
	}
}
