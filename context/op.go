package chatctx

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
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

	Item  Item   // append: the item; its id may be empty, then the log gives it a UUID
	After string // append: the id of the item that it is to stand right after; "" = at the end

	ItemID  string  // update, remove
	BaseSeq uint64  // all but truncate to a limit: the seq the author had applied; 0 = do not check
	Changes Changes // update

	// Remove names at most MaxRemove items that go in the same entry. append: what Item stands for from now on, such as what a
	// summary sums up; After may be one of them. truncate: what to remove, in the place of limits. All go or none: one that is not
	// there is NotFound, one that was changed after BaseSeq a Conflict, as is a call whose output was added since, or the reverse.
	Remove []string

	MaxItems  *int // truncate: how many items to keep; nil = no limit
	MaxTokens *int // truncate: how many estimated tokens to keep; nil = no limit
}

// MaxRemove is how many items one operation may name to be removed, so that its entry stays a few hundred kilobytes.
const MaxRemove = 4096

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
	if !isText(data) {
		return noText(data, "changes", "changes")
	}
	var read Changes
	for _, name := range slices.Sorted(maps.Keys(fields)) { // sorted: of several faults always the same one is named
		var err error
		switch name {
		case "content":
			read.Content, err = change[Content](name, fields[name])
		case "output":
			read.Output, err = change[string](name, fields[name])
		case "is_error":
			read.IsError, err = change[bool](name, fields[name])
		case "interrupted":
			read.Interrupted, err = change[bool](name, fields[name])
		case "agent_id":
			read.AgentID, err = change[string](name, fields[name])
		default:
			err = fail(InvalidArgument, "changes."+name, "%s cannot be changed: allowed are content, output, is_error, interrupted and agent_id", name)
		}
		if err != nil {
			return err
		}
	}
	*c = read
	return nil
}

func change[T any](name string, data json.RawMessage) (*T, error) {
	if string(data) == "null" {
		return nil, fail(InvalidArgument, "changes."+name, "changes.%s must not be null: leave it out to keep what is there", name)
	}
	value := new(T)
	if err := json.Unmarshal(data, value); err != nil {
		return nil, badField(err, "changes", "changes."+name)
	}
	return value, nil
}

// apply makes the changed copy of item, or says which change does not fit its kind.
func (c Changes) apply(item Item) (Item, error) {
	if c == (Changes{}) {
		return nil, fail(InvalidArgument, "changes", "changes is empty: give at least one field to replace")
	}
	rest := c // what item's kind does not take
	var changed Item
	switch old := item.(type) {
	case *Message:
		m := *old
		setIf(&m.Content, &rest.Content)
		setIf(&m.Interrupted, &rest.Interrupted)
		setIf(&m.AgentID, &rest.AgentID)
		changed = &m
	case *FunctionCall:
		f := *old
		setIf(&f.AgentID, &rest.AgentID)
		changed = &f
	case *FunctionCallOutput:
		o := *old
		setIf(&o.Output, &rest.Output)
		setIf(&o.IsError, &rest.IsError)
		changed = &o
	}
	if field := rest.first(); field != "" {
		return nil, fail(InvalidArgument, "changes."+field, "a %s has no %s to change", item.Kind(), field)
	}
	return changed, nil
}

// first names a change that is set, "" when none is.
func (c Changes) first() string {
	switch {
	case c.Content != nil:
		return "content"
	case c.Output != nil:
		return "output"
	case c.IsError != nil:
		return "is_error"
	case c.Interrupted != nil:
		return "interrupted"
	case c.AgentID != nil:
		return "agent_id"
	}
	return ""
}

// setIf replaces field by what change points to and takes the change away.
func setIf[T any](field *T, change **T) {
	if *change != nil {
		*field, *change = **change, nil
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
	Item    Item     `json:"item,omitempty"`          // append, update: the whole item after it
	After   string   `json:"after_item_id,omitempty"` // append: the item it stands right after; "" = at the end
	ItemID  string   `json:"item_id,omitempty"`       // update, remove
	Removed []string `json:"removed,omitempty"`       // truncate, append: ids of what went, in order
}

// removals are the ids of the items that the entry takes out of the conversation.
func (e *Entry) removals() iter.Seq[string] {
	return func(yield func(string) bool) {
		switch e.Op {
		case OpRemove:
			yield(e.ItemID)
		case OpAppend, OpTruncate:
			for _, id := range e.Removed {
				if !yield(id) {
					return
				}
			}
		}
	}
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
	if len(aux.Item) == 0 || bytes.Equal(aux.Item, []byte("null")) {
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
	Warnings  []string // what was accepted but not as it was sent; not kept over a restart
}
