package rtc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pion/logging"
)

// logFactory gives Pion's log to slog, at most one line a second and scope: strangers' packets can provoke any of it.
// Pion warns of what is ordinary here (a publisher without candidates, a handshake cut short by a reload): debug.
// Its errors are about one peer's packets, never about us: warnings. What it calls info and below is about packets
// and states, which we count ourselves: left out.
type logFactory struct{ log *slog.Logger }

func (f logFactory) NewLogger(scope string) logging.LeveledLogger {
	return &pionLogger{log: f.log.With("pion", scope)}
}

type pionLogger struct {
	log        *slog.Logger
	next       atomic.Int64 // unix nanoseconds before which nothing is written
	suppressed atomic.Int64
}

func (l *pionLogger) write(level slog.Level, msg func() string) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	now, next := time.Now().UnixNano(), l.next.Load()
	if now < next || !l.next.CompareAndSwap(next, now+int64(time.Second)) {
		l.suppressed.Add(1)
		return
	}
	if n := l.suppressed.Swap(0); n > 0 {
		l.log.Log(context.Background(), level, msg(), "suppressed", n)
		return
	}
	l.log.Log(context.Background(), level, msg())
}

func (l *pionLogger) Trace(string)          {}
func (l *pionLogger) Tracef(string, ...any) {}
func (l *pionLogger) Debug(string)          {}
func (l *pionLogger) Debugf(string, ...any) {}
func (l *pionLogger) Info(string)           {}
func (l *pionLogger) Infof(string, ...any)  {}

func (l *pionLogger) Warn(msg string) { l.write(slog.LevelDebug, func() string { return msg }) }
func (l *pionLogger) Warnf(format string, args ...any) {
	l.write(slog.LevelDebug, func() string { return fmt.Sprintf(format, args...) })
}
func (l *pionLogger) Errorf(format string, args ...any) { l.Error(fmt.Sprintf(format, args...)) }
func (l *pionLogger) Error(msg string) {
	level := slog.LevelWarn
	if strings.Contains(msg, "closed") { // what a write meets when the peer has just ended
		level = slog.LevelDebug
	}
	l.write(level, func() string { return msg })
}
