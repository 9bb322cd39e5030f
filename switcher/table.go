package switcher

// runState is where a leg's run stands; LegInfo shows fewer.
type runState string

const (
	runNew        runState = "registered"
	runPreparing  runState = "preparing"
	runReady      runState = "ready"
	runSettling   runState = "settling"   // the boundary has come: what was said is being written
	runCommitting runState = "committing" // the commit entry is on its way into the log
	runActive     runState = "active"
	runFailed     runState = "failed"
	runStopped    runState = "stopped"
)

// step is what happens to a run.
type step string

const (
	onPrepare  step = "prepare"
	onReady    step = "ready"
	onTimeout  step = "timeout"
	onDied     step = "died"
	onDropped  step = "dropped" // an abort was asked for, or another target takes its place
	onBoundary step = "boundary"
	onFlushed  step = "flushed"
	onWritten  step = "written"
	onRefused  step = "refused"
	onReplaced step = "replaced" // another leg was committed
	onEnd      step = "end"
)

// transition is one line of the table.
type transition struct {
	from runState
	on   step
	to   runState
	does string // for the docs
}

// transitions is all that can happen to a leg's run; docs/switcher.md holds it drawn, and a test compares. Whatever is not in
// it is a fault of the core.
var transitions = []transition{
	{runNew, onPrepare, runPreparing, "started is written; the leg connects and is seeded while the old one talks"},
	{runPreparing, onReady, runReady, "the wait for the boundary begins, bounded by max_wait"},
	{runPreparing, onTimeout, runFailed, "aborted: prepare_timeout; the old leg was not touched"},
	{runPreparing, onDied, runFailed, "a refused seed: once more, with instructions; else aborted: leg_failed; the old leg was not touched"},
	{runPreparing, onDropped, runStopped, "aborted: switch_aborted; the old leg was not touched"},
	{runReady, onBoundary, runSettling, "what is played is cut off if it must be; the old leg's output is held; the recorder is flushed"},
	{runReady, onDied, runFailed, "as while preparing"},
	{runReady, onDropped, runStopped, "aborted: switch_aborted; the old leg was not touched"},
	{runSettling, onFlushed, runCommitting, "handoff and config_update, if any, and committed are appended"},
	{runSettling, onTimeout, runFailed, "aborted: engine_unavailable; the old leg's held output goes on"},
	{runSettling, onDied, runFailed, "aborted: leg_failed; the old leg's held output goes on"},
	{runSettling, onDropped, runStopped, "aborted: switch_aborted; the old leg's held output goes on"},
	{runCommitting, onWritten, runActive, "the old leg is stopped, its held output dropped; the new one gets what it missed, the floor, and the sound of the turn that is being spoken"},
	{runCommitting, onDied, runCommitting, "remembered: the commit may be in the log already; after written it counts as the death of the active leg"},
	{runCommitting, onRefused, runFailed, "aborted; the old leg's held output goes on"},
	{runActive, onDied, runFailed, "fail-over: what it said is played to its end, another leg is prepared"},
	{runActive, onReplaced, runStopped, "its later output is dropped and counted"},
	{runPreparing, onEnd, runStopped, "the session ends"},
	{runReady, onEnd, runStopped, "the session ends"},
	{runSettling, onEnd, runStopped, "the session ends"},
	{runCommitting, onEnd, runStopped, "the session ends; the next Switcher reads from the log how it came out"},
	{runActive, onEnd, runStopped, "the session ends; what was heard is recorded"},
}

// can reports whether the table has a transition.
func can(from runState, on step) bool {
	for _, t := range transitions {
		if t.from == from && t.on == on {
			return true
		}
	}
	return false
}

// move makes the transition that the table has.
func (c *core) move(r *run, on step) {
	for _, t := range transitions {
		if t.from == r.state && t.on == on {
			r.state, c.dirty = t.to, true
			c.failed[r.Name] = t.to == runFailed
			return
		}
	}
	panic("switcher: no transition from " + string(r.state) + " on " + string(on))
}

// weight says which of several runs of a pipeline is shown; 0: none of them.
func (s runState) weight() int {
	switch s {
	case runActive:
		return 3
	case runReady, runSettling, runCommitting:
		return 2
	case runPreparing:
		return 1
	}
	return 0
}

// shown is the State that people see.
func (s runState) shown() State {
	switch s {
	case runPreparing:
		return Preparing
	case runReady, runSettling, runCommitting:
		return Ready
	case runActive:
		return Active
	case runFailed:
		return Failed
	}
	return Registered
}
