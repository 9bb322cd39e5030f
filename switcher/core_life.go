package switcher

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// lost is the empty floor that somebody is to have.
type lost struct {
	why      string // first, resume, failover
	name     string // of the pipeline that had it, "" none
	kind     Kind
	first    string // kind or name to begin with, where name is not known
	wait     bool   // for name to be registered
	tries    int
	fatal    bool // name's last death is one that another try does not help
	lastName string
	rate     int // Hz at which the caller's sound is kept, when no pipeline is known that wants any
}

func (c *core) begin(e evBegin) {
	for _, p := range e.pipes {
		c.regs++
		c.pipes = append(c.pipes, pipe{Pipeline: p, reg: c.regs})
	}
	c.epoch, c.last = e.epoch, e.last
	for _, k := range e.calls {
		c.resumeCall(k, e.rejoin)
	}
	switch {
	case e.resume != "":
		c.lost = &lost{why: "resume", name: e.resume, first: e.first}
		if p, ok := c.named(e.resume); ok {
			c.lost.kind = p.Kind
		} else if c.lost.wait = e.rejoin > 0; c.lost.wait {
			c.in(dueRejoin, "", e.rejoin)
		}
	case e.first != "":
		c.lost = &lost{why: "first", first: e.first}
	}
	if c.lost != nil && c.failover.Phrase != "" && c.lost.why != "first" {
		c.in(duePhrase, "", c.failover.PhraseAfter)
	}
	c.refill()
}

func (c *core) rejoinEnds() {
	if c.lost != nil {
		c.lost.wait = false
		c.refill()
	}
}

// register adds a pipeline, or puts it in the place of one with its name.
func (c *core) register(p Pipeline) {
	c.unregister(p.Name)
	c.regs++
	c.dirty = true
	c.pipes = append(c.pipes, pipe{Pipeline: p, reg: c.regs, remote: true})
	delete(c.failed, p.Name)
	if l := c.lost; l != nil && (l.name == p.Name || c.change == nil) {
		if l.name == p.Name {
			l.tries, l.fatal, l.wait, l.kind = 0, false, false, p.Kind
		}
		c.refill()
	}
}

// unregister takes a pipeline away with its legs.
func (c *core) unregister(name string) {
	i := slices.IndexFunc(c.pipes, func(p pipe) bool { return p.Name == name })
	if i < 0 {
		return
	}
	reg := c.pipes[i].reg
	c.pipes = slices.Delete(c.pipes, i, i+1)
	c.dirty = true
	gone := &LegError{Code: "gone", Message: "the pipeline was taken back", Retryable: true}
	for _, r := range c.sorted() {
		if r.reg == reg && r.state.weight() > 0 {
			c.do(aStop{r.epoch, StopEnded})
			c.legDied(r, gone)
		}
	}
}

// sorted are the runs by epoch, so that the same events give the same actions.
func (c *core) sorted() []*run {
	return slices.SortedFunc(maps.Values(c.runs), func(a, b *run) int { return cmp.Compare(a.epoch, b.epoch) })
}

func (c *core) named(name string) (pipe, bool) {
	for _, p := range c.pipes {
		if p.Name == name {
			return p, true
		}
	}
	return pipe{}, false
}

// resolve finds what a target names: for a kind the newest remote one that is Default, else the newest remote one, else the
// built-in one that is Default, else the first built-in one.
func (c *core) resolve(target string) (pipe, bool) {
	if k := Kind(target); k != Cascade && k != Realtime {
		return c.named(target)
	}
	best, rank := pipe{}, 0
	for _, p := range c.pipes {
		if string(p.Kind) != target {
			continue
		}
		n := 1
		switch {
		case p.remote && p.Default:
			n = 4
		case p.remote:
			n = 3
		case p.Default:
			n = 2
		}
		if n > rank || n == rank && p.remote { // of remote ones the newest, of built-in ones the first
			best, rank = p, n
		}
	}
	return best, rank > 0
}

// died: a leg's Run has returned.
func (c *core) died(e evDied) {
	r := c.runs[e.epoch]
	if r == nil {
		return
	}
	r.ended = true
	var le *LegError
	switch {
	case e.err == nil:
		le = &LegError{Code: "ended", Message: "the leg ended of itself", Retryable: true}
	case !errors.As(e.err, &le):
		le = &LegError{Code: "failed", Message: "the leg failed", Retryable: true, Err: e.err}
	}
	c.legDied(r, le)
	c.forget(r)
}

// forget drops a leg that has ended and has nothing open.
func (c *core) forget(r *run) {
	if r.ended && len(r.turns) == 0 && len(r.utters) == 0 {
		delete(c.runs, r.epoch)
	}
}

// legDied takes the death of a leg, if it is one that matters.
func (c *core) legDied(r *run, err *LegError) {
	switch r.state {
	case runPreparing, runReady, runSettling:
		if c.seedAgain(r, err) {
			return
		}
		c.abortOn(onDied, &Error{Code: LegFailed, Detail: r.Name + " failed: " + err.Code, Cause: err})
	case runCommitting:
		c.move(r, onDied)
		r.doomed = err
	case runActive:
		c.lose(r, err)
	}
}

// lose: the leg with the floor is dead. What it has said is played to its end; the caller's turn waits for the next leg.
func (c *core) lose(r *run, err *LegError) {
	c.move(r, onDied)
	c.count.Failovers++
	c.active = nil
	c.off(dueRollover, "")
	c.do(aNoFloor{})
	c.observe(Event{Kind: PipelineLost, Epoch: r.epoch, From: r.Name, Reason: err.Code, Err: &Error{Code: LegFailed, Detail: err.Message, Cause: err}})
	for _, t := range r.sortedTurns() {
		if !t.aloud { // what the session's voice says it says to its end
			c.turnMade(t, TurnFailed)
		}
	}
	c.lost = &lost{why: "failover", name: r.Name, kind: r.Kind, fatal: !err.Retryable, lastName: r.Name, rate: r.Can.InRate}
	if c.failover.Phrase != "" {
		c.in(duePhrase, "", c.failover.PhraseAfter)
	}
	c.refill()
}

// refill prepares a leg for the empty floor, unless one is being prepared.
func (c *core) refill() {
	l := c.lost
	if l == nil || c.ending || c.change != nil && c.change.run != nil {
		return
	}
	target, ok := c.candidate(l)
	if !ok {
		return // register goes on
	}
	ch := c.change
	if ch == nil {
		ch = &change{opID: fmt.Sprintf("%s:%d", l.why, c.last+1), author: "system", why: l.why, reason: l.why, at: AtTurnEnd, maxWait: c.times.MaxWait, patience: c.times.Prepare, auto: true, asked: c.now}
	}
	l.lastName = target.Name
	ch.target = target
	c.open(ch)
}

// candidate says which pipeline is to be tried.
func (c *core) candidate(l *lost) (pipe, bool) {
	base, ok := c.named(l.name)
	if !ok && l.wait {
		return pipe{}, false
	}
	if !ok && l.first != "" {
		if base, ok = c.resolve(l.first); !ok && l.why == "first" {
			return pipe{}, false // it is waited for: nobody else was meant
		}
	}
	reopen := max(c.failover.Reopen, 0)
	if l.why != "failover" {
		reopen++ // the first try is none that is made again
	}
	if ok && !l.fatal && l.tries < reopen {
		return base, true
	}
	kind := l.kind
	if ok {
		kind = base.Kind
	}
	rest := c.others(kind, base.Name)
	if ok {
		rest = append(rest, base)
	}
	if len(rest) == 0 {
		return pipe{}, false
	}
	n := l.tries
	if ok && !l.fatal {
		n -= reopen
	}
	return rest[n%len(rest)], true
}

// others are the pipelines but one, those of its kind first, the preferred ones of each kind first.
func (c *core) others(kind Kind, name string) []pipe {
	var same, other []pipe
	for _, p := range c.pipes {
		switch {
		case p.Name == name:
		case p.Kind == kind || kind == "":
			same = append(same, p)
		case !c.failover.SameKind:
			other = append(other, p)
		}
	}
	for _, l := range []*[]pipe{&same, &other} {
		if len(*l) > 1 {
			if best, ok := c.resolve(string((*l)[0].Kind)); ok {
				slices.SortStableFunc(*l, func(a, b pipe) int { return cmp.Compare(boolInt(a.reg != best.reg), boolInt(b.reg != best.reg)) })
			}
		}
	}
	return append(same, other...)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tryAgain: a leg for the empty floor did not come about.
func (c *core) tryAgain(ch *change, err *Error) {
	c.trouble("a leg for the empty floor did not come about", "leg", ch.target.Name, "error", err)
	l := c.lost
	ch.run, ch.settled, ch.cut = nil, false, nil
	for _, t := range ch.tickets { // who joined asked for this leg
		c.do(aAnswer{ticket: t, err: err})
	}
	for _, id := range ch.joined {
		c.remember(id, finished{err: err})
	}
	c.toolSwitched(ch.tools, nil, err)
	ch.joined, ch.tickets, ch.tools = nil, nil, nil
	c.release()
	l.tries++
	var le *LegError
	if ch.target.Name == l.name && errors.As(err, &le) && !le.Retryable {
		if !l.fatal {
			l.tries = 0
		}
		l.fatal = true
	}
	wait := c.failover.MinBackoff << min(l.tries-1+boolInt(l.fatal), 16)
	if next, ok := c.candidate(l); ok && next.Name != l.lastName && l.tries <= len(c.pipes)+max(c.failover.Reopen, 0) {
		wait = 0
	}
	c.in(dueRetry, "", min(max(wait, 0), c.failover.MaxBackoff))
}

// phraseAgain is after how many times PhraseAfter the phrase is said again.
const phraseAgain = 5

// phrase says that it takes longer.
func (c *core) phrase() {
	if c.lost == nil || c.active != nil || !c.speaker || !c.voice || c.failover.Phrase == "" {
		return
	}
	c.phrases++
	c.in(duePhrase, "", phraseAgain*c.failover.PhraseAfter)
	c.takeOther(evSay{SayRequest{OpID: fmt.Sprintf("phrase-%d-%d", c.last, c.phrases), Text: c.failover.Phrase, Interruptible: true}})
}

// rollIn plans the rollover of a leg whose connection ends by itself.
func (c *core) rollIn(r *run) {
	life := r.Can.MaxLife
	if life <= 0 {
		return
	}
	before := c.times.Rollover
	if before <= 0 {
		before = min(life/5, time.Minute)
	}
	c.in(dueRollover, "", max(r.begun.Add(life-before).Sub(c.now), 0))
}

// rollover prepares a fresh leg of the same pipeline.
func (c *core) rollover() {
	r := c.active
	if r == nil {
		return
	}
	if c.change != nil { // whatever comes of it, the leg ends soon
		c.in(dueRollover, "", c.failover.MinBackoff)
		return
	}
	target, ok := c.named(r.Name)
	if !ok {
		return
	}
	c.open(&change{opID: fmt.Sprintf("rollover:%d", c.last+1), author: "system", why: "rollover", reason: "rollover", target: target, at: AtTurnEnd, maxWait: c.times.MaxWait, patience: c.times.Prepare, auto: true, asked: c.now})
}

// rollAgain: the fresh leg did not come about; as long as the old one lives, it is tried again.
func (c *core) rollAgain() {
	if r := c.active; r != nil {
		r.rolling = min(max(2*r.rolling, c.failover.MinBackoff), c.failover.MaxBackoff)
		c.in(dueRollover, "", r.rolling)
	}
}

// end: the session is over.
func (c *core) end() {
	c.ending = true
	if ch := c.change; ch != nil {
		if c.unsure = ch.run != nil && ch.run.state == runCommitting; c.unsure { // the log may have the commit: the next Switcher sees
			ch.opened = false
			for _, e := range c.held { // of which epoch it would be, nobody knows
				if _, ok := e.(evOutput); ok {
					c.count.LateOutputs++
				}
			}
			c.held = nil
		}
		c.lost = nil
		c.abortOn(onEnd, fail(Draining, "", "the session ends"))
	}
	c.lost = nil
	c.do(aCut{}) // what was heard of it comes back as evStopped
}

// ended follows: what was in flight is closed, and everybody stops.
func (c *core) ended() []action {
	for _, t := range slices.SortedFunc(maps.Values(c.calls), func(a, b *toolCall) int { return cmp.Compare(a.CallID, b.CallID) }) {
		if !t.answered && !c.unsure { // else the next Switcher answers it
			c.answerCall(t, interruptedOutput, true)
		}
	}
	for _, r := range c.sorted() {
		for _, t := range r.sortedTurns() {
			c.closeCut(t, 0)
		}
		if r.state == runActive {
			c.move(r, onEnd)
		}
		c.do(aStop{r.epoch, StopEnded})
	}
	return c.taken()
}
