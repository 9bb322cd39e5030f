package switcher

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSwarmTrace prints what happens in one run: SIGHTLINE_SWARM_SEED and, shrunk, SIGHTLINE_SWARM_STEPS as a failing run prints them.
func TestSwarmTrace(t *testing.T) {
	text := os.Getenv("SIGHTLINE_SWARM_STEPS")
	if text == "" {
		return
	}
	var seed uint64
	_, _ = fmt.Sscan(os.Getenv("SIGHTLINE_SWARM_SEED"), &seed)
	var steps []swarmStep
	for part := range strings.SplitSeq(text, ", ") {
		do, rest, _ := strings.Cut(part, "(")
		arg, wait, _ := strings.Cut(rest, ") ")
		s := swarmStep{do: do}
		_, _ = fmt.Sscan(arg, &s.arg)
		s.wait, _ = time.ParseDuration(wait)
		steps = append(steps, s)
	}
	traceSwarm = t.Logf
	defer func() { traceSwarm = nil }()
	for _, f := range swarmRun(t, seed, steps) {
		t.Error(f)
	}
}

// traceSwarm prints, in TestSwarmTrace alone.
var traceSwarm func(format string, args ...any)

func (s *swarm) trace() {
	if traceSwarm == nil {
		return
	}
	list := s.rec.all()
	begin := list[0].at
	packets := map[TurnID]int{}
	for _, h := range list {
		if h.event == nil {
			packets[h.turn]++
			continue
		}
		e := h.event
		if e.Kind == TurnPlayed && !e.Final || e.Kind == LegsChanged {
			continue
		}
		traceSwarm("%8s %-20s e%d %s>%s %s %s %q who=%s item=%s int=%v final=%v packets=%d", h.at.Sub(begin), e.Kind, e.Epoch, e.From, e.To, e.OpID, e.Reason, e.Text, e.Who, e.Item, e.Interrupted, e.Final, packets[TurnID{e.Epoch, e.Item}])
	}
	for _, e := range s.entries() {
		l := ""
		if e.Item != nil {
			l = line(e.Item)
		}
		traceSwarm("%3d %8s %s e%d %s %s %s after=%s", e.Seq, e.At.Sub(begin), e.Op, e.Epoch, e.OpID, e.ItemID, l, e.After)
	}
	for _, l := range s.made {
		traceSwarm("leg %s %d %+v", l.name, l.start.Epoch, l.plan)
		for _, in := range l.inputs.all() {
			traceSwarm("    %T %+v", in, in)
		}
	}
}
