package switcher

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	chatctx "sightline/context"
	"sightline/context/recorder"
)

// policy is what a core needs of a Config.
type policy struct {
	bargeIn    BargeIn
	failover   Failover
	times      Times
	switchTool string // its name, "" when it is not offered
	maxTools   int
	speaker    bool // somebody listens
	voice      bool // texts can be spoken without a leg
}

// core decides. Events and the time go in, actions come out, in order; it does no I/O, reads no clock and belongs to one
// goroutine. The same events at the same times give the same actions.
type core struct {
	policy
	now time.Time
	out []action

	pipes  []pipe          // known, built-in ones first, then in the order of their registration
	failed map[string]bool // by name: the last leg of it died, or did not come about
	regs   uint64          // registrations so far

	runs  map[uint64]*run // legs that have not ended, by epoch
	last  uint64          // highest epoch given
	epoch uint64          // of the last commit

	active  *run    // has the floor
	change  *change // the switch under way
	floored *change // committed, and its leg is being told
	lost    *lost   // the floor is empty and wanted

	says  []*turn // of the session itself, not over
	order []*turn // turns with sound that are not over, in the order of playing

	speaking   bool        // the caller, by the session's detector
	callerTurn bool        // of the caller, with its pauses
	speechAt   time.Time   // when the newest speech began
	starts     []time.Time // of the caller's turns that no transcript was seen of
	pausedAt   time.Time   // when it paused last
	spoke      bool        // the caller has said something since the last commit
	marked     bool        // sound is kept for the next leg
	markAt     time.Time   // from then on
	soundUntil time.Time   // when what was given to the speaker ends, if nothing stops it

	calls      map[string]*toolCall
	turnCalls  int                  // since the caller's last turn
	apologised bool                 // since then
	inTurn     map[string]*toolCall // since then, by what they ask for
	held       []event
	phrases    int
	done       map[string]finished // by op_id, of the newest maxFinished
	doneOrder  []string
	timers     map[timer]time.Time
	count      Counters
	ending     bool // nothing new is begun
	unsure     bool // it ended while a commit was on its way
	dirty      bool // what legs and rates give may have changed; the runner clears it
	trouble    func(msg string, args ...any)
}

// maxFinished bounds the outcomes that are remembered for repeated requests; the log knows the older ones.
const maxFinished = 256

// pipe is a Pipeline that is known.
type pipe struct {
	Pipeline
	reg    uint64 // of its registration
	remote bool   // registered, not built in
}

// run is one leg on its way.
type run struct {
	pipe
	epoch    uint64
	state    runState
	reason   string
	begun    time.Time
	seeded   int
	dropped  int
	seededAt time.Time
	seen     uint64        // seq up to which it knows the conversation
	rolling  time.Duration // back-off of its rollover

	turns  map[string]*turn      // not over
	over   map[string]bool       // ids of those that are
	utters map[string]*utterance // of the caller, that wait for their transcript
	again  map[string]takenBack  // by item: words that were taken back for a commit that did not come about
	told   map[string]bool       // tool results it was given, by session's call id
	alias  map[string]string     // session's call id → its own, where they differ
	doomed *LegError             // it died while its commit was being written
	ended  bool                  // its Run has returned
}

// takenBack is an utterance that was ended though its transcript may come.
type takenBack struct {
	times int
	at    time.Time
}

// finished is the outcome of a switch, for a repeated request.
type finished struct {
	res Result
	err error
}

type timer struct {
	kind string
	id   string
}

func newCore(p policy, l *slog.Logger) *core {
	return &core{
		policy: p, failed: map[string]bool{}, runs: map[uint64]*run{}, calls: map[string]*toolCall{}, inTurn: map[string]*toolCall{}, done: map[string]finished{}, timers: map[timer]time.Time{},
		spoke: true, trouble: func(msg string, args ...any) { l.Info(msg, args...) },
	}
}

// handle takes an event in and gives what is to be done, in order.
func (c *core) handle(e event, now time.Time) []action {
	c.now = now
	c.take(e)
	c.tryCommit()
	return c.taken()
}

// advance does what is due by now.
func (c *core) advance(now time.Time) []action {
	c.now = now
	for {
		t, at, ok := c.soonest()
		if !ok || at.After(now) {
			break
		}
		delete(c.timers, t)
		c.due(t)
		c.tryCommit()
	}
	return c.taken()
}

func (c *core) taken() []action {
	out := c.out
	c.out = nil
	return out
}

// deadline is when advance is to be called next.
func (c *core) deadline() (at time.Time, ok bool) {
	_, at, ok = c.soonest()
	return at, ok
}

func (c *core) soonest() (t timer, at time.Time, ok bool) {
	for k, v := range c.timers {
		if !ok || v.Before(at) || v.Equal(at) && (k.kind < t.kind || k.kind == t.kind && k.id < t.id) {
			t, at, ok = k, v, true
		}
	}
	return t, at, ok
}

// in sets a timer, anew if it is set.
func (c *core) in(kind, id string, d time.Duration) { c.timers[timer{kind, id}] = c.now.Add(d) }
func (c *core) off(kind, id string)                 { delete(c.timers, timer{kind, id}) }

// Kinds of timer.
const (
	dueRetry    = "retry"    // another try to fill the empty floor
	duePhrase   = "phrase"   // the floor has been empty for too long
	dueRejoin   = "rejoin"   // the leg of before the restart has not come
	duePrepare  = "prepare"  // the prepared leg is not ready
	dueBoundary = "boundary" // no boundary came
	dueFlush    = "flush"    // the recorder does not get things written
	dueRollover = "rollover" // the connection of the active leg ends soon
	dueQuiet    = "quiet"    // what was given to the speaker has been played, by the clock
	dueBargeIn  = "barge-in" // the caller has spoken for long enough
	dueSettle   = "settle"   // no transcript came of what the caller said
	dueStall    = "stall"    // a turn holds up others
	dueTool     = "tool"     // a tool takes too long
)

func (c *core) due(t timer) {
	switch t.kind {
	case dueRetry:
		c.refill()
	case duePhrase:
		c.phrase()
	case dueRejoin:
		c.rejoinEnds()
	case duePrepare:
		c.prepareEnds()
	case dueBoundary:
		if c.change != nil {
			c.change.at = AtNow
		}
	case dueFlush:
		c.abortOn(onTimeout, fail(EngineUnavailable, "", "what was said could not be recorded in time"))
	case dueRollover:
		c.rollover()
	case dueBargeIn:
		c.bargeInDue()
	case dueSettle:
		c.settled()
	case dueStall:
		c.stalled()
	case dueTool:
		c.toolDone(evToolDone{callID: t.id, output: fmt.Sprintf("the tool did not answer within %s", c.times.Tool), isError: true})
		c.do(aCancelTool{callID: t.id})
	}
}

func (c *core) take(e event) {
	switch e := e.(type) {
	case evBegin:
		c.begin(e)
	case evSwitch:
		c.request(e)
	case evAbort:
		c.cancelSwitch(e)
	case evRegister:
		c.register(e.pipe)
	case evUnregister:
		c.unregister(e.name)
	case evSeeded:
		if r := c.runs[e.epoch]; r != nil {
			r.seeded, r.dropped, r.seededAt = e.seeded, e.dropped, c.now
		}
	case evStarted:
		c.startedWritten(e)
	case evFlushed:
		c.flushed(e.epoch)
	case evCommitted:
		c.commitWritten(e)
	case evOutput:
		c.output(e)
	case evDied:
		c.died(e)
	case evSpeech:
		c.speech(e)
	case evHeard:
		c.heardTurn(e.HeardTurn)
	case evStopped:
		c.stopped(e)
	case evInterrupt:
		c.interrupt(true)
	case evEntry:
		c.entry(e.Entry)
	case evFloored:
		c.hasFloor(e)
	case evBarrier:
		c.do(aCall{e.then})
	case evEnd:
		c.end()
	default:
		c.takeOther(e)
	}
}

// takeOther takes what waits while a commit is under way.
func (c *core) takeOther(e event) {
	if c.holding() {
		c.held = append(c.held, e)
		return
	}
	switch e := e.(type) {
	case evSay:
		c.say(e)
	case evSaySound:
		c.saySound(e)
	case evSayDone:
		c.sayDone(e)
	case evToolLogged:
		c.toolLogged(e.callID)
	case evToolDone:
		c.toolDone(e)
	case evLateTool:
		c.lateTool(e)
	}
}

// holding: between the boundary and the answer to the commit nothing that would be recorded is taken in.
func (c *core) holding() bool {
	return c.change != nil && c.change.run != nil && (c.change.run.state == runSettling || c.change.run.state == runCommitting)
}

// release takes in what was held.
func (c *core) release() {
	held := c.held
	c.held = nil
	for _, e := range held {
		c.take(e)
	}
}

func (c *core) do(a ...action)        { c.out = append(c.out, a...) }
func (c *core) give(r *run, in Input) { c.do(aGive{epoch: r.epoch, in: in}) }
func (c *core) observe(e Event) {
	if e.At.IsZero() {
		e.At = c.now
	}
	c.do(aObserve{e})
}

// record reports to the recorder, under an epoch and a leg's name.
func (c *core) record(e recorder.Event) {
	if e.At.IsZero() {
		e.At = c.now
	}
	c.do(aRecord{e})
}

// notice tells of something that ends nothing.
func (c *core) notice(epoch uint64, code, text string) {
	c.observe(Event{Kind: Noticed, Epoch: epoch, Code: code, Text: text})
}

// legs is what Legs gives: each known pipeline, and legs of such as are known no more.
func (c *core) legs() []LegInfo {
	var out []LegInfo
	for _, p := range c.pipes {
		l := LegInfo{Name: p.Name, Kind: p.Kind, Provider: p.Provider, State: Registered}
		if c.failed[p.Name] {
			l.State = Failed
		}
		var of *run // the one that matters most
		for _, r := range c.runs {
			if r.reg == p.reg && (of == nil || cmp.Compare(r.state.weight(), of.state.weight()) > 0) {
				of = r
			}
		}
		if of != nil && of.state.weight() > 0 {
			l.State, l.Epoch = of.state.shown(), of.epoch
		}
		out = append(out, l)
	}
	return out
}

// unknownRate is the Hz at which sound is kept for a leg of which nothing is known yet.
const unknownRate = 16000

// rates are the Hz that legs want or may want soon.
func (c *core) rates() []int {
	if c.active == nil && c.change == nil && c.lost == nil {
		return nil
	}
	var rates []int
	for _, p := range c.pipes {
		if p.Can.InRate > 0 {
			rates = append(rates, p.Can.InRate)
		}
	}
	if len(rates) == 0 && c.lost != nil {
		rates = append(rates, cmp.Or(c.lost.rate, unknownRate))
	}
	slices.Sort(rates)
	return slices.Compact(rates)
}

func validPipeline(p Pipeline) error {
	switch {
	case !validName(p.Name):
		return fail(InvalidArgument, "name", "a pipeline's name is 1 to 64 of A-Z, a-z, 0-9, _, . and -")
	case p.Name == string(Cascade) || p.Name == string(Realtime):
		return fail(InvalidArgument, "name", "a pipeline must not be named like a kind")
	case p.Kind != Cascade && p.Kind != Realtime:
		return fail(InvalidArgument, "kind", "kind %q: allowed are cascade and realtime", p.Kind)
	case p.New == nil:
		return fail(InvalidArgument, "new", "a pipeline needs New")
	case p.Can.InRate != 0 && !validRate(p.Can.InRate):
		return fail(InvalidArgument, "in_rate", "in_rate is 0 (no sound) or 8000 to 48000")
	}
	return nil
}

func validName(s string) bool {
	for i := range len(s) {
		if s[i] != '.' && !chatctx.ValidID(s[i:i+1]) {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

func validRate(hz int) bool { return hz >= 8000 && hz <= 48000 }
