package cascade

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sightline/switcher"
)

// ladder is the order in which the engines of a stage are tried: as configured, those that failed lately last.
type ladder struct {
	stage string // stt, llm or tts: the beginning of its notices' codes
	names []string

	mu    sync.Mutex
	until []time.Time // an engine cools down until then
}

func newLadder[E interface{ Name() string }](stage string, engines []E) *ladder {
	l := &ladder{stage: stage, until: make([]time.Time, len(engines))}
	for _, e := range engines {
		l.names = append(l.names, e.Name())
	}
	return l
}

func (l *ladder) order(now time.Time) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ready, cooling []int
	for i, until := range l.until {
		if until.After(now) {
			cooling = append(cooling, i)
		} else {
			ready = append(ready, i)
		}
	}
	return append(ready, cooling...)
}

func (l *ladder) failed(i int, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until[i] = until
}

// errBroken: a stage failed after something of it had been used.
var errBroken = errors.New("broke off")

// timing is what a try of an engine notes of itself, for StageOut.
type timing struct {
	first     time.Time
	tokensIn  int
	tokensOut int
}

// begun notes the first time that it is called.
func (m *timing) begun() {
	if m.first.IsZero() {
		m.first = time.Now()
	}
}

// measured tells the session how long a try took; a leg that is being stopped tells nobody.
func (r *run) measured(ctx context.Context, l *ladder, i int, item string, began time.Time, m timing, err error) {
	if r.ctx.Err() != nil {
		return
	}
	o := switcher.StageOut{Stage: l.stage, Engine: l.names[i], Item: item, Began: began, First: m.first, Ended: time.Now(), TokensIn: m.tokensIn, TokensOut: m.tokensOut}
	if err != nil {
		if o.Code = code(err); ctx.Err() != nil {
			o.Code = "cancelled"
		}
	}
	_ = r.out(r.ctx, o)
}

// try runs a stage of an utterance or a turn: f with one engine after the other until it succeeds. f says whether something of what the
// engine gave has been used; then nothing is tried again and the error wraps errBroken.
func (r *run) try(ctx context.Context, l *ladder, item string, f func(ctx context.Context, i int, m *timing) (used bool, err error)) error {
	var last error
	for nth, i := range l.order(time.Now()) {
		if nth > 0 {
			r.notice(l.stage+"_failover", "%s stands in", l.names[i])
		}
		for attempt := range r.cfg.Retry.Attempts {
			began, m := time.Now(), timing{}
			used, err := f(ctx, i, &m)
			r.measured(ctx, l, i, item, began, m, err)
			if err == nil {
				l.failed(i, time.Time{})
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			last = fmt.Errorf("%s: %w", l.names[i], err)
			r.cfg.Log.Warn("an engine failed", "stage", l.stage, "engine", l.names[i], "attempt", attempt+1, "error", err)
			if used {
				l.failed(i, time.Now().Add(r.cfg.Retry.CoolDown))
				return fmt.Errorf("%w: %w", errBroken, last)
			}
			wait, again := r.backoff(err, attempt)
			if !again {
				break
			}
			r.notice(l.stage+"_retry", "%s: %s", l.names[i], code(err))
			if !sleep(ctx, wait) {
				return context.Cause(ctx)
			}
		}
		l.failed(i, time.Now().Add(r.cfg.Retry.CoolDown))
	}
	r.notice(l.stage+"_failed", "%s", code(last))
	return last
}

// backoff says how long to wait before the same engine is tried again, if it is.
func (r *run) backoff(err error, attempt int) (time.Duration, bool) {
	var e *EngineError
	if attempt+1 >= r.cfg.Retry.Attempts || errors.As(err, &e) && !e.Retryable {
		return 0, false
	}
	wait := min(r.cfg.Retry.Backoff<<attempt, r.cfg.Retry.MaxBackoff)
	if e != nil && e.After > 0 {
		wait = e.After
	}
	return wait, wait <= r.cfg.Retry.MaxBackoff
}

// code is the short form of an engine's error, for a notice: what a provider wrote stays in the log.
func code(err error) string {
	var e *EngineError
	switch {
	case err == nil:
		return "there is no engine"
	case errors.As(err, &e):
		return e.Code
	}
	return "failed"
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// notice tells the session; a leg that is being stopped tells nobody.
func (r *run) notice(code, format string, args ...any) {
	_ = r.out(r.ctx, switcher.NoticeOut{Code: code, Message: fmt.Sprintf(format, args...)})
}

// watch is a context that ends when an engine is silent for too long.
type watch struct {
	context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func newWatch(ctx context.Context, first time.Duration) *watch {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{Context: ctx, cancel: cancel}
	w.timer = time.AfterFunc(first, func() {
		cancel(&EngineError{Code: "timeout", Message: "no answer within " + first.String(), Retryable: true})
	})
	return w
}

// hold stops the clock while we are busy with what came; next sets it again.
func (w *watch) hold() { w.timer.Stop() }

func (w *watch) next(d time.Duration) { w.timer.Reset(d) }

// end gives the error that counts: the watch's own, if it was the reason.
func (w *watch) end(err error) error {
	w.timer.Stop()
	cause := context.Cause(w.Context)
	w.cancel(nil)
	var e *EngineError
	if err != nil && errors.As(cause, &e) && e.Code == "timeout" {
		return e
	}
	return err
}

func broke(err error) bool { return errors.Is(err, errBroken) }
