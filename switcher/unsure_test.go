package switcher

import (
	"log/slog"
	"testing"
	"time"
)

// TestG5EndDuringCommit: the session ends while nobody knows whether the commit is in the log. Nothing is recorded any more, since
// it could be of the old epoch after the commit; the next Switcher answers what is open.
func TestG5EndDuringCommit(t *testing.T) {
	c := newCore(policy{times: Times{Prepare: time.Second, MaxWait: time.Second, Tool: time.Second}, maxTools: 3}, slog.New(slog.DiscardHandler))
	take := func(e event) []action { return c.handle(e, t0) }
	take(evBegin{pipes: []Pipeline{{Name: "a", Kind: Cascade, Can: Capability{InRate: 8000}}, {Name: "b", Kind: Realtime}}, first: "a"})
	commit := func(epoch uint64, op string) {
		take(evStarted{opID: op, seq: 1})
		take(evOutput{epoch, ReadyOut{}})
		take(evFlushed{epoch})
	}
	commit(1, "first:1")
	take(evCommitted{epoch: 1})
	take(evFloored{})
	take(evOutput{1, ToolCallOut{CallID: "c1", Name: "lookup"}})
	take(evSwitch{SwitchRequest: SwitchRequest{OpID: "op", Target: "b", At: AtNow, MaxWait: time.Second, PrepareTimeout: time.Second}, ticket: 1})
	commit(2, "op")
	if s := c.runs[2].state; s != runCommitting {
		t.Fatalf("the leg is %s", s)
	}
	take(evOutput{1, TranscriptOut{Item: "u1", Text: "late", Final: true}})
	take(evToolDone{"c1", "42", false})
	for _, a := range append(take(evEnd{}), c.ended()...) {
		switch a := a.(type) {
		case aRecord:
			t.Errorf("recorded: %+v", a.Event)
		case aWriteAborted:
			t.Errorf("written: %+v", a.item)
		}
	}
	if c.count.LateOutputs != 1 {
		t.Errorf("%+v", c.count)
	}
}
