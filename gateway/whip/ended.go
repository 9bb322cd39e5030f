package whip

import "time"

const (
	endedFor  = time.Minute // a DELETE that crosses its publication's own end comes within this
	endedMost = 256         // the newest are kept
)

// endings knows the publications that ended by themselves a moment ago. A client that hangs up closes its connection and sends DELETE: where
// the close arrives first, the DELETE has still done what it asked for, and is answered 200. Pure; time is passed in.
type endings struct {
	sessions map[string]string // session by secret
	order    []ending          // oldest first
}

type ending struct {
	secret string
	at     time.Time
}

func (e *endings) add(secret, session string, at time.Time) {
	e.forget(at)
	if e.sessions == nil {
		e.sessions = make(map[string]string)
	}
	e.sessions[secret] = session
	if e.order = append(e.order, ending{secret, at}); len(e.order) > endedMost {
		delete(e.sessions, e.order[0].secret)
		e.order = e.order[1:]
	}
}

// take tells whose publication it was, once.
func (e *endings) take(secret string, at time.Time) (session string, ok bool) {
	e.forget(at)
	session, ok = e.sessions[secret]
	delete(e.sessions, secret)
	return session, ok
}

func (e *endings) forget(at time.Time) {
	for len(e.order) > 0 && at.Sub(e.order[0].at) >= endedFor {
		delete(e.sessions, e.order[0].secret)
		e.order = e.order[1:]
	}
}
