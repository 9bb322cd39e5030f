package chatctx

import (
	"encoding/json"
)

// OpKind is what an operation does to the conversation.
type OpKind string

// The kinds of operation.
const (
	OpAppend   OpKind = "append"
	OpUpdate   OpKind = "update"
	OpRemove   OpKind = "remove"
	OpTruncate OpKind = "truncate"
)

// Op is a requested change. Which fields count depends on Kind.
type Op struct {
	ID   string // op_id: unique in the session for its life, 1–128 bytes
	Kind OpKind

	Item Item // append: the item; its id may be empty, then the log gives it a UUID

	ItemID  string  // update, remove
	BaseSeq uint64  // update, remove: the seq the author had applied; 0 = do not check
	Changes Changes // update

	MaxItems  *int // truncate: how many items to keep; nil = no limit
	MaxTokens *int // truncate: how many estimated tokens to keep; nil = no limit
}

// Changes are the fields that an update replaces; nil leaves a field as it is.
type Changes struct {
	Content     *Content
	Output      *string
	IsError     *bool
	Interrupted *bool
	AgentID     *string
}

// UnmarshalJSON reads the changes object; a field that cannot be changed is an *Error that names it.
func (c *Changes) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		return fail(InvalidArgument, "changes", "changes must be an object of the fields to replace")
	}
	for name, value := range fields {
		var target any
		switch name {
		case "content":
			c.Content = &Content{}
			target = c.Content
		case "output":
			c.Output = new(string)
			target = c.Output
		case "is_error":
			c.IsError = new(bool)
			target = c.IsError
		case "interrupted":
			c.Interrupted = new(bool)
			target = c.Interrupted
		case "agent_id":
			c.AgentID = new(string)
			target = c.AgentID
		default:
			return fail(InvalidArgument, "changes."+name, "%s cannot be changed: allowed are content, output, is_error, interrupted and agent_id", name)
		}
		if err := json.Unmarshal(value, target); err != nil {
			return badField(err, "changes."+name)
		}
	}
	return nil
}

// apply makes the changed copy of item, or says which change does not fit its kind.
func (c Changes) apply(item Item) (Item, error) {
	misfit := func(field string) error {
		return fail(InvalidArgument, "changes."+field, "a %s has no %s to change", item.Kind(), field)
	}
	if c == (Changes{}) {
		return nil, fail(InvalidArgument, "changes", "changes is empty: give at least one field to replace")
	}
	switch old := item.(type) {
	case *Message:
		if c.Output != nil || c.IsError != nil {
			return nil, misfit("output")
		}
		m := *old
		setIf(&m.Content, c.Content)
		setIf(&m.Interrupted, c.Interrupted)
		setIf(&m.AgentID, c.AgentID)
		return &m, m.validate()
	case *FunctionCall:
		if c.Output != nil || c.IsError != nil || c.Content != nil || c.Interrupted != nil {
			return nil, misfit("content")
		}
		f := *old
		setIf(&f.AgentID, c.AgentID)
		return &f, nil
	case *FunctionCallOutput:
		if c.Content != nil || c.Interrupted != nil || c.AgentID != nil {
			return nil, misfit("content")
		}
		o := *old
		setIf(&o.Output, c.Output)
		setIf(&o.IsError, c.IsError)
		return &o, nil
	}
	return nil, misfit("content")
}

func setIf[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Entry is an accepted operation at its place in the log.
type Entry struct {
	Seq     uint64   `json:"seq"` // from 1, no holes
	OpID    string   `json:"op_id"`
	Author  string   `json:"author"` // an agent_id, caller, leg:<name>, http or system
	At      Time     `json:"at"`
	Epoch   uint64   `json:"epoch"` // of the leg that had the floor
	Op      OpKind   `json:"op"`
	Item    Item     `json:"item,omitempty"`    // append, update: the whole item after it
	ItemID  string   `json:"item_id,omitempty"` // update, remove
	Removed []string `json:"removed,omitempty"` // truncate: ids, in order
}

// UnmarshalJSON reads an entry as written by a store or the wire.
func (e *Entry) UnmarshalJSON(data []byte) error {
	type plain Entry
	aux := struct {
		*plain
		Item json.RawMessage `json:"item"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(data, &aux); err != nil {
		return err
	}
	if len(aux.Item) == 0 {
		return nil
	}
	item, err := UnmarshalItem(aux.Item)
	e.Item = item
	return err
}

// Ack is the answer to an operation.
type Ack struct {
	Seq       uint64   // of its entry
	ItemID    string   // the item touched, "" for truncate
	Duplicate bool     // the op_id was known: this is the first answer again
	Warnings  []string // what was accepted but not as it was sent
}
