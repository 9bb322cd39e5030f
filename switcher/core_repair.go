package switcher

import (
	"slices"
)

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
