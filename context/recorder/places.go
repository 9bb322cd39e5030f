package recorder

import (
	"slices"

	chatctx "sightline/context"
)

// tailLength is how many of the log's newest items are remembered, since they may be removed.
const tailLength = 16

// end remembers what stands at the end of the log, until there is something of our own to put what is late after.
func (c *Core) end(e chatctx.Entry) {
	switch {
	case e.Op == chatctx.OpRemove:
		is := func(id string) bool { return id == e.ItemID }
		c.tail = slices.DeleteFunc(c.tail, is)
		c.places = slices.DeleteFunc(c.places, func(p place) bool { return is(p.itemID) })
	case e.Op != chatctx.OpAppend || e.Item == nil || len(c.places) > 0:
	case e.After == "" || len(c.tail) > 0 && e.After == c.tail[len(c.tail)-1]:
		if len(c.tail) == tailLength {
			c.tail = c.tail[1:]
		}
		c.tail = append(c.tail, e.Item.ItemID())
	}
}
