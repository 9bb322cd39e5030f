package chatctx

import (
	"bytes"
	"encoding/json"
)

// Role is who a message speaks for.
type Role string

// The seeds' four roles. Tool results are items of their own, never messages.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// RoleTool is the role of a tool's result where it has to look like a message, in ChatMessage: what a tool said is never the
// caller's words. No *Message has it, and no format of the seeds writes it.
const RoleTool Role = "tool"

func (r Role) valid() bool {
	switch r {
	case RoleSystem, RoleDeveloper, RoleUser, RoleAssistant:
		return true
	}
	return false
}

// ItemKind is the type discriminator of an item on the wire.
type ItemKind string

// The kinds of item.
const (
	KindMessage            ItemKind = "message"
	KindFunctionCall       ItemKind = "function_call"
	KindFunctionCallOutput ItemKind = "function_call_output"
	KindHandoff            ItemKind = "handoff"
	KindConfigUpdate       ItemKind = "config_update"
	KindSummary            ItemKind = "summary"
	KindPipelineSwitch     ItemKind = "pipeline_switch"
)

// Item is one thing in a conversation. The set is closed: *Message, *FunctionCall, *FunctionCallOutput, *AgentHandoff,
// *ConfigUpdate, *Summary, *PipelineSwitch. An item is immutable from the moment it is handed to a log, with all it refers to:
// it is shared with every reader. Change it by an update operation.
type Item interface {
	// ItemID is unique in the session, 1–64 of [A-Za-z0-9_-].
	ItemID() string
	// Kind is the type discriminator.
	Kind() ItemKind
	validate() error
	withID(id string) Item
}

// Message is something said, typed or shown.
type Message struct {
	ID          string  `json:"id"`
	Role        Role    `json:"role"`
	Content     Content `json:"content"`
	AgentID     string  `json:"agent_id,omitempty"`
	Interrupted bool    `json:"interrupted,omitempty"`
	// TextGenerated is what the model made when Content holds only what was heard.
	TextGenerated string `json:"text_generated,omitempty"`
}

// FunctionCall is a tool invocation asked for by a model. Arguments is a JSON string.
type FunctionCall struct {
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	AgentID   string `json:"agent_id,omitempty"`
}

// FunctionCallOutput is what a tool answered.
type FunctionCallOutput struct {
	ID      string `json:"id"`
	CallID  string `json:"call_id"`
	Name    string `json:"name"`
	Output  string `json:"output"`
	IsError bool   `json:"is_error"`
}

// AgentHandoff passes the conversation from one agent to another.
type AgentHandoff struct {
	ID        string `json:"id"`
	FromAgent string `json:"from_agent"`
	ToAgent   string `json:"to_agent"`
	Reason    string `json:"reason"`
	Summary   string `json:"summary,omitempty"`
}

// ConfigUpdate changes an agent's instructions or tools in mid-call. Tools is the JSON of a tool list, or nil.
type ConfigUpdate struct {
	ID           string          `json:"id"`
	Instructions string          `json:"instructions,omitempty"`
	Tools        json.RawMessage `json:"tools,omitempty"`
}

// Summary stands for the entries Covers[0] to Covers[1] (sequence numbers, both included).
type Summary struct {
	ID     string    `json:"id"`
	Text   string    `json:"text"`
	Covers [2]uint64 `json:"covers"`
}

// PipelineSwitch marks the start, the commit or the abort of a switch between pipelines.
type PipelineSwitch struct {
	ID     string `json:"id"`
	State  string `json:"state"` // started, committed, aborted
	From   string `json:"from"`
	To     string `json:"to"`
	Epoch  uint64 `json:"epoch"`
	Reason string `json:"reason"`
	OpID   string `json:"op_id"`
}

// ItemID implements Item, as Kind does, for each of the types.
func (m *Message) ItemID() string            { return m.ID }
func (m *Message) Kind() ItemKind            { return KindMessage }            // Kind implements Item.
func (c *FunctionCall) ItemID() string       { return c.ID }                   // ItemID implements Item.
func (c *FunctionCall) Kind() ItemKind       { return KindFunctionCall }       // Kind implements Item.
func (o *FunctionCallOutput) ItemID() string { return o.ID }                   // ItemID implements Item.
func (o *FunctionCallOutput) Kind() ItemKind { return KindFunctionCallOutput } // Kind implements Item.
func (h *AgentHandoff) ItemID() string       { return h.ID }                   // ItemID implements Item.
func (h *AgentHandoff) Kind() ItemKind       { return KindHandoff }            // Kind implements Item.
func (u *ConfigUpdate) ItemID() string       { return u.ID }                   // ItemID implements Item.
func (u *ConfigUpdate) Kind() ItemKind       { return KindConfigUpdate }       // Kind implements Item.
func (s *Summary) ItemID() string            { return s.ID }                   // ItemID implements Item.
func (s *Summary) Kind() ItemKind            { return KindSummary }            // Kind implements Item.
func (p *PipelineSwitch) ItemID() string     { return p.ID }                   // ItemID implements Item.
func (p *PipelineSwitch) Kind() ItemKind     { return KindPipelineSwitch }     // Kind implements Item.

func (m *Message) withID(id string) Item            { c := *m; c.ID = id; return &c }
func (c *FunctionCall) withID(id string) Item       { d := *c; d.ID = id; return &d }
func (o *FunctionCallOutput) withID(id string) Item { c := *o; c.ID = id; return &c }
func (h *AgentHandoff) withID(id string) Item       { c := *h; c.ID = id; return &c }
func (u *ConfigUpdate) withID(id string) Item       { c := *u; c.ID = id; return &c }
func (s *Summary) withID(id string) Item            { c := *s; c.ID = id; return &c }
func (p *PipelineSwitch) withID(id string) Item     { c := *p; c.ID = id; return &c }

func (m *Message) validate() error {
	if !m.Role.valid() {
		return fail(InvalidArgument, "role", "role %q: allowed are system, developer, user and assistant", m.Role)
	}
	if m.Content == nil {
		return fail(InvalidArgument, "content", "a message needs content: a string or a list of parts")
	}
	for _, i := range m.Content.Images() {
		if err := i.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (c *FunctionCall) validate() error {
	return needFields(KindFunctionCall, "call_id", c.CallID, "name", c.Name)
}

func (o *FunctionCallOutput) validate() error {
	return needFields(KindFunctionCallOutput, "call_id", o.CallID)
}

func (h *AgentHandoff) validate() error { return needFields(KindHandoff, "to_agent", h.ToAgent) }

func (u *ConfigUpdate) validate() error {
	if u.Instructions == "" && len(u.Tools) == 0 {
		return fail(InvalidArgument, "instructions", "a config_update changes instructions or tools: give at least one")
	}
	if len(u.Tools) > 0 && (!bytes.HasPrefix(bytes.TrimSpace(u.Tools), []byte("[")) || !json.Valid(u.Tools)) {
		return fail(InvalidArgument, "tools", "tools must be a list")
	}
	return nil
}

func (s *Summary) validate() error {
	if s.Covers[0] == 0 || s.Covers[0] > s.Covers[1] {
		return fail(InvalidArgument, "covers", "covers is [first_seq, last_seq] with 1 <= first_seq <= last_seq")
	}
	return needFields(KindSummary, "text", s.Text)
}

func (p *PipelineSwitch) validate() error {
	switch p.State {
	case "started", "committed", "aborted":
		return nil
	}
	return fail(InvalidArgument, "state", "state %q: allowed are started, committed and aborted", p.State)
}

// needFields takes pairs of field name and value and refuses the first empty value.
func needFields(kind ItemKind, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return fail(InvalidArgument, pairs[i], "a %s needs %s", kind, pairs[i])
		}
	}
	return nil
}

// maxIDBytes bounds the ids of items, sessions and agents.
const maxIDBytes = 64

// ValidID reports whether id may name an item, a session or an agent: 1–64 of [A-Za-z0-9_-].
func ValidID(id string) bool {
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return len(id) >= 1 && len(id) <= maxIDBytes
}

// WithID is a copy of an item under another id; what the item refers to is shared.
func WithID(item Item, id string) Item { return item.withID(id) }
