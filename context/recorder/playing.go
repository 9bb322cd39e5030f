package recorder

import (
	chatctx "sightline/context"
)

// playing notes how much of an answer has been heard.
func (c *Core) playing(e Event) {
	k := key{class: "a", epoch: e.Epoch, item: short(e.Item)}
	if e.Item == "" {
		k.item = c.openItem(e, k)
	}
	if s := c.slots[k]; s != nil && e.Heard >= s.soFar {
		s.soFar, s.soFarTxt = e.Heard, c.clean(e.HeardText)
	}
}

// Playing are the answers in the log of which only what has been heard so far stands there: all of their text, by item id.
func (c *Core) Playing() map[string]string {
	var all map[string]string
	for _, s := range c.queue {
		if s.itemID != "" && s.toBeHeard() && !s.resumed {
			if all == nil {
				all = map[string]string{}
			}
			all[s.itemID] = s.text
		}
	}
	return all
}

// toBeHeard: how much of an answer will be heard is not known yet.
func (s *slot) toBeHeard() bool {
	return s.rank == 1 && s.item == nil && (s.audio > 0 || s.voiced) && !s.played && !s.cut && !s.ready()
}

// wroteCut: the log has it as interrupted.
func (s *slot) wroteCut() bool {
	m, ok := s.written.(*chatctx.Message)
	return ok && m.Interrupted
}

// soFarOf makes the message of an answer that is not heard to its end: as interrupted, after what has been heard of it, so that
// the log does not say more than that if nothing of it is written any more.
func (s *slot) soFarOf(m *chatctx.Message) *chatctx.Message {
	m.Interrupted, m.Content, m.TextGenerated = true, chatctx.Content{}, s.text
	heard := s.soFarTxt
	if heard == "" && s.audio > 0 {
		heard = heardPart(s.text, s.soFar, s.audio)
		if slow := heardPart(s.text, s.soFar, 0); !s.done && len(slow) < len(heard) { // the text is ahead of the sound
			heard = slow
		}
	}
	if !blank(heard) {
		m.Content = chatctx.TextContent(heard)
	}
	return m
}
