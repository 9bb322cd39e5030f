package switcher

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestMeasuresAreTold: the times of a switch's steps, in their order, and what legs say of their stages, whoever has the floor; what
// cannot be is refused and counted.
func TestMeasuresAreTold(t *testing.T) {
	c := newCore(policy{times: Times{Prepare: time.Second, MaxWait: time.Second, Tool: time.Second}, maxTools: 3}, slog.New(slog.DiscardHandler))
	now := t0
	var told []Event
	take := func(e event) {
		now = now.Add(time.Millisecond)
		for _, a := range c.handle(e, now) {
			if o, ok := a.(aObserve); ok && (o.Event.Steps != nil || o.Event.Stage != nil) {
				told = append(told, o.Event)
			}
		}
	}
	take(evBegin{pipes: []Pipeline{{Name: "a", Kind: Cascade}, {Name: "b", Kind: Realtime}}, first: "a"}) // 1 ms
	take(evSeeded{epoch: 1})
	take(evStarted{opID: "first:1", seq: 1})
	take(evOutput{1, ReadyOut{}})
	take(evFlushed{1})
	take(evCommitted{epoch: 1})
	take(evFloored{})
	if len(told) != 1 {
		t.Fatalf("%d events", len(told))
	}
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	want := Steps{Why: "first", Asked: at(1), Seeded: at(2), Ready: at(4), Boundary: at(4), Flushed: at(5), Written: at(6), Released: at(7)}
	if got := *told[0].Steps; got != want {
		t.Errorf("steps %+v, want %+v", got, want)
	}
	take(evSwitch{SwitchRequest: SwitchRequest{OpID: "op", Target: "b", At: AtNow, MaxWait: time.Second, PrepareTimeout: time.Second, Reason: "somebody's words"}, ticket: 1}) // 8 ms
	take(evSeeded{epoch: 2})
	take(evDied{2, &LegError{Code: "connect"}})
	if got, want := *told[1].Steps, (Steps{Why: "switch", Asked: at(8), Seeded: at(9)}); got != want || told[1].Kind != PipelineAborted {
		t.Errorf("%s with steps %+v, want %+v", told[1].Kind, got, want)
	}

	good := StageOut{Stage: StageLLM, Engine: "m", Item: "a1", Began: at(1), First: at(2), Ended: at(3)}
	take(evOutput{1, good})
	if len(told) != 3 || told[2].Kind != StageEnded || *told[2].Stage != good || told[2].Epoch != 1 {
		t.Errorf("told %+v", told[2:])
	}
	for _, spoil := range []func(*StageOut){
		func(o *StageOut) { o.Stage = "thinking" }, func(o *StageOut) { o.Began = time.Time{} }, func(o *StageOut) { o.Ended = at(0) },
		func(o *StageOut) { o.First = at(0) }, func(o *StageOut) { o.First = at(4) }, func(o *StageOut) { o.Code = strings.Repeat("x", 65) },
		func(o *StageOut) { o.Engine = strings.Repeat("x", 129) }, func(o *StageOut) { o.Item = strings.Repeat("x", 65) },
	} {
		bad := good
		spoil(&bad)
		take(evOutput{1, bad})
	}
	if c.count.BadOutputs != 8 || len(told) != 3 {
		t.Errorf("%d of 8 refused, %d events", c.count.BadOutputs, len(told))
	}
}
