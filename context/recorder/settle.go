package recorder

import (
	"slices"
	"time"

	chatctx "sightline/context"
)

// Advance gives what is to be written now that it is now.
func (c *Core) Advance(now time.Time) []Out { return c.advance(now, false) }

// Flush settles what is open, as before a switch of pipelines: partial transcripts are written as they are, and become final in
// place if more comes.
func (c *Core) Flush(now time.Time) []Out { return c.advance(now, true) }

// Close is Flush at the end: empty places are taken back.
func (c *Core) Close(now time.Time) []Out {
	out := c.advance(now, true)
	for _, s := range slices.Clone(c.queue) {
		c.giveUp(s)
	}
	return append(out, c.take()...)
}

func (c *Core) take() []Out {
	out := c.out
	c.out = nil
	return out
}

func (c *Core) advance(now time.Time, flush bool) []Out {
	for id, s := range c.waiting {
		if flush || !now.Before(s.active.Add(c.times.Wait)) {
			c.makeUpCall(id, s, now)
		}
	}
	slices.SortFunc(c.queue, func(a, b *slot) int { return a.compare(b.order) })
	for len(c.queue) > maxOpen {
		c.stats.Forced++
		c.passOver(c.queue[0])
		c.giveUp(c.queue[0])
	}
	held := false // something earlier holds back what comes now
	queue := slices.Clone(c.queue)
	for i, s := range queue {
		switch {
		case s.left: // written or passed over: whatever comes of it goes to its place
			c.late(s, now)
		case held:
		case !flush && now.Before(s.start.Add(c.times.Reorder)):
			held = true
		case s.ready():
			c.settle(s)
		case !flush && now.Before(s.holdsUntil(c.times)):
			held = true
		case flush || i < len(queue)-1 || !blank(s.text):
			c.passOver(s)
		case !now.Before(s.givesUp(c.times)): // nothing waits for it and nothing is known of it
			c.giveUp(s)
		}
	}
	return c.take()
}

// ready reports whether all is known of a slot.
func (s *slot) ready() bool {
	if s.rank == 0 {
		return s.final || s.failed
	}
	return s.done && (s.audio == 0 && !s.resumed || s.played || s.stop)
}

// holdsUntil is until when a slot may hold back what is later: Wait after the last that was heard of it, and at most GiveUp after
// its start or the end of the speech.
func (s *slot) holdsUntil(t Times) time.Time {
	until, most := s.active.Add(t.Wait), s.start.Add(t.GiveUp)
	if s.stopped.After(s.start) {
		most = s.stopped.Add(t.GiveUp)
	}
	if most.Before(until) {
		return most
	}
	return until
}

// givesUp is when a slot is ended though it has no end: GiveUp after the last that was heard of it, or after its sound ended.
func (s *slot) givesUp(t Times) time.Time {
	from := s.active
	if ends := s.start.Add(s.audio); ends.After(from) {
		from = ends
	}
	return from.Add(t.GiveUp)
}

// Deadline is when Advance is to be called next, if nothing is reported before; ok is false when nothing waits for time.
func (c *Core) Deadline() (at time.Time, ok bool) {
	soonest := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	for _, s := range c.waiting {
		soonest(s.active.Add(c.times.Wait))
	}
	var first *slot
	for _, s := range c.queue {
		if s.left {
			soonest(s.givesUp(c.times))
		} else if first == nil || s.compare(first.order) < 0 {
			first = s
		}
	}
	if first != nil {
		soonest(c.due(first))
	}
	return at, ok
}

// due is when something happens to the first slot that holds back others.
func (c *Core) due(s *slot) time.Time {
	t := s.start.Add(c.times.Reorder)
	if s.ready() {
		return t
	}
	if blank(s.text) && !slices.ContainsFunc(c.queue, func(q *slot) bool { return q.compare(s.order) > 0 }) {
		return s.givesUp(c.times)
	}
	if until := s.holdsUntil(c.times); until.After(t) {
		return until
	}
	return t
}

// passOver lets what is later go on: what is known of the slot is written, and it stays open for the rest.
func (c *Core) passOver(s *slot) {
	if s.left || s.item != nil {
		return
	}
	s.left = true
	if m := c.message(s, false); m != nil {
		c.stats.Provisional++
		c.append(s, m, stagePart, "")
		return
	}
	if len(c.queue) > 1 && blank(s.text) && c.before(s.order) == 0 && len(c.tail) == 0 {
		c.reserve(s)
	}
}

// reserve writes an empty place for something of which nothing is known yet, when nothing is before it that it could be put
// after later.
func (c *Core) reserve(s *slot) {
	m := &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.Content{}}
	if s.rank > 0 {
		m.Role = chatctx.RoleAssistant
	}
	c.stats.Provisional++
	c.append(s, m, stagePart, "nothing is known of it yet: an empty place")
}

// late looks whether more is known of a slot that was passed over.
func (c *Core) late(s *slot, now time.Time) {
	switch {
	case s.ready() && s.itemID == "":
		c.settle(s)
	case s.ready():
		c.fill(s)
	case !now.Before(s.givesUp(c.times)):
		if s.itemID != "" && s.toBeHeard() && s.soFar == 0 && !s.resumed { // nobody says how much is heard: there was time for all of it
			s.played = true
			c.fill(s)
			return
		}
		c.giveUp(s)
	}
}

// settle writes a slot for good.
func (c *Core) settle(s *slot) {
	if s.item != nil {
		c.append(s, s.item, stageWhole, "")
		c.drop(s)
		return
	}
	m := c.message(s, true)
	switch {
	case m != nil:
		c.append(s, m, stageWhole, "")
	case s.rank == 0 || !s.cut:
		c.stats.Vanished++
	default:
		c.stats.Unheard++
	}
	c.drop(s)
}

// fill brings what was written of a slot to its end.
func (c *Core) fill(s *slot) {
	m := c.message(s, true)
	switch {
	case m == nil:
		if s.cut {
			c.stats.Unheard++
		}
		c.remove(s)
		return
	case m.Interrupted || s.wroteCut() || s.wrote() != m.Content.Text():
		op := chatctx.Op{ID: s.key.opID(stageFill), Kind: chatctx.OpUpdate, ItemID: s.itemID, Changes: chatctx.Changes{Content: &m.Content}}
		if m.Interrupted || s.wroteCut() {
			op.Changes.Interrupted = &m.Interrupted
		}
		c.emit(s, op, "")
	}
	c.drop(s)
}

// giveUp ends a slot of which nothing more will come: a text stays as it is, an empty place is taken back.
func (c *Core) giveUp(s *slot) {
	if s.item != nil && s.itemID == "" {
		c.settle(s)
		return
	}
	if s.item == nil && s.itemID != "" && blank(s.wrote()) {
		c.remove(s)
		return
	}
	if s.itemID == "" {
		c.stats.Vanished++
	}
	c.drop(s)
}

func (c *Core) remove(s *slot) {
	c.stats.Vanished++
	for _, q := range c.queue { // sorted; the first that would have been put after this needs a place of its own
		if q.left && q.itemID == "" && q.compare(s.order) > 0 && c.before(q.order) == 1 && len(c.tail) == 0 {
			c.reserve(q)
			break
		}
	}
	c.places = slices.DeleteFunc(c.places, func(p place) bool { return p.itemID == s.itemID })
	c.emit(s, chatctx.Op{ID: s.key.opID(stageGone), Kind: chatctx.OpRemove, ItemID: s.itemID}, "")
	c.drop(s)
}

// wrote is the text that the log has of a slot.
func (s *slot) wrote() string {
	if m, ok := s.written.(*chatctx.Message); ok {
		return m.Content.Text()
	}
	return ""
}

// message makes the message of a slot, nil when there is nothing to store: nothing understood, or nothing heard. What is written
// before its sound has ended carries the whole text in text_generated too, so that it can be cut later.
func (c *Core) message(s *slot, whole bool) *chatctx.Message {
	if blank(s.text) {
		return nil
	}
	m := &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(s.text), AgentID: s.agent}
	if s.rank == 0 {
		return m
	}
	m.Role = chatctx.RoleAssistant
	switch {
	case whole:
	case s.toBeHeard():
		return s.soFarOf(m)
	case s.audio > 0:
		m.TextGenerated = s.text
	}
	if !s.cut {
		return m
	}
	heard := s.text
	switch {
	case !s.stop && s.audio > 0: // nobody says how much of it was played: what there was time for
		heard = heardPart(s.text, s.cancelled.Sub(s.start), s.audio)
	case s.heardTxt != "":
		heard = s.heardTxt
	case s.stop && (s.audio == 0 || s.heard < s.audio):
		heard = heardPart(s.text, s.heard, s.audio)
	case s.stop: // it had been played to its end
		return m
	}
	if blank(heard) {
		return nil
	}
	m.Interrupted = true
	if heard != s.text {
		m.Content, m.TextGenerated = chatctx.TextContent(heard), s.text
	}
	return m
}

// append makes the operation that appends a slot's item, in its place when that is not the end.
func (c *Core) append(s *slot, item chatctx.Item, stage, note string) {
	s.itemID = c.itemID(s.key)
	c.used[s.itemID] = true
	s.written = chatctx.WithID(item, s.itemID)
	op := chatctx.Op{ID: s.key.opID(stage), Kind: chatctx.OpAppend, Item: s.written}
	if o, ok := item.(*chatctx.FunctionCallOutput); ok {
		c.joins(s, c.callOf(o.CallID))
	}
	i := c.before(s.order)
	switch n := len(c.places); {
	case i == n:
	case i > 0:
		c.stats.Late++
		op.After, note = c.places[i-1].itemID, "late: put into its place"
	case len(c.tail) > 0:
		c.stats.Late++
		op.After, note = c.tail[len(c.tail)-1], "late: put before all that was written since the beginning"
	default: // nothing is before it that it could be put after: it stands at the end, and what belongs after it goes there
		c.stats.Late++
		note = "late: its place had been passed"
		s.start, i = c.places[n-1].start.Add(1), n
		if f, ok := item.(*chatctx.FunctionCall); ok {
			c.callOf(f.CallID).start = s.start
		}
	}
	c.places = slices.Insert(c.places, i, place{s.order, s.itemID})
	if len(c.places) > maxPlaces {
		c.tail = append(c.tail[:0], c.places[0].itemID)
		c.places = slices.Delete(c.places, 0, 1)
	}
	c.emit(s, op, note)
}

// before is how many of the places are before one.
func (c *Core) before(o order) int {
	i, _ := slices.BinarySearchFunc(c.places, o, func(p place, o order) int { return p.compare(o) })
	return i
}

func (c *Core) emit(s *slot, op chatctx.Op, note string) {
	author := "system"
	switch {
	case s.rank == 0:
		author = "caller"
	case s.leg != "":
		author = "leg:" + s.leg
	}
	c.stats.Written++
	c.out = append(c.out, Out{Op: op, Author: author, Epoch: s.key.epoch, Note: note})
}
