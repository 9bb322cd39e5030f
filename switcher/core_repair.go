package switcher

import (
	"cmp"
	"fmt"
	"slices"
)

// apologise says something instead of an answer that will not come: silence says nothing. Once in a turn of the caller, and not
// while they go on speaking.
func (c *core) apologise() {
	text := cmp.Or(c.failover.Apology, c.failover.Phrase)
	if c.apologised || c.speaking || text == "" {
		return
	}
	c.apologised = true
	c.count.Apologies++
	c.takeOther(evSay{SayRequest{OpID: fmt.Sprintf("apology-%d-%d", c.last, c.count.Apologies), Text: text, Interruptible: true}})
}

// newTurn: the caller says something, by voice or by typing; what is bounded per turn begins anew.
func (c *core) newTurn() {
	c.turnCalls, c.apologised = 0, false
	clear(c.inTurn)
}

// seedAgain tries a leg whose provider refused the seed once more, with a record in the instructions, which everybody takes; ok
// is false when there is nothing else to try. Both tries together have the patience of one.
func (c *core) seedAgain(r *run, err *LegError) (ok bool) {
	ch := c.change
	seeds := r.Can.Seeds
	if err.Code != CodeSeed || !err.Retryable || r.state == runSettling || ch.plain[r.reg] || len(seeds) == 0 || seeds[0] == SeedInstructions || !slices.Contains(seeds, SeedInstructions) {
		return false
	}
	until, waits := c.timers[timer{duePrepare, ""}]
	c.off(dueBoundary, "")
	c.off(dueQuiet, "")
	c.move(r, onDied)
	c.do(aStop{r.epoch, StopAborted})
	c.count.Reseeds++
	c.notice(r.epoch, "seed_refused", r.Name+" refused its seed and is tried again with instructions: "+err.Message)
	if ch.plain == nil {
		ch.plain = map[uint64]bool{}
	}
	ch.plain[r.reg] = true
	c.prepare(ch)
	if waits {
		c.timers[timer{duePrepare, ""}] = until
	}
	return true
}
