package chatctx

import (
	"strconv"
	"time"

	"github.com/google/uuid"
)

// The seeds' names for what is called otherwise here.
type (
	ChatRole    = Role // whom a message speaks for
	ChatContent = Text // a run of words inside a message
)

// ChatMessage is one message as the seeds have it: the flat view of a *Message with the calls made in it, or of a tool's result
// (ToolCallID set, Role RoleTool). It is a copy: changing it changes no conversation.
type ChatMessage struct {
	Role       Role
	Content    string
	MessageID  string
	ToolCalls  []FunctionCall
	ToolCallID string // of a tool's result: the call it answers
	Images     []ImageContent
	AgentID    string
}

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
			if err := c.push(item, now); err != nil {
				return nil, badField(err, at, at)
			}
		}
	}
	for n, h := range handoffs {
		if err := c.push(&h, now); err != nil {
			at := "handoffs[" + strconv.Itoa(n) + "]"
			return nil, badField(err, at, at)
		}
	}
	return c, nil
}

// items takes a message apart. A message that only calls tools gives its id to its first call.
func (m ChatMessage) items() ([]Item, error) {
	if m.ToolCallID != "" {
		if len(m.Images) > 0 || len(m.ToolCalls) > 0 {
			return nil, fail(InvalidArgument, "tool_call_id", "a tool's result has no images and no calls")
		}
		return []Item{&FunctionCallOutput{ID: m.MessageID, CallID: m.ToolCallID, Output: m.Content}}, nil
	}
	role := m.Role
	if role == "" {
		role = RoleUser // the seeds' default
	}
	if len(m.ToolCalls) > 0 && role != RoleAssistant {
		return nil, fail(InvalidArgument, "tool_calls", "only the assistant calls tools, not %q", role)
	}
	var items []Item
	callsOnly := m.Content == "" && len(m.Images) == 0 && len(m.ToolCalls) > 0
	if !callsOnly {
		items = append(items, newMessage(role, m.Content, m.MessageID, m.AgentID, m.Images))
	}
	for n, call := range m.ToolCalls {
		call.ID = ""
		if callsOnly && n == 0 {
			call.ID = m.MessageID
		}
		if call.AgentID == "" {
			call.AgentID = m.AgentID
		}
		items = append(items, &call)
	}
	return items, nil
}

// newMessage makes a message of one text and images; an image without a detail is "auto".
func newMessage(role Role, text, id, agentID string, images []ImageContent) *Message {
	content := make(Content, 0, 1+len(images))
	content = append(content, Text{text})
	for _, img := range images {
		if img.Detail == "" {
			img.Detail = detailAuto
		}
		content = append(content, img)
	}
	return &Message{ID: id, Role: role, Content: content, AgentID: agentID}
}

const detailAuto = "auto"

// push is the next entry of a free-standing ChatContext: it appends item, with a new id when it has none.
func (c *ChatContext) push(item Item, at time.Time) error { return c.pushAfter(item, at, "") }

func (c *ChatContext) pushAfter(item Item, at time.Time, after string) error {
	unnamed := item.ItemID() == ""
	if unnamed {
		item = item.withID(uuid.NewString())
	} else if !ValidID(item.ItemID()) {
		return fail(InvalidArgument, "message_id", "id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", item.ItemID())
	}
	if err := item.validate(); err != nil {
		return err
	}
	if err := checkTexts(item, maxInt); err != nil {
		return err
	}
	if _, taken := c.index[item.ItemID()]; taken {
		return fail(DuplicateID, "message_id", "the id %s is taken", item.ItemID())
	}
	if err := c.Apply(Entry{Seq: c.seq + 1, Author: authorLocal, At: At(at), Op: OpAppend, Item: item}); err != nil {
		return err
	}
	i, _ := c.find(item.ItemID())
	c.nodes[i].unnamed = unnamed
	return nil
}

const (
	authorLocal = "local" // of the entries of a free-standing ChatContext
	maxInt      = int(^uint(0) >> 1)
)

// MessageOptions are AddMessage's optional arguments.
type MessageOptions struct {
	ID     string // default: a new UUID
	Images []ImageContent
	// CreatedAt is when it was said, as Placed tells; zero = now. The order is the order of adding, whatever it says.
	CreatedAt time.Time
	Replace   bool
}

// AddMessage appends a message and returns it.
func (c *ChatContext) AddMessage(role Role, content string, o MessageOptions) (ChatMessage, error) {
	return c.addMessage(role, content, "", o)
}

func (c *ChatContext) addMessage(role Role, content, agentID string, o MessageOptions) (ChatMessage, error) {
	if o.CreatedAt.IsZero() {
		o.CreatedAt = time.Now()
	}
	if o.ID == "" {
		o.ID = uuid.NewString()
	}
	m := newMessage(role, content, o.ID, agentID, o.Images)
	if err := c.push(m, o.CreatedAt); err != nil {
		return ChatMessage{}, err
	}
	return m.chat(), nil
}

func (m *Message) chat() ChatMessage {
	return ChatMessage{Role: m.Role, Content: m.Content.Text(), MessageID: m.ID, Images: m.Content.Images(), AgentID: m.AgentID}
}

// Messages is the conversation as the seeds' flat messages, in order. Calls join the assistant's message that they directly
// follow, or make one of their own; handoffs, config updates, summaries and switches are no messages: see Items.
func (c *ChatContext) Messages() []ChatMessage {
	out := []ChatMessage{}
	for _, n := range c.nodes {
		id := n.item.ItemID()
		if n.unnamed {
			id = ""
		}
		switch it := n.item.(type) {
		case *Message:
			m := it.chat()
			m.MessageID = id
			out = append(out, m)
		case *FunctionCall:
			if last := len(out) - 1; last >= 0 && out[last].Role == RoleAssistant {
				out[last].ToolCalls = append(out[last].ToolCalls, *it)
			} else {
				out = append(out, ChatMessage{Role: RoleAssistant, MessageID: id, ToolCalls: []FunctionCall{*it}, AgentID: it.AgentID})
			}
		case *FunctionCallOutput:
			out = append(out, ChatMessage{Role: RoleTool, Content: it.Output, MessageID: id, ToolCallID: it.CallID})
		}
	}
	return out
}

// Handoffs are the handoffs in order; Placed says when each was.
func (c *ChatContext) Handoffs() []AgentHandoff {
	out := []AgentHandoff{}
	for _, n := range c.nodes {
		if h, ok := n.item.(*AgentHandoff); ok {
			out = append(out, *h)
		}
	}
	return out
}

// LastHandoff is the most recent handoff; ok is false when there is none.
func (c *ChatContext) LastHandoff() (h AgentHandoff, ok bool) {
	for i := len(c.nodes) - 1; i >= 0; i-- {
		if h, ok := c.nodes[i].item.(*AgentHandoff); ok {
			return *h, true
		}
	}
	return AgentHandoff{}, false
}
