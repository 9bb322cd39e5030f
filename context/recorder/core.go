package recorder

import (
	"cmp"
	"slices"
	"time"

	chatctx "sightline/context"
)

// Defaults of Times.
const (
	DefaultReorder = 250 * time.Millisecond
	DefaultWait    = 5 * time.Second
	DefaultGiveUp  = 30 * time.Second
	// maxOpen bounds what is open at a time; the oldest is settled when there is more.
	maxOpen = 256
	// maxPlaces is how many written items are remembered, to put something late in its place among them.
	maxPlaces = 256
)

// Times are how late a pipeline's reports may be. Zero values mean the defaults.
type Times struct {
	// Reorder is how late the start of something may be reported: nothing is written earlier than Reorder after its start.
	Reorder time.Duration
	// Wait is how long a transcript, or the end of an answer that is playing, may hold back what came later.
	Wait time.Duration
	// GiveUp is how long a transcript may be late at all.
	GiveUp time.Duration
}

func (t *Times) defaults() {
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&t.Reorder, DefaultReorder}, {&t.Wait, DefaultWait}, {&t.GiveUp, DefaultGiveUp}} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
}

// Out is an operation that a Core wants done, in the order given.
type Out struct {
	Op     chatctx.Op
	Author string
	Epoch  uint64
	Note   string // why it is not as usual, for a log line; "" mostly
}

// Core is the recorder without a clock and without a log: reports and the time go in, operations come out. It is deterministic
// and belongs to one goroutine.
type Core struct {
	times Times
	stats Stats

	slots   map[key]*slot
	queue   []*slot          // those that are not written, in no order
	done    map[key]struct{} // what is written and final, or gone
	used    map[string]bool  // item ids in the log
	foreign map[string]bool  // those of them that others wrote
	places  []place          // of what was written last, by start
	calls   map[string]*call
	waiting map[string]*slot // outputs of calls that are not reported yet, by call_id
	anons   uint64           // the highest number given to something without an id
	arrived uint64           // slots so far
	tail    []string         // newest items of the log, of before the first place; the last one is there to be put after
	out     []Out
}

// place is where in the order of speech a written item stands.
type place struct {
	order
	itemID string
}

// call is what is known of a call_id.
type call struct {
	start     time.Time
	name      string
	epoch     uint64
	generated bool // its call_id
	called    bool
	answered  bool
}

// order is where something belongs.
type order struct {
	start time.Time
	rank  int    // at the same time the caller is before the rest, which stands as it was reported: an answer, its calls, outputs, the next answer
	came  uint64 // the how-manieth slot
	key   key
}

func (a order) compare(b order) int {
	return cmp.Or(a.start.Compare(b.start), cmp.Compare(min(a.rank, 1), min(b.rank, 1)), cmp.Compare(a.came, b.came))
}

// slot is something that is said or done and not yet written for good.
type slot struct {
	order
	began     bool      // start is that of the speech; else the earliest time that was heard of it
	active    time.Time // when something was reported of it last
	stopped   time.Time
	leg       string
	agent     string
	text      string
	final     bool // the text is all there will be
	failed    bool
	done      bool // the assistant has made all
	cut       bool // cancelled or interrupted
	played    bool
	stop      bool // Interrupted was reported
	cancelled time.Time
	heard     time.Duration
	heardTxt  string
	soFar     time.Duration // Playing was reported
	soFarTxt  string
	voiced    bool
	resumed   bool // its beginning is of before a restart
	audio     time.Duration

	item    chatctx.Item // of calls and outputs
	written chatctx.Item // as written
	itemID  string       // in the log; "" = not written
	left    bool         // does not hold anything back any more
}

// NewCore makes a Core for a session whose log is empty; see Resume for one that is not.
func NewCore(t Times) *Core {
	t.defaults()
	return &Core{
		times: t, slots: map[key]*slot{}, done: map[key]struct{}{}, used: map[string]bool{}, foreign: map[string]bool{}, calls: map[string]*call{}, waiting: map[string]*slot{},
	}
}

// Stats are the counters so far.
func (c *Core) Stats() Stats { return c.stats }

// Resume takes in an entry of the log that this Core has not caused: from before a restart, or of somebody else. Items and calls
// in it are not written again.
func (c *Core) Resume(e chatctx.Entry) {
	c.end(e)
	if e.Item != nil && e.Op == chatctx.OpAppend {
		c.used[e.Item.ItemID()] = true
		switch it := e.Item.(type) {
		case *chatctx.FunctionCall:
			k := c.callOf(it.CallID)
			k.called, k.name = true, it.Name
		case *chatctx.FunctionCallOutput:
			c.callOf(it.CallID).answered = true
		}
	}
	k, stage, ours := parseOpID(e.OpID)
	if !ours {
		if e.Item != nil {
			c.foreign[e.Item.ItemID()] = true
		}
		return
	}
	if n, ok := anonNumber(k.item); ok {
		c.anons = max(c.anons, n)
	}
	switch stage {
	case stagePart:
		s := &slot{order: order{start: e.At.Time, rank: rankOf(k.class), key: k}, active: e.At.Time, began: true, left: true, resumed: true}
		if e.Item != nil {
			s.itemID, s.written = e.Item.ItemID(), e.Item
		}
		if m, ok := e.Item.(*chatctx.Message); ok {
			s.text, s.voiced = cmp.Or(m.TextGenerated, m.Content.Text()), m.Interrupted
		}
		c.open(s)
	default:
		if s := c.slots[k]; s != nil {
			c.drop(s)
		}
		c.done[k] = struct{}{}
	}
}

func (c *Core) callOf(id string) *call {
	k := c.calls[id]
	if k == nil {
		k = &call{}
		c.calls[id] = k
	}
	return k
}

func rankOf(class string) int {
	return slices.Index([]string{"u", "a", "c", "o"}, class)
}

// drop forgets an open slot and remembers that it is done.
func (c *Core) drop(s *slot) {
	delete(c.slots, s.key)
	c.done[s.key] = struct{}{}
	c.queue = slices.DeleteFunc(c.queue, func(q *slot) bool { return q == s })
}

// Handle takes a report in and gives what is to be written now.
func (c *Core) Handle(e Event, now time.Time) []Out {
	if e.At.IsZero() || e.At.After(now) { // a clock that is ahead must not hold everything back
		e.At = now
	}
	switch e.Kind {
	case ToolCall:
		c.toolCall(e, now)
	case ToolOutput:
		c.toolOutput(e, now)
	case Error:
		c.stats.Errors++
	default:
		c.speech(e, now)
	}
	return c.Advance(now)
}

// speech takes a report about somebody's words in.
func (c *Core) speech(e Event, now time.Time) {
	if e.Who != Caller && e.Who != Assistant || e.Kind < SpeechStarted || e.Kind > Interrupted {
		c.stats.Ignored++
		return
	}
	if e.Kind == Playing {
		c.playing(e)
		return
	}
	s := c.slotOf(e)
	if s == nil {
		return
	}
	s.voiced = s.voiced || e.Voiced
	if e.Leg != "" {
		s.leg = e.Leg
	}
	if e.AgentID != "" {
		s.agent = e.AgentID
	}
	s.reported(e, now)
	if s.itemID == "" {
		s.left = false // it is alive again, so it may hold back what is later
	}
	switch e.Kind {
	case SpeechStopped:
		s.stopped = e.At
	case Partial:
		if !s.final {
			s.text = c.clean(e.Text)
		}
	case Delta:
		s.audio += e.Audio
		if !s.final {
			s.text = c.clean(s.text + e.Text)
		}
	case Final:
		if s.final {
			c.stats.Duplicates++
			return
		}
		s.final = true
		if !blank(e.Text) || s.rank == 0 {
			s.text = c.clean(e.Text)
		}
	case TranscriptFailed:
		s.failed = true
	case Done:
		s.done = true
		if e.Cancelled {
			s.cut, s.cancelled = true, e.At
		}
	case Played:
		s.played = true
	case Interrupted:
		s.stop, s.cut, s.heard, s.heardTxt = true, true, e.Heard, c.clean(e.HeardText)
	}
}

// reported moves the start of a slot to where it belongs and notes that it is alive.
func (s *slot) reported(e Event, now time.Time) {
	if now.After(s.active) {
		s.active = now
	}
	starts := e.Kind == SpeechStarted
	switch {
	case starts && !s.began, starts == s.began && e.At.Before(s.start):
		s.start = e.At
		s.began = s.began || starts
	}
}

func (c *Core) clean(s string) string {
	text, cut := clean(s)
	if cut {
		c.stats.Cut++
	}
	return text
}

// slotOf finds what a report is about, or begins it; nil when that is done already.
func (c *Core) slotOf(e Event) *slot {
	k := key{class: "u", epoch: e.Epoch, item: short(e.Item)}
	if e.Who == Assistant {
		k.class = "a"
	}
	if e.Item == "" {
		k.item = c.openItem(e, k)
	}
	if s := c.slots[k]; s != nil {
		return s
	}
	if _, done := c.done[k]; done || c.foreign[e.Item] {
		c.stats.Duplicates++
		return nil
	}
	if e.Item == "" && e.Kind != SpeechStarted && e.Kind != Partial && e.Kind != Delta && (e.Kind != Final || blank(e.Text)) {
		c.stats.Ignored++ // the end of nothing
		return nil
	}
	return c.open(&slot{order: order{start: e.At, rank: rankOf(k.class), key: k}, began: e.Kind == SpeechStarted})
}

// openItem is the key of what a report without an item id is about: the speaker's oldest open thing that it can belong to.
func (c *Core) openItem(e Event, k key) string {
	var oldest *slot
	for _, s := range c.queue {
		_, anonymous := anonNumber(s.key.item)
		if !anonymous || s.key.class != k.class || s.key.epoch != k.epoch || e.Kind == SpeechStarted || s.closedFor(e.Kind) {
			continue
		}
		if oldest == nil || s.key.item < oldest.key.item {
			oldest = s
		}
	}
	if oldest != nil {
		return oldest.key.item
	}
	return anon(c.anons + 1)
}

// closedFor reports whether a slot has had what a kind of report brings.
func (s *slot) closedFor(k Kind) bool {
	switch k {
	case Played, Playing, Interrupted:
		return s.played || s.stop
	case Done, Delta:
		return s.done
	case SpeechStopped:
		return !s.stopped.IsZero()
	}
	return s.final || s.done || s.failed
}

func (c *Core) open(s *slot) *slot {
	if n, ok := anonNumber(s.key.item); ok {
		c.anons = max(c.anons, n)
	}
	c.arrived++
	s.came = c.arrived
	c.slots[s.key] = s
	c.queue = append(c.queue, s)
	return s
}
