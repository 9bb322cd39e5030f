package chatctx

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Empty makes a ChatContext without messages and handoffs.
func Empty() *ChatContext { return New() }

// NewChatContext makes a free-standing ChatContext of messages and then handoffs; both lists are copied. Roles, images, calls and
// texts must be valid and ids unique: an *Error names the first that is not, as messages[3].role. A missing id is made, and stays
// out of Messages and ToContextMessages.
//
// A free-standing ChatContext is a little log of its own: each Add… method makes its next entry and folds it in. The fold of a
// session's Log must not be changed that way: append operations to the Log.
func NewChatContext(messages []ChatMessage, handoffs []AgentHandoff) (*ChatContext, error) {
	c, now := New(), time.Now()
	for n, m := range messages {
		at := "messages[" + strconv.Itoa(n) + "]"
		items, err := m.items()
		if err != nil {
			return nil, badField(err, at, at)
		}
		for _, item := range items {
			if err := c.push(item, now, ""); err != nil {
				return nil, badField(err, at, at)
			}
		}
	}
	for n, h := range handoffs {
		if err := c.push(&h, now, ""); err != nil {
			at := "handoffs[" + strconv.Itoa(n) + "]"
			return nil, badField(err, at, at)
		}
	}
	return c, nil
}

// push makes item the next entry of a free-standing ChatContext, at the end or right after another item; item gets an id when it
// has none. What a Log would refuse is refused.
func (c *ChatContext) push(item Item, at time.Time, after string) error {
	if id := item.ItemID(); id != "" && !ValidID(id) {
		return fail(InvalidArgument, "id", "id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", id)
	}
	if err := item.validate(); err != nil {
		return err
	}
	if err := checkTexts(item, maxInt); err != nil {
		return err
	}
	if c.has(item.ItemID()) {
		return fail(DuplicateID, "id", "the id %s is taken", item.ItemID())
	}
	unnamed := item.ItemID() == ""
	if unnamed {
		item = item.withID(uuid.NewString())
		c.hideID(item.ItemID())
	}
	return c.Apply(c.next(Entry{At: At(at), Op: OpAppend, Item: item, After: after}))
}

// take is push at the end without any check but that the id is free.
func (c *ChatContext) take(item Item, at time.Time) {
	if item.ItemID() == "" {
		item = item.withID(uuid.NewString())
		c.hideID(item.ItemID())
	}
	_ = c.Apply(c.next(Entry{At: At(at), Op: OpAppend, Item: item})) // refuses a taken id only
}

// next makes e the entry after the last.
func (c *ChatContext) next(e Entry) Entry {
	e.Seq, e.Author = c.seq+1, authorLocal
	return e
}

const (
	authorLocal = "local" // of the entries of a free-standing ChatContext
	maxInt      = int(^uint(0) >> 1)
)

// MessageOptions are what AddMessage takes besides role and text.
type MessageOptions struct {
	ID     string // default: a new UUID
	Images []ImageContent
	// CreatedAt is when it was said, as Placed tells; zero = now. The order is that of adding, whatever it says. (Unused in the
	// seeds.)
	CreatedAt time.Time
	// Replace puts the message in the place of the one with the same ID, whose role it must have. With the role system and an ID
	// that is free it takes the place of the first system message and removes all others, so that the instructions stay where they
	// are. Else there is nothing to replace, and it is appended. (Unused in the seeds.)
	Replace bool
}

// AddMessage appends a message and returns it. An *Error says which argument is wrong; then nothing has changed.
func (c *ChatContext) AddMessage(role Role, content string, o MessageOptions) (ChatMessage, error) {
	return c.addMessage(newMessage(role, content, o.ID, "", o.Images), o)
}

// AddAttributedMessage appends a message of an agent. The id is a new UUID when it is empty.
func (c *ChatContext) AddAttributedMessage(role Role, content, agentID, id string, images []ImageContent) (ChatMessage, error) {
	if agentID == "" {
		return ChatMessage{}, fail(InvalidArgument, "agent_id", "an attributed message needs an agent_id")
	}
	return c.addMessage(newMessage(role, content, id, agentID, images), MessageOptions{ID: id})
}

func (c *ChatContext) addMessage(m *Message, o MessageOptions) (ChatMessage, error) {
	if o.CreatedAt.IsZero() {
		o.CreatedAt = time.Now()
	}
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	var err error
	switch there, taken := c.Item(m.ID); {
	case o.Replace && taken:
		err = c.replace(there, m)
	case o.Replace && m.Role == RoleSystem:
		err = c.replaceSystem(m, o.CreatedAt)
	default:
		err = c.push(m, o.CreatedAt, "")
	}
	if err != nil {
		return ChatMessage{}, err
	}
	return m.view(m.ID), nil
}

// replace puts m in the place of there, which has its id.
func (c *ChatContext) replace(there Item, m *Message) error {
	old, ok := there.(*Message)
	if !ok {
		return fail(InvalidArgument, "id", "the item %s is a %s: a message cannot replace it", m.ID, there.Kind())
	}
	if old.Role != m.Role {
		return fail(InvalidArgument, "role", "message %s has the role %q, which cannot be changed to %q", m.ID, old.Role, m.Role)
	}
	if err := m.validate(); err != nil {
		return err
	}
	if err := checkTexts(m, maxInt); err != nil {
		return err
	}
	return c.Apply(c.next(Entry{At: At(time.Now()), Op: OpUpdate, ItemID: m.ID, Item: m}))
}

// replaceSystem puts m where the first system message is and removes all that were there.
func (c *ChatContext) replaceSystem(m *Message, at time.Time) error {
	var old []string
	for _, n := range c.nodes {
		if s, ok := n.item.(*Message); ok && s.Role == RoleSystem {
			old = append(old, s.ID)
		}
	}
	if len(old) == 0 {
		return c.push(m, at, "")
	}
	if err := c.push(m, at, old[0]); err != nil {
		return err
	}
	return c.Apply(c.next(Entry{At: At(at), Op: OpTruncate, Removed: old}))
}

// AddHandoff records that from hands the conversation over to to, and returns the record with its new id. Mind the order, which is
// the seeds': the receiver comes first. Only to must be given.
func (c *ChatContext) AddHandoff(to, from, reason string) (AgentHandoff, error) {
	h := AgentHandoff{ID: uuid.NewString(), FromAgent: from, ToAgent: to, Reason: reason}
	if err := c.push(&h, time.Now(), ""); err != nil {
		return AgentHandoff{}, err
	}
	return h, nil
}

// Ops are the operations that append c's items to a Log, in order; op ids are prefix and the item's id, so that sending them again
// adds nothing. The Log gives the times.
func (c *ChatContext) Ops(prefix string) []Op {
	ops := make([]Op, len(c.nodes))
	for i, n := range c.nodes {
		ops[i] = Op{ID: prefix + n.item.ItemID(), Kind: OpAppend, Item: n.item}
	}
	return ops
}
