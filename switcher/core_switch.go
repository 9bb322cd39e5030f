package switcher

import (
	"fmt"
	"slices"
	"time"

	chatctx "sightline/context"
	"sightline/context/recorder"
)

// change is the switch under way. There is one at a time.
type change struct {
	opID, author string
	why          string // Start.Reason
	reason       string // for the log
	joined       []string
	tickets      []uint64
	from         string
	target       pipe
	at           At
	maxWait      time.Duration
	patience     time.Duration // of preparing
	instructions string
	handoff      *Handoff
	auto         bool            // nobody asked: first, resume, failover, rollover
	tools        []string        // call ids of models' wishes
	plain        map[uint64]bool // by registration: pipelines that refused their seed and are given instructions instead

	run     *run // nil between two tries of a fail-over
	written bool // its started entry is in the log
	opened  bool // and has been sent there
	seq     uint64
	settled bool // what the old leg has open is closed for it
	replay  bool
	cut     []InterruptedIn // turns of the old leg that were cut off for it

	asked, ready, boundary, flushed, committed time.Time
}

// steps are the change's times, as far as it has come.
func (c *core) steps(ch *change) *Steps {
	st := &Steps{Why: ch.why, Asked: ch.asked}
	if ch.run != nil {
		st.Seeded = ch.run.seededAt
	}
	if !ch.ready.IsZero() {
		st.Ready, st.Boundary, st.Flushed, st.Written = ch.ready, ch.boundary, ch.flushed, ch.committed
	}
	return st
}

// flushWait is how long the recorder may take to get everything written before a commit.
const flushWait = 3 * time.Second

// open makes ch the change under way.
func (c *core) open(ch *change) {
	c.change = ch
	if c.active != nil {
		ch.from = c.active.Name
	} else if c.lost != nil {
		ch.from = c.lost.name
	}
	c.off(dueRetry, "")
	c.prepare(ch)
}

// prepare starts a leg for the change.
func (c *core) prepare(ch *change) {
	c.last++
	r := &run{pipe: ch.target, epoch: c.last, state: runNew, reason: ch.why, begun: c.now, turns: map[string]*turn{}, over: map[string]bool{}, told: map[string]bool{}, again: map[string]takenBack{}, utters: map[string]*utterance{}, alias: map[string]string{}}
	c.runs[r.epoch] = r
	ch.run, ch.ready, ch.boundary, ch.flushed = r, time.Time{}, time.Time{}, time.Time{}
	c.move(r, onPrepare)
	if !ch.opened {
		ch.opened = true
		c.do(aWriteStarted{item: c.entryItem(ch, "started", ch.reason), author: ch.author, epoch: c.epoch})
	}
	c.do(aStart{epoch: r.epoch, pipe: r.Pipeline, reason: ch.why, plus: ch.brings(), plain: ch.plain[r.reg]})
	c.in(duePrepare, "", ch.patience)
	c.observe(Event{Kind: PipelinePreparing, Epoch: r.epoch, From: ch.from, To: r.Name, Reason: ch.reason, OpID: ch.opID})
}

// entryItem is what the log is told of the change.
func (c *core) entryItem(ch *change, state, reason string) chatctx.PipelineSwitch {
	epoch := c.last
	if ch.run != nil {
		epoch = ch.run.epoch
	}
	return chatctx.PipelineSwitch{
		ID: fmt.Sprintf("switch-%d-%s", epoch, state), State: state, From: ch.from, To: ch.target.Name, Epoch: epoch, Reason: reason, OpID: ch.opID,
	}
}

// brings is what the change puts into the conversation, just before its commit.
func (ch *change) brings() chatctx.Items {
	var items chatctx.Items
	if h := ch.handoff; h != nil {
		items = append(items, &chatctx.AgentHandoff{ID: fmt.Sprintf("handoff-%d", ch.run.epoch), FromAgent: h.FromAgent, ToAgent: h.ToAgent, Reason: h.Reason, Summary: h.Summary})
	}
	if ch.instructions != "" {
		items = append(items, &chatctx.ConfigUpdate{ID: fmt.Sprintf("config-%d", ch.run.epoch), Instructions: ch.instructions})
	}
	return items
}

func (c *core) startedWritten(e evStarted) {
	ch := c.change
	switch {
	case ch == nil || ch.opID != e.opID || ch.written:
	case e.err != nil:
		ch.opened = false
		c.abortOn(onDropped, asError(e.err))
	case e.dup:
		ch.opened = false
		c.abortOn(onDropped, fail(Conflict, "op_id", "the op_id %q was used for something else", e.opID))
	default:
		ch.written, ch.seq = true, e.seq
		for _, t := range ch.tickets {
			c.do(aAck{t, e.seq})
		}
	}
}

func (c *core) prepareEnds() {
	ch := c.change
	if ch == nil || ch.run == nil || ch.run.state != runPreparing {
		return
	}
	err := fail(PrepareTimeout, "", "%s was not ready within %s", ch.target.Name, ch.patience)
	c.abortOn(onTimeout, err)
}

// isReady: the leg is connected and seeded.
func (c *core) isReady(r *run) {
	ch := c.change
	if ch == nil || ch.run != r || r.state != runPreparing {
		return
	}
	c.move(r, onReady)
	ch.ready = c.now
	c.off(duePrepare, "")
	c.in(dueBoundary, "", ch.maxWait)
}

// tryCommit commits what is ready when its boundary is there.
func (c *core) tryCommit() {
	ch := c.change
	if ch == nil || ch.run == nil || ch.run.state != runReady || !ch.written || !c.atBoundary(ch) {
		return
	}
	c.off(dueBoundary, "")
	c.off(dueQuiet, "")
	ch.boundary = c.now
	c.move(ch.run, onBoundary)
	c.in(dueFlush, "", flushWait)
	if len(c.order) > 0 {
		c.do(aCut{}) // settle follows evStopped
		return
	}
	c.settle()
}

func (c *core) atBoundary(ch *change) bool {
	switch {
	case ch.at == AtNow:
		return true
	case c.active == nil: // nobody listens to the caller: what the lost leg said is played to its end, then no moment more
		return !c.audible()
	case c.speaking || c.legHears():
		return false
	case ch.at == AtAfterSpeech:
		if c.now.Before(c.soundUntil) {
			c.timers[timer{dueQuiet, ""}] = c.soundUntil
			return false
		}
		return true
	}
	if !c.active.Can.OwnTurns && len(c.starts) > 0 { // what the caller said waits for its transcript
		return false
	}
	return !c.callerTurn && len(c.order) == 0 && len(c.says) == 0 && len(c.active.turns) == 0 && c.active.pending() == 0
}

// settle closes what the old leg has open, so that all of it is in the log before the commit, and nothing after.
func (c *core) settle() {
	ch := c.change
	ch.settled = true
	ch.replay = c.replays(ch)
	for _, r := range c.sorted() {
		for _, t := range r.sortedTurns() {
			c.closeCut(t, 0)
		}
		for _, u := range r.sortedUtterances() {
			c.unheard(u, ch.replay && !u.stale)
		}
		c.forget(r)
	}
	for _, t := range slices.Clone(c.says) {
		c.closeCut(t, 0)
	}
	c.do(aFlush{epoch: ch.run.epoch})
}

// replays: the next leg is given the sound of the caller's turn.
func (c *core) replays(ch *change) bool {
	return ch.target.Can.InRate > 0 && c.marked && c.now.Sub(c.markAt) <= c.times.Replay
}

// unheard ends an utterance whose transcript will not come: when the next leg hears the sound of it, its words are taken back.
func (c *core) unheard(u *utterance, replay bool) {
	if replay {
		c.startAgain(u.at)
		c.record(recorder.Event{Kind: recorder.Partial, Who: recorder.Caller, Epoch: u.run.epoch, Leg: u.run.Name, Item: u.as})
	}
	c.record(recorder.Event{Kind: recorder.TranscriptFailed, Who: recorder.Caller, Epoch: u.run.epoch, Leg: u.run.Name, Item: u.as})
	u.run.again[u.item] = takenBack{u.run.again[u.item].times + 1, u.at}
	delete(u.run.utters, u.item)
}

func (c *core) flushed(epoch uint64) {
	ch := c.change
	if ch == nil || ch.run == nil || ch.run.epoch != epoch || ch.run.state != runSettling {
		return
	}
	c.off(dueFlush, "")
	c.move(ch.run, onFlushed)
	ch.flushed = c.now
	c.do(aWriteCommit{item: c.entryItem(ch, "committed", ch.reason), before: ch.brings(), author: ch.author, epoch: c.epoch})
}

func (c *core) commitWritten(e evCommitted) {
	ch := c.change
	if ch == nil || ch.run == nil || ch.run.epoch != e.epoch || ch.run.state != runCommitting {
		return
	}
	if e.err != nil {
		c.abortOn(onRefused, asError(e.err))
		return
	}
	old, r := c.active, ch.run
	c.move(r, onWritten)
	ch.committed = c.now
	c.change, c.active, c.epoch, c.lost, c.spoke = nil, r, r.epoch, nil, false
	for _, k := range []string{dueRetry, duePhrase, dueRejoin, dueRollover} {
		c.off(k, "")
	}
	if old != nil {
		c.move(old, onReplaced)
		c.do(aStop{old.epoch, StopSuperseded})
	}
	ch.replay = ch.replay || c.replays(ch) // the caller may have begun while it was written
	c.do(aFloor{epoch: r.epoch, replay: ch.replay})
	switch {
	case !c.marked:
	case !ch.replay:
		c.unmark(c.now)
	default: // these turns it will hear
		c.starts = slices.DeleteFunc(c.starts, func(at time.Time) bool { return at.Before(c.markAt) })
	}
	c.count.Switches++
	if ch.why == "rollover" {
		c.count.Rollovers++
	}
	c.floored = ch // the rest follows when it has the floor
}

// hasFloor: the leg has been told all. Everybody who asked is answered, and what was held is taken in.
func (c *core) hasFloor(e evFloored) {
	ch, r := c.floored, c.active
	c.floored = nil
	r.seeded += e.missed
	r.seen = e.seen
	c.count.StaleItems += uint64(e.stale)
	c.committed(ch, r)
	c.rollIn(r)
	c.release()
	if r.doomed != nil {
		c.lose(r, r.doomed)
	}
}

// committed answers everybody who asked.
func (c *core) committed(ch *change, r *run) {
	res := Result{
		Mode: r.Kind, From: ch.from, To: r.Name, Epoch: r.epoch, SeededItems: r.seeded, DroppedItems: r.dropped, Joined: ch.joined,
		SwitchMS: c.now.Sub(ch.asked).Milliseconds(), PrepareMS: ch.ready.Sub(ch.asked).Milliseconds(), CommitMS: c.now.Sub(ch.boundary).Milliseconds(),
	}
	steps := c.steps(ch)
	steps.Released = c.now
	c.outcome(ch, finished{res: res})
	c.observe(Event{Kind: PipelineCommitted, Epoch: r.epoch, From: ch.from, To: r.Name, Reason: ch.reason, OpID: ch.opID, Joined: ch.joined, Result: &res, Steps: steps})
	c.toolSwitched(ch.tools, &res, nil)
}

func (c *core) outcome(ch *change, f finished) {
	for _, id := range append([]string{ch.opID}, ch.joined...) {
		c.remember(id, f)
	}
	for _, t := range ch.tickets {
		c.do(aAnswer{ticket: t, res: f.res, err: f.err})
	}
}

// abortOn ends the change under way, because of a step of its run: the old leg goes on as it was.
func (c *core) abortOn(on step, err *Error) {
	ch := c.change
	if ch == nil {
		return
	}
	for _, k := range []string{duePrepare, dueBoundary, dueFlush, dueQuiet} {
		c.off(k, "")
	}
	if r := ch.run; r != nil {
		if can(r.state, on) {
			c.move(r, on)
		}
		c.do(aStop{r.epoch, StopAborted})
	}
	if ch.auto && c.lost != nil && c.active == nil && ch.opened && on != onEnd {
		c.tryAgain(ch, err)
		return
	}
	c.count.Aborts++
	if ch.opened {
		c.do(aWriteAborted{item: c.entryItem(ch, "aborted", string(err.Code)), epoch: c.epoch})
	}
	c.change = nil
	c.outcome(ch, finished{err: err})
	epoch := c.last
	if ch.run != nil {
		epoch = ch.run.epoch
	}
	c.observe(Event{Kind: PipelineAborted, Epoch: epoch, From: ch.from, To: ch.target.Name, Reason: ch.reason, OpID: ch.opID, Joined: ch.joined, Err: err, Steps: c.steps(ch)})
	if c.active != nil {
		for _, in := range ch.cut {
			c.give(c.active, in)
		}
	}
	c.toolSwitched(ch.tools, nil, err)
	c.release()
	if ch.why == "rollover" {
		c.rollAgain()
	}
	switch {
	case on == onEnd || c.active != nil || c.lost == nil:
	case ch.auto:
		c.in(dueRetry, "", c.failover.MaxBackoff)
	default:
		c.refill()
	}
}

// dropAuto ends a change that nobody asked for, in favour of one that somebody did.
func (c *core) dropAuto() {
	ch, lost := c.change, c.lost
	c.lost = nil // not to be tried again by itself
	c.abortOn(onDropped, fail(SwitchAborted, "", "another switch was asked for"))
	c.lost = lost
	if ch.why == "rollover" && c.active != nil {
		c.in(dueRollover, "", c.failover.MaxBackoff)
	}
}

func (c *core) cancelSwitch(e evAbort) {
	ch := c.change
	if ch == nil || ch.opID != e.opID || ch.run == nil || !can(ch.run.state, onDropped) {
		c.do(aReply{e.answer, false})
		return
	}
	c.abortOn(onDropped, fail(SwitchAborted, "", "it was called off while %s was %s", ch.target.Name, ch.run.state))
	c.do(aReply{e.answer, true})
}

// asError makes an *Error of what the log answered.
func asError(err error) *Error {
	switch e := err.(type) {
	case *Error:
		return e
	case *chatctx.Error:
		if e.Kind == chatctx.EngineUnavailable {
			return &Error{Code: EngineUnavailable, Detail: "the conversation's store does not answer", Cause: err}
		}
		return &Error{Code: SwitchAborted, Field: e.Field, Detail: "the log refused its entry", Cause: err}
	}
	return &Error{Code: SwitchAborted, Detail: "its entry could not be written", Cause: err}
}
