package chatctx

import (
	"strconv"
	"time"
)

// The seeds' names for what is called otherwise here.
type (
	ChatRole    = Role // whom a message speaks for
	ChatContent = Text // a run of words inside a message
)

// ChatMessage is one message as the seeds have it: the flat view of a *Message with the calls made in it, or of a tool's result
// (ToolCallID set, Role RoleTool). It is a copy: changing it changes no conversation. It has no place for a result's tool name and
// is_error, for times, and for what was generated but not heard: Items has them.
type ChatMessage struct {
	Role       Role
	Content    string
	MessageID  string
	ToolCalls  []FunctionCall
	ToolCallID string // of a tool's result: the call it answers
	Images     []ImageContent
	AgentID    string
}

// items takes a message apart. A message that only calls tools gives its id to its first call. An empty role is the user's, as
// in the seeds.
func (m ChatMessage) items() ([]Item, error) {
	if m.ToolCallID != "" {
		if len(m.Images) > 0 || len(m.ToolCalls) > 0 {
			return nil, fail(InvalidArgument, "tool_call_id", "a tool's result has no images and no calls")
		}
		return []Item{&FunctionCallOutput{ID: m.MessageID, CallID: m.ToolCallID, Output: m.Content}}, nil
	}
	role := m.Role
	if role == "" {
		role = RoleUser
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
		if callsOnly && n == 0 && m.MessageID != "" {
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

// view is m as the seeds have it, with the id that is to be shown.
func (m *Message) view(id string) ChatMessage {
	return ChatMessage{Role: m.Role, Content: m.Content.Text(), MessageID: id, Images: m.Content.Images(), AgentID: m.AgentID}
}

// Messages is the conversation as the seeds' flat messages, in order. Calls join the assistant's message that they directly
// follow, unless another agent made them, or make one of their own; handoffs, config updates, summaries and switches are no
// messages: see Items.
func (c *ChatContext) Messages() []ChatMessage {
	out := []ChatMessage{}
	for _, u := range c.messageUnits() {
		first := c.nodes[u[0]].item
		var m ChatMessage
		switch it := first.(type) {
		case *Message:
			m = it.view(c.shownID(it.ID))
			u = u[1:]
		case *FunctionCall:
			m = ChatMessage{Role: RoleAssistant, MessageID: c.shownID(it.ID), AgentID: it.AgentID}
		case *FunctionCallOutput:
			m = ChatMessage{Role: RoleTool, Content: it.Output, MessageID: c.shownID(it.ID), ToolCallID: it.CallID}
			u = nil
		}
		for _, i := range u {
			m.ToolCalls = append(m.ToolCalls, *c.nodes[i].item.(*FunctionCall))
		}
		out = append(out, m)
	}
	return out
}

// messageUnits groups the nodes that make one message each: a message with the calls that join it, calls alone, or an output.
func (c *ChatContext) messageUnits() [][]int {
	var units [][]int
	var agent string  // of the unit that calls may join
	joinable := false // the last unit is the assistant's
	add := func(i int) { units = append(units, []int{i}) }
	for i, n := range c.nodes {
		switch it := n.item.(type) {
		case *Message:
			add(i)
			joinable, agent = it.Role == RoleAssistant, it.AgentID
		case *FunctionCall:
			if joinable && (it.AgentID == agent || it.AgentID == "") {
				units[len(units)-1] = append(units[len(units)-1], i)
				continue
			}
			add(i)
			joinable, agent = true, it.AgentID
		case *FunctionCallOutput:
			add(i)
			joinable = false
		}
	}
	return units
}

// shownID is the id that the seeds' formats show for an item: "" when its author gave none.
func (c *ChatContext) shownID(id string) string {
	if _, hidden := c.unnamed[id]; hidden {
		return ""
	}
	return id
}

func (c *ChatContext) hideID(id string) {
	if c.unnamed == nil {
		c.unnamed = map[string]struct{}{}
	}
	c.unnamed[id] = struct{}{}
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

// TurnCount is the number of the user's messages. A tool's result is none of them.
func (c *ChatContext) TurnCount() int {
	turns := 0
	for _, n := range c.nodes {
		if m, ok := n.item.(*Message); ok && m.Role == RoleUser {
			turns++
		}
	}
	return turns
}

// EstimatedTokens is the seeds' estimate, by their own heuristic: two tokens for each whitespace-separated word of all message
// contents, tools' results included. It takes a paragraph of Chinese for one word and images and calls for nothing; package
// context/tokens counts exactly.
func (c *ChatContext) EstimatedTokens() int {
	words := 0
	for _, n := range c.nodes {
		words += contentWords(n.item)
	}
	return 2 * words
}

// contentWords counts the words that the seeds' estimate sees.
func contentWords(item Item) int {
	switch it := item.(type) {
	case *Message:
		return wordCount(it.Content.Text())
	case *FunctionCallOutput:
		return wordCount(it.Output)
	}
	return 0
}

// ToContextMessages writes the messages in the seeds' transport format.
func (c *ChatContext) ToContextMessages() []ContextMessage {
	items := make(Items, len(c.nodes))
	for i, n := range c.nodes {
		items[i] = n.item
		if _, hidden := c.unnamed[n.item.ItemID()]; hidden {
			items[i] = n.item.withID("")
		}
	}
	return ToContextMessages(items)
}

// OpenAIMessage is a message of ToOpenAIMessages.
type OpenAIMessage struct {
	Role    Role   `json:"role"`
	Content string `json:"content"`
}

// ToOpenAIMessages is the seeds' conversion, exactly: one {role, content} a message. It loses images, calls, ids and who answered
// which call, and shows a tool's result as the user's words; reasoningModel changes nothing. Package context/project writes what
// OpenAI takes.
func (c *ChatContext) ToOpenAIMessages(reasoningModel bool) []OpenAIMessage {
	_ = reasoningModel // reserved, as in the seeds
	out := []OpenAIMessage{}
	for _, m := range c.Messages() {
		if m.Role == RoleTool {
			m.Role = RoleUser
		}
		out = append(out, OpenAIMessage{m.Role, m.Content})
	}
	return out
}

// NewFromContextMessages reads a transport list as FromContextMessages does, into a free-standing ChatContext. A repeated id is not kept for
// the second item, which a warning tells; an id is kept as it is even where a Log would not take it.
func NewFromContextMessages(data []byte) (c *ChatContext, warnings []string, err error) {
	items, warnings, err := FromContextMessages(data)
	if err != nil {
		return nil, nil, err
	}
	c, now := New(), time.Now()
	for n, item := range items {
		if c.has(item.ItemID()) {
			warnings = append(warnings, "items["+strconv.Itoa(n)+"]: the id "+clip(item.ItemID())+" is taken: left out")
			item = item.withID("")
		}
		c.take(item, now)
	}
	return c, warnings, nil
}
