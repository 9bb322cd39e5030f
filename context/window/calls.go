package window

import chatctx "sightline/context"

// TurnCalls counts the tool calls of the turn that is going on and says when there are more than the cap. A turn begins with a
// user message. It belongs to one goroutine.
type TurnCalls struct {
	limit int
	seen  map[string]struct{} // call_ids of this turn
	over  uint64
}

// TurnCalls makes the counter for MaxToolCallsPerTurn.
func (w ContextWindow) TurnCalls() (*TurnCalls, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	return &TurnCalls{limit: or(w.MaxToolCallsPerTurn, DefaultMaxToolCallsPerTurn), seen: map[string]struct{}{}}, nil
}

// Allow counts a call before it is carried out and reports whether it is within the cap. A call_id counts once, so a call that
// is reported again, or has been seen in the log, is answered as before.
func (t *TurnCalls) Allow(callID string) bool {
	if _, known := t.seen[callID]; known {
		return true
	}
	if len(t.seen) >= t.limit {
		t.over++
		return false
	}
	t.seen[callID] = struct{}{}
	return true
}

// Apply follows the log: a user message begins a turn, a call that was recorded counts.
func (t *TurnCalls) Apply(e chatctx.Entry) {
	if e.Op == chatctx.OpUpdate {
		return
	}
	switch it := e.Item.(type) {
	case *chatctx.Message:
		if it.Role == chatctx.RoleUser {
			clear(t.seen)
		}
	case *chatctx.FunctionCall:
		t.seen[it.CallID] = struct{}{}
	}
}

// Count is how many calls this turn has made.
func (t *TurnCalls) Count() int { return len(t.seen) }

// Over reports whether the turn may make no more calls.
func (t *TurnCalls) Over() bool { return len(t.seen) >= t.limit }

// Refused is how many calls were over the cap, in all turns.
func (t *TurnCalls) Refused() uint64 { return t.over }
