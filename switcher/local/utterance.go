package local

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"sightline/switcher/cascade"
)

// utterance is sound on its way through one process. Its partial texts come at the caller's pauses.
type utterance struct {
	r      *Recognizer
	cancel context.CancelFunc
	wake   chan struct{} // capacity 1
	done   chan struct{} // text and err are there, the process is gone

	mu      sync.Mutex
	pending []byte // PCM16, little endian
	total   int    // bytes, all that were written
	over    bool

	text string
	err  error
}

// Listen opens an utterance. It returns at once: sound is kept, MaxUtterance at most, until a process takes it.
func (r *Recognizer) Listen(ctx context.Context, partial func(text string)) (cascade.Utterance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return nil, unreachable(r.cfg.Program, errClosed)
	}
	own, cancel := context.WithCancel(ctx)
	u := &utterance{r: r, cancel: cancel, wake: make(chan struct{}, 1), done: make(chan struct{}), pending: make([]byte, lead)}
	go u.run(own, partial)
	return u, nil
}

func (u *utterance) Write(pcm []int16) error {
	select {
	case <-u.done:
		if u.err != nil {
			return u.err
		}
	default:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return errors.New("sound after the end of the utterance")
	}
	if u.total+2*len(pcm) > 2*recognizerRate*int(MaxUtterance/time.Second) {
		return &cascade.EngineError{Code: "invalid", Message: fmt.Sprintf("an utterance of more than %s", MaxUtterance)}
	}
	u.total += 2 * len(pcm)
	for _, s := range pcm {
		u.pending = binary.LittleEndian.AppendUint16(u.pending, uint16(s))
	}
	u.poke()
	return nil
}

func (u *utterance) poke() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *utterance) Finish(ctx context.Context) (string, error) {
	u.mu.Lock()
	u.over = true
	u.poke()
	u.mu.Unlock()
	select {
	case <-u.done:
	case <-ctx.Done():
		u.Close()
		if u.err == nil { // it was done in the same moment
			break
		}
		return "", ctx.Err()
	}
	return u.text, u.err
}

func (u *utterance) Close() {
	u.cancel()
	<-u.done
}

func (u *utterance) run(ctx context.Context, partial func(string)) {
	defer close(u.done)
	defer u.cancel()
	u.text, u.err = u.recognise(ctx, partial)
	if u.err != nil && ctx.Err() == nil {
		u.r.failed.Add(1)
		u.r.cfg.Log.Warn("an utterance was not understood", "error", u.err)
	}
}

func (u *utterance) recognise(ctx context.Context, partial func(string)) (string, error) {
	slot := time.NewTimer(slotWait)
	defer slot.Stop()
	select {
	case u.r.slots <- struct{}{}:
		defer func() { <-u.r.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	case <-slot.C:
		return "", &cascade.EngineError{Code: "overloaded", Message: fmt.Sprintf("%d utterances are being recognised, no more at once", cap(u.r.slots)), Retryable: true, After: time.Second}
	}
	p, err := u.r.take()
	if err != nil {
		return "", err
	}
	defer p.end()
	defer context.AfterFunc(ctx, func() {
		p.kill()
		_ = p.out.SetReadDeadline(time.Now())
	})()
	var text string
	var reading sync.WaitGroup
	reading.Go(func() { text = read(p, partial) })
	err = u.feed(ctx, p)
	if err == nil {
		err = u.wait(ctx, p)
	}
	if err != nil {
		p.kill()
		_ = p.out.SetReadDeadline(time.Now())
	}
	reading.Wait()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	return text, err
}

// feed gives the process the sound as it comes, and the end of it.
func (u *utterance) feed(ctx context.Context, p *process) error {
	defer p.in.Close()
	for {
		u.mu.Lock()
		sound, over := u.pending, u.over
		u.pending = nil
		u.mu.Unlock()
		if len(sound) > 0 {
			if err := u.give(ctx, p, sound); err != nil {
				return err
			}
			continue
		}
		if over {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			return died(u.r.cfg.Program, p)
		case <-u.wake:
		}
	}
}

// give writes sound. The process may be slow, as at its start; it may not hang.
func (u *utterance) give(ctx context.Context, p *process, sound []byte) error {
	w := newWatch(p, u.r.cfg.Stall, time.Now())
	for {
		_ = p.in.SetWriteDeadline(time.Now().Add(w.every()))
		if ctx.Err() != nil { // after the deadline has been set, so that the end of ctx is not missed
			return ctx.Err()
		}
		n, err := p.in.Write(sound)
		sound = sound[n:]
		now := time.Now()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			p.kill() // it reads no more; most likely it is dead
			<-p.done
			return died(u.r.cfg.Program, p)
		case n > 0:
			w = newWatch(p, u.r.cfg.Stall, now)
		case w.hangs(now):
			return u.hung()
		}
	}
}

func (u *utterance) hung() error {
	return &cascade.EngineError{Code: "timeout", Message: u.r.cfg.Program + " hung and was killed", Retryable: true}
}

// wait is for the process to finish by itself.
func (u *utterance) wait(ctx context.Context, p *process) error {
	w := newWatch(p, u.r.cfg.Stall, time.Now())
	look := time.NewTicker(w.every())
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			if p.err != nil {
				return died(u.r.cfg.Program, p)
			}
			return nil
		case now := <-look.C:
			if w.hangs(now) {
				return u.hung()
			}
		}
	}
}

// read takes the lines of a process, one per stretch of speech, to its end.
func read(p *process, partial func(string)) string {
	var all string
	lines := bufio.NewScanner(p.out)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		text := words(lines.Text())
		if text == "" {
			continue
		}
		all = strings.TrimSpace(all + " " + text)
		if partial != nil {
			partial(all)
		}
	}
	return all
}

// words drops what the recogniser writes beside words: <sil>, [NOISE], the number of a pronunciation as in "read(2)".
func words(line string) string {
	var kept []string
	for w := range strings.FieldsSeq(line) {
		if strings.HasPrefix(w, "<") || strings.HasPrefix(w, "[") || strings.HasPrefix(w, "++") {
			continue
		}
		w, _, _ = strings.Cut(w, "(")
		kept = append(kept, w)
	}
	return strings.Join(kept, " ")
}
