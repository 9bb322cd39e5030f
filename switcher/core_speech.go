package switcher

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"sightline/context/recorder"
)

// utterance is something the caller said to a leg, until its transcript is final.
type utterance struct {
	run      *run
	item     string
	as       string // its id for the recorder
	speaking bool
	at       time.Time
	ended    time.Time // of the speech, where the leg finds the turns
	stale    bool      // its transcript is later than Times.Settle: nothing waits for it any more
}

// pending counts the utterances that something waits for.
func (r *run) pending() (n int) {
	for _, u := range r.utters {
		if !u.stale {
			n++
		}
	}
	return n
}

func (r *run) sortedUtterances() []*utterance {
	return slices.SortedFunc(maps.Values(r.utters), func(a, b *utterance) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.item, b.item)) })
}

// output takes what a leg gives.
func (c *core) output(e evOutput) {
	r := c.runs[e.epoch]
	if r == nil {
		c.count.LateOutputs++
		return
	}
	switch o := e.out.(type) {
	case ReadyOut:
		c.isReady(r)
		return
	case NoticeOut:
		c.noticed(r, o)
		return
	case StageOut:
		c.stageEnded(r, o)
		return
	}
	switch {
	case r != c.active:
		c.count.LateOutputs++
	case c.holding():
		c.held = append(c.held, e)
	default:
		c.activeOutput(r, e.out)
	}
}

// maxPCM bounds one SoundOut: 20 s at 48 kHz.
const maxPCM = 20 * 48000

func (c *core) activeOutput(r *run, out Output) {
	switch o := out.(type) {
	case CallerSpeechOut:
		c.callerSpeech(r, o)
	case TranscriptOut:
		c.transcript(r, o)
	case TextOut:
		if t := c.openTurn(r, o.Item); t != nil {
			c.turnText(t, o.Delta)
		}
	case SoundOut:
		if !validRate(o.Rate) || len(o.PCM) > maxPCM {
			c.count.BadOutputs++
			return
		}
		if t := c.openTurn(r, o.Item); t == nil {
			c.count.StoppedSound++
		} else if len(o.PCM) > 0 {
			c.turnSound(t, o.Rate, o.PCM, o.Text)
		}
	case TurnDoneOut:
		if t := r.turns[o.Item]; t != nil && !t.aloud {
			c.turnMade(t, o.Status)
		}
	case ToolCallOut:
		c.toolCall(r, o)
	case ToolCancelOut:
		c.toolCancel(r, o)
	default:
		c.count.BadOutputs++
	}
}

// openTurn is the turn of an output, nil when it is over or its id is none.
func (c *core) openTurn(r *run, item string) *turn {
	if !openID(item) {
		c.count.BadOutputs++
		return nil
	}
	t := c.turnOf(r, item)
	if t != nil && (t.made || t.aloud) {
		return nil
	}
	return t
}

// stageEnded passes a measurement on, if it can be one.
func (c *core) stageEnded(r *run, o StageOut) {
	switch {
	case o.Stage != StageSTT && o.Stage != StageLLM && o.Stage != StageTTS, o.Began.IsZero(), o.Ended.Before(o.Began),
		!o.First.IsZero() && (o.First.Before(o.Began) || o.Ended.Before(o.First)), len(o.Engine) > 128, len(o.Item) > 64, len(o.Code) > 64:
		c.count.BadOutputs++
	default:
		c.observe(Event{Kind: StageEnded, Epoch: r.epoch, Stage: &o})
	}
}

func (c *core) noticed(r *run, o NoticeOut) {
	c.notice(r.epoch, o.Code, o.Message)
	if o.Code == NoticeExpires && r == c.active {
		c.in(dueRollover, "", 0)
	}
	if o.Code == NoticeAnswerFailed && r == c.active && !c.holding() {
		c.apologise()
	}
}

// speech is what the session's detector found.
func (c *core) speech(e evSpeech) {
	switch {
	case e.started:
		if !c.callerTurn {
			c.startAgain(e.at)
		}
		c.speaking, c.callerTurn, c.speechAt = true, true, e.at
		c.keepSound(e.at)
		c.off(dueSettle, "")
		c.observe(Event{Kind: SpeechStarted, At: e.at, Who: "caller", Epoch: c.epoch})
		c.bargeIn()
		return
	case c.speaking || e.final:
		c.observe(Event{Kind: SpeechStopped, Who: "caller", Epoch: c.epoch, Final: e.final})
	}
	if e.final && !c.callerTurn && c.active != nil && !c.holding() { // it began before the session did
		c.startAgain(e.at)
	}
	c.speaking, c.pausedAt = false, e.at
	c.off(dueBargeIn, "")
	if e.final {
		c.callerTurn = false
		c.newTurn()
		c.in(dueSettle, "", c.times.Settle)
	}
}

// maxStarts bounds the turns that wait for a transcript.
const maxStarts = 64

// sameTurn is how far two detectors may be apart about the beginning of a turn.
const sameTurn = 150 * time.Millisecond

// startOf says when something began that the caller said, and that its turn has a transcript now; at zero: the leg does not know,
// and it is the oldest turn of which no transcript was seen.
func (c *core) startOf(r *run, at time.Time) time.Time {
	switch {
	case r.Can.OwnTurns:
		if at.IsZero() || at.After(c.now) {
			at = c.now
		}
	case at.IsZero() || at.After(c.now):
		if at = c.speechAt; at.IsZero() {
			at = c.now
		}
		if len(c.starts) > 0 {
			at = c.starts[0]
			c.starts = c.starts[1:]
		}
	default:
		for len(c.starts) > 0 && !c.starts[0].After(at.Add(sameTurn)) {
			c.starts = c.starts[1:]
		}
	}
	return at
}

// startAgain: a turn has no transcript, or not after all.
func (c *core) startAgain(at time.Time) {
	if len(c.starts) >= maxStarts {
		return
	}
	for _, s := range c.starts {
		if s.Sub(at).Abs() < sameTurn {
			return
		}
	}
	c.starts = append(c.starts, at)
	slices.SortFunc(c.starts, time.Time.Compare)
}

// keepSound marks the sound from at on as that of the caller's turn.
func (c *core) keepSound(at time.Time) {
	if !c.marked {
		c.marked, c.markAt = true, at
		c.do(aMark{at})
	}
}

// unmark lets the sound go; all until upTo is known.
func (c *core) unmark(upTo time.Time) {
	c.marked = false
	if c.starts = nil; c.callerTurn {
		c.starts = []time.Time{c.speechAt}
	}
	c.do(aUnmark{upTo})
}

// settled: what the caller said has become a transcript, or never will.
func (c *core) settled() {
	if c.active == nil && c.lost != nil || c.holding() { // nobody has listened, or the next leg will
		return
	}
	if c.active != nil {
		for _, u := range c.active.utters {
			u.stale = u.stale || !u.speaking
		}
	}
	if c.marked && !c.callerTurn && (c.active == nil || c.active.pending() == 0) {
		c.unmark(time.Time{})
	}
}

// bargeIn stops what is played because the caller speaks, when the policy is met.
func (c *core) bargeIn() {
	p := c.bargeInPolicy()
	if p.Off || !c.audible() {
		return
	}
	if p.MinSpeech > 0 || p.MinWords > 0 {
		c.in(dueBargeIn, "", p.MinSpeech)
		return
	}
	c.interrupt(false)
}

func (c *core) bargeInPolicy() BargeIn { return c.policy.bargeIn }

// bargeInDue: the caller has spoken for long enough; with MinWords, the words decide as they come.
func (c *core) bargeInDue() {
	if (c.speaking || c.legHears()) && c.bargeInPolicy().MinWords == 0 {
		c.interrupt(false)
	}
}

// bargeInWords: so much is understood of what the caller says.
func (c *core) bargeInWords(text string) {
	p := c.bargeInPolicy()
	if p.Off || p.MinWords == 0 || len(strings.Fields(text)) < p.MinWords {
		return
	}
	if _, waits := c.timers[timer{dueBargeIn, ""}]; !waits {
		c.interrupt(false)
	}
}

// legHears: the active leg says that the caller speaks.
func (c *core) legHears() bool {
	if c.active == nil {
		return false
	}
	for _, u := range c.active.utters {
		if u.speaking {
			return true
		}
	}
	return false
}

// callerSpeech is what a leg's own detector found.
func (c *core) callerSpeech(r *run, o CallerSpeechOut) {
	if !openID(o.Item) {
		c.count.BadOutputs++
		return
	}
	at := o.At
	if !o.Started {
		if at.IsZero() || at.After(c.now) {
			at = c.now
		}
		if u := r.utters[o.Item]; u != nil {
			u.speaking, u.ended = false, at
			c.recordCaller(u, recorder.Event{Kind: recorder.SpeechStopped, At: at})
			c.in(dueSettle, "", c.times.Settle)
		}
		return
	}
	u := c.utteranceOf(r, o.Item, at)
	c.keepSound(u.at)
	if r.Can.OwnTurns {
		u.speaking = true
		if !c.speaking {
			c.observe(Event{Kind: SpeechStarted, Who: "caller", Epoch: r.epoch, Item: o.Item})
		}
		c.newTurn()
		c.bargeIn()
	}
}

// utteranceOf finds what is being said, or begins it.
func (c *core) utteranceOf(r *run, item string, at time.Time) *utterance {
	u := r.utters[item]
	if u == nil {
		back, again := r.again[item]
		if again {
			at = back.at
		}
		u = &utterance{run: r, item: item, as: item, at: c.startOf(r, at)}
		if again {
			u.as = item[:min(len(item), 60)] + "-" + string(rune('a'+min(back.times, 25)))
		}
		r.utters[item] = u
		c.recordCaller(u, recorder.Event{Kind: recorder.SpeechStarted, At: u.at})
	}
	return u
}

func (c *core) recordCaller(u *utterance, e recorder.Event) {
	e.Who, e.Epoch, e.Leg, e.Item = recorder.Caller, u.run.epoch, u.run.Name, u.as
	c.record(e)
}

// transcript is what somebody said, as the active leg understood it.
func (c *core) transcript(r *run, o TranscriptOut) {
	if !openID(o.Item) {
		c.count.BadOutputs++
		return
	}
	if o.Agent {
		if t := c.turnOf(r, o.Item); t != nil && !o.Failed && !t.aloud {
			c.turnTranscript(t, o.Text, o.Final)
		}
		return
	}
	u := c.utteranceOf(r, o.Item, o.At)
	switch {
	case o.Failed:
		c.recordCaller(u, recorder.Event{Kind: recorder.TranscriptFailed})
	case o.Final:
		c.recordCaller(u, recorder.Event{Kind: recorder.Final, Text: o.Text})
		if strings.TrimSpace(o.Text) != "" {
			c.spoke = true
			c.observe(Event{Kind: TranscriptSaid, Epoch: r.epoch, Who: "caller", Item: o.Item, Text: o.Text, Final: true})
		}
	default:
		c.recordCaller(u, recorder.Event{Kind: recorder.Partial, Text: o.Text})
		c.observe(Event{Kind: TranscriptSaid, Epoch: r.epoch, Who: "caller", Item: o.Item, Text: o.Text})
		c.bargeInWords(o.Text)
		return
	}
	delete(r.utters, o.Item)
	c.bargeInWords(o.Text)
	c.understood(r, u)
}

// understood: a transcript is final; the sound of what is said since is all that the next leg would need.
func (c *core) understood(r *run, u *utterance) {
	if r.Can.OwnTurns {
		upTo := later(u.ended, u.at.Add(sameTurn))
		c.starts = slices.DeleteFunc(c.starts, func(at time.Time) bool { return !at.After(upTo) })
	}
	var first time.Time // what is not understood yet
	for _, p := range r.sortedUtterances() {
		if !p.stale {
			first = p.at
			break
		}
	}
	if !r.Can.OwnTurns && len(c.starts) > 0 && (first.IsZero() || c.starts[0].Before(first)) {
		first = c.starts[0]
	}
	switch {
	case !c.marked:
	case !first.IsZero():
		c.moveMark(first)
	case r.Can.OwnTurns && u.ended.IsZero():
		c.unmark(c.now)
	case r.Can.OwnTurns || !c.callerTurn:
		c.unmark(u.ended)
	default: // a part of the turn: what comes after the pause is not understood
		c.moveMark(c.pausedAt)
	}
}

func (c *core) moveMark(at time.Time) {
	if at.After(c.markAt) {
		c.markAt = at
		c.do(aMark{at})
	}
}
