package switcher

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// The model: the core as it is, with a world around it that is as bad as the contracts allow: a writer whose entries are stored, or
// refused, or stored with the answer lost; a recorder that writes when it likes, but all before it answers a flush; legs that are
// late or die; aborts; ends and crashes, after which the next core begins with what the log has. All orders of these up to a depth
// are tried, each state once.

const modelDepth = 7

type modelWrite struct {
	act    action
	stored bool
}

type model struct {
	c      *core
	now    time.Time
	log    []string // "started op 2", "committed op 2 a>b", "rec 1 u1"
	writes []modelWrite
	recs   []string // reported, not written; "flush 3" where a flush was asked for
	said   int
	asked  int
	floor  string // by the log
	epoch  uint64 // by the log
	last   uint64
	faults []string
}

func newModel() *model {
	m := &model{now: t0}
	m.begin()
	for _, s := range []string{"stored", "ready", "flushed", "stored"} { // a has the floor: from here all orders are tried
		m.step(s)
	}
	return m
}

func (m *model) begin() {
	m.writes, m.recs = nil, nil
	m.c = newCore(policy{times: Times{Prepare: time.Minute, MaxWait: time.Minute, Tool: time.Minute, Replay: time.Second, Settle: time.Second}, failover: Failover{Reopen: 1, MinBackoff: time.Second, MaxBackoff: time.Second}, maxTools: 3}, slog.New(slog.DiscardHandler))
	m.take(evBegin{pipes: []Pipeline{{Name: "a", Kind: Cascade, Can: Capability{InRate: 8000}}, {Name: "b", Kind: Realtime, Can: Capability{InRate: 8000}}}, first: "a", resume: m.floor, epoch: m.epoch, last: m.last})
}

func (m *model) take(e event) { m.carry(m.c.handle(e, m.now)) }

func (m *model) carry(actions []action) {
	for len(actions) > 0 {
		a := actions[0]
		actions = actions[1:]
		switch a := a.(type) {
		case aCut:
			actions = append(m.c.handle(evStopped{}, m.now), actions...)
		case aFloor:
			actions = append(m.c.handle(evFloored{}, m.now), actions...)
		case aWriteStarted, aWriteCommit, aWriteAborted:
			m.writes = append(m.writes, modelWrite{act: a})
		case aFlush:
			m.recs = append(m.recs, fmt.Sprint("flush ", a.epoch))
		case aRecord:
			if a.Text != "" {
				m.recs = append(m.recs, fmt.Sprintf("rec %d %s", a.Epoch, a.Text))
			}
		}
	}
}

func (m *model) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// record writes what was reported before the next flush into the log.
func (m *model) record() {
	for len(m.recs) > 0 && m.recs[0][0] == 'r' {
		r := m.recs[0]
		m.recs = m.recs[1:]
		var epoch uint64
		if _, _ = fmt.Sscanf(r, "rec %d", &epoch); epoch != m.epoch {
			m.fault("G5: %q in epoch %d", r, m.epoch)
		}
		m.log = append(m.log, r)
	}
}

// store puts a write of the switcher into the log.
func (m *model) store(a action) {
	switch a := a.(type) {
	case aWriteStarted:
		m.log = append(m.log, "started "+a.item.OpID)
		m.last = max(m.last, a.item.Epoch)
	case aWriteAborted:
		m.outcome(a.item.OpID, "aborted")
	case aWriteCommit:
		if len(m.recs) > 0 {
			m.fault("G5: the commit of %d overtakes %q", a.item.Epoch, m.recs)
		}
		if a.item.Epoch <= m.epoch || a.item.From != m.floor {
			m.fault("G6: commit of %d from %q, after %d of %q", a.item.Epoch, a.item.From, m.epoch, m.floor)
		}
		m.outcome(a.item.OpID, "committed")
		m.epoch, m.floor, m.last = a.item.Epoch, a.item.To, max(m.last, a.item.Epoch)
	}
}

func (m *model) outcome(op, how string) {
	if !slices.Contains(m.log, "started "+op) || slices.Contains(m.log, "committed "+op) || slices.Contains(m.log, "aborted "+op) {
		m.fault("G6: %s is %s; the log is %q", op, how, m.log)
	}
	m.log = append(m.log, how+" "+op)
}

// next is what can happen now.
func (m *model) next() (steps []string) {
	c := m.c
	if m.asked < 2 {
		steps = append(steps, "switch")
	}
	if ch := c.change; ch != nil && ch.run != nil {
		steps = append(steps, "new leg dies")
		if ch.run.state == runPreparing {
			steps = append(steps, "ready")
		}
		if !ch.auto {
			steps = append(steps, "abort")
		}
	}
	if len(m.writes) > 0 {
		steps = append(steps, "stored")
		if !m.writes[0].stored {
			steps = append(steps, "answer lost")
			if _, aborted := m.writes[0].act.(aWriteAborted); !aborted {
				steps = append(steps, "refused")
			}
		}
	}
	if len(m.recs) > 0 && m.recs[0][0] == 'r' {
		steps = append(steps, "recorded")
	}
	if slices.ContainsFunc(m.recs, func(r string) bool { return r[0] == 'f' }) {
		steps = append(steps, "flushed")
	}
	if c.active != nil {
		steps = append(steps, "leg dies")
		if m.said < 2 {
			steps = append(steps, "said")
		}
	}
	if len(c.runs) > 1 && m.said < 2 {
		steps = append(steps, "said late")
	}
	if _, ok := c.deadline(); ok {
		steps = append(steps, "time")
	}
	return append(steps, "end", "crash")
}

func (m *model) step(s string) {
	c := m.c
	say := func(epoch uint64) {
		m.said++
		m.take(evOutput{epoch, TranscriptOut{Item: fmt.Sprint("u", m.said), Text: fmt.Sprint("u", m.said), Final: true}})
	}
	switch s {
	case "switch":
		m.asked++
		target := "b"
		if m.floor == "b" {
			target = "a"
		}
		m.take(evSwitch{SwitchRequest{OpID: fmt.Sprint("op", m.asked), Target: target, At: AtNow, MaxWait: time.Minute, PrepareTimeout: time.Minute}, uint64(m.asked)})
	case "new leg dies":
		m.take(evDied{c.change.run.epoch, &LegError{Code: "x", Retryable: true}})
	case "ready":
		m.take(evOutput{c.change.run.epoch, ReadyOut{}})
	case "abort":
		m.take(evAbort{c.change.opID, make(chan bool, 1)})
	case "stored", "refused", "answer lost":
		m.written(s)
	case "flushed":
		m.record()
		var epoch uint64
		_, _ = fmt.Sscanf(m.recs[0], "flush %d", &epoch)
		m.recs = m.recs[1:]
		m.take(evFlushed{epoch})
	case "recorded":
		m.record()
	case "leg dies":
		m.take(evDied{c.active.epoch, &LegError{Code: "x", Retryable: true}})
	case "said":
		say(c.active.epoch)
	case "said late":
		say(c.sorted()[0].epoch)
	case "time":
		at, _ := c.deadline()
		m.now = later(m.now, at)
		m.carry(c.advance(m.now))
	case "end": // in the order of Run's end; a refusal then leaves nothing open for long
		m.take(evEnd{})
		m.carry(c.ended())
		for m.record(); len(m.recs) > 0; m.record() {
			m.recs = m.recs[1:]
		}
		m.restart(true)
	case "crash":
		m.restart(false)
	}
	if err := sound(m.c); err != nil {
		m.fault("%v", err)
	}
}

// restart begins anew; written: all that was on its way is in the log. What is open there is aborted first.
func (m *model) restart(written bool) {
	if written {
		for _, w := range m.writes {
			if !w.stored {
				m.store(w.act)
			}
		}
	}
	for _, l := range slices.Clone(m.log) {
		if op, ok := strings.CutPrefix(l, "started "); ok && !slices.Contains(m.log, "committed "+op) && !slices.Contains(m.log, "aborted "+op) {
			m.outcome(op, "aborted")
		}
	}
	m.begin()
}

// written is how the oldest write comes out.
func (m *model) written(how string) {
	w := m.writes[0]
	if how == "answer lost" {
		m.store(w.act)
		m.writes[0].stored = true // it is written again, which changes nothing
		return
	}
	m.writes = m.writes[1:]
	var err error
	if how == "refused" {
		err = fail(InvalidArgument, "", "no")
	} else if !w.stored {
		m.store(w.act)
	}
	switch a := w.act.(type) {
	case aWriteStarted:
		if err != nil { // the writer writes nothing more of it
			m.writes = slices.DeleteFunc(m.writes, func(w modelWrite) bool {
				x, is := w.act.(aWriteAborted)
				return is && x.item.OpID == a.item.OpID
			})
		}
		m.take(evStarted{opID: a.item.OpID, seq: 1, err: err})
	case aWriteCommit:
		m.take(evCommitted{epoch: a.item.Epoch, err: err})
	}
}

// key tells states apart.
func (m *model) key() string {
	c := m.c
	var b strings.Builder
	fmt.Fprint(&b, m.log, m.recs, m.said, m.asked, m.last, c.epoch, c.last, c.spoke, c.marked, len(c.held), len(c.starts), len(c.timers))
	for _, w := range m.writes {
		fmt.Fprintf(&b, " %T %v", w.act, w.stored)
	}
	for _, r := range c.sorted() {
		fmt.Fprint(&b, " ", r.Name, r.epoch, r.state, r.doomed != nil, r.ended)
	}
	if ch := c.change; ch != nil {
		fmt.Fprint(&b, " ", ch.opID, ch.target.Name, ch.written, ch.opened, ch.settled, ch.tickets)
	}
	if l := c.lost; l != nil {
		fmt.Fprint(&b, " ", l.why, l.name, l.tries, l.fatal)
	}
	return b.String()
}

// TestModelOfASwitch tries all orders of what can happen, up to modelDepth steps, and checks G5 and G6 in each state.
func TestModelOfASwitch(t *testing.T) {
	depth := modelDepth
	if testing.Short() {
		depth = 6
	}
	type path []string
	run := func(p path) *model {
		m := newModel()
		for _, s := range p {
			m.step(s)
		}
		return m
	}
	seen, level, commits := map[string]bool{}, []path{nil}, 0
	for d := 0; d < depth; d++ {
		var next []path
		for _, p := range level {
			for _, s := range run(p).next() {
				q := append(slices.Clone(p), s)
				m := run(q)
				if len(m.faults) > 0 {
					t.Fatalf("after %q: %q\nthe log is %q", q, m.faults, m.log)
				}
				if k := m.key(); !seen[k] {
					seen[k] = true
					if m.epoch > 1 {
						commits++
					}
					next = append(next, q)
				}
			}
		}
		level = next
		t.Logf("%d steps: %d states", d+1, len(seen))
	}
	if commits == 0 {
		t.Error("no switch came about")
	}
}
