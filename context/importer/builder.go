package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	chatctx "sightline/context"
)

// The kinds of Note.
const (
	NoteAmbiguous     = "ambiguous"       // another format has signs of its own
	NoteRole          = "role_changed"    // another role
	NoteID            = "id_changed"      // another id: not of the allowed letters, too long, or taken
	NoteCallID        = "call_id_made"    // a call or output without an id has got one
	NoteOrphan        = "orphan_output"   // an output that no call asked for
	NoteMerged        = "text_joined"     // several texts became one
	NoteImage         = "image_changed"   // another detail or kind
	NoteDroppedImage  = "dropped_image"   // an image that is no data: and no http(s) URL
	NoteDroppedAudio  = "dropped_audio"   // the words stay when there is a transcript
	NoteDroppedPart   = "dropped_part"    // a part that a conversation here has no place for
	NoteDroppedItem   = "dropped_item"    // the same of an item
	NoteDroppedField  = "dropped_field"   // the same of a field
	NoteReasoning     = "dropped_thought" // a model's reasoning is no part of the conversation
	NoteText          = "text_replaced"   // invalid UTF-8 or a lone surrogate became U+FFFD
	NoteTwice         = "field_twice"     // a field is given twice in one object: the last counts
	NoteChanged       = "changed"         // read as something else, nothing lost
	NoteNotRead       = "not_read"        // a list beside the conversation
	NoteEarlier       = "not_in_input"    // history that the input only refers to
	NoteOtherBranches = "other_branches"  // messages beside the chosen path of a tree
)

// emit takes the next item and its place.
type emit func(item chatctx.Item, at Place) error

// builder makes items of one conversation.
type builder struct {
	in      *input
	notes   notes
	emit    emit
	path    string      // of the element that is being read
	fill    bool        // give ids to items that have none
	count   int         // items given out
	made    int         // ids made up
	exact   bool        // the format is ours: nothing is supplied that is not there
	marks   bool        // the format is one that package project writes notes into
	entries bool        // the list is of entries, not of items
	seen    map[key]int // ids of items, and how often each was wanted
	calls   map[key]*asked
	open    []*asked // calls without an output, in order, for formats that pair by name
	err     error    // the first error; everything stops
}

// maxOpen bounds how many unanswered calls are remembered for outputs that do not say whose they are.
const maxOpen = 1024

// asked is a call that was seen.
type asked struct {
	id, name string
	answered bool
}

// key is a text's hash, so that what is remembered of an item is small.
type key [16]byte

func keyOf(s string) key {
	sum := sha256.Sum256([]byte(s))
	return key(sum[:16])
}

// fail stops the import with an error at a value.
func (b *builder) fail(at node, field, format string, args ...any) {
	if b.err == nil {
		b.err = &Error{Place: b.place(at, field), Detail: fmt.Sprintf(format, args...)}
	}
}

func (b *builder) place(at node, field string) Place {
	path := join(b.path, field)
	if strings.HasPrefix(field, "[") {
		path = b.path + field
	}
	return Place{Offset: at.off, Field: path}
}

func (b *builder) note(at node, field, kind, format string, args ...any) {
	b.notes.add(Note{Place: b.place(at, field), Kind: kind, Detail: fmt.Sprintf(format, args...)})
}

func (b *builder) lose(at node, field, kind, format string, args ...any) {
	b.notes.add(Note{Place: b.place(at, field), Kind: kind, Detail: fmt.Sprintf(format, args...), Lost: true})
}

// str reads a string; null and nothing are "".
func (b *builder) str(n node, field string) string {
	switch n.kind() {
	case noKind, nullKind:
		return ""
	case stringKind:
		s, broken := unquote(n.raw)
		if broken != "" {
			b.lose(n, field, NoteText, "%s became U+FFFD", broken)
		}
		return s
	}
	b.fail(n, field, "%s must be a string, got %s", lastField(field), kindName(n.kind()))
	return ""
}

// loose reads a string; any other value is its own compact JSON.
func (b *builder) loose(n node, field string) string {
	switch n.kind() {
	case noKind, nullKind:
		return ""
	case stringKind:
		return b.str(n, field)
	}
	s, broken := n.compact()
	if broken {
		b.lose(n, field, NoteText, "invalid UTF-8 became U+FFFD")
	}
	return s
}

func (b *builder) yes(n node, field string) bool {
	switch n.kind() {
	case noKind, nullKind:
		return false
	case boolKind:
		return n.raw[0] == 't'
	}
	b.fail(n, field, "%s must be true or false, got %s", lastField(field), kindName(n.kind()))
	return false
}

func lastField(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// object reads an object or fails.
func (b *builder) object(n node, field string) object {
	if n.kind() != objectKind {
		name := lastField(field)
		if name == "" {
			name = "an element"
		}
		b.fail(n, field, "%s must be an object, got %s", name, kindName(n.kind()))
		return object{}
	}
	o := n.object()
	if o.twice != "" {
		b.lose(n, join(field, clip(o.twice)), NoteTwice, "the field is there twice: the last one counts")
	}
	if o.more > 0 {
		b.lose(n, field, NoteDroppedField, "an object of more than %d fields: the rest is not looked at", maxFields)
	}
	return o
}

// rest reports the fields that are not among the known ones.
func (b *builder) rest(o object, field string, known ...string) {
	for _, name := range o.order {
		v := o.fields[name]
		if v.empty() || contains(known, name) {
			continue
		}
		b.lose(v, join(field, clip(name)), NoteDroppedField, "no place for the field %s", clip(name))
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// role maps a role to one of ours. What is unknown becomes the user's, as the seeds say, and is reported.
func (b *builder) role(s string, at node, field string) chatctx.Role {
	switch r := chatctx.Role(s); r {
	case chatctx.RoleSystem, chatctx.RoleDeveloper, chatctx.RoleUser, chatctx.RoleAssistant:
		return r
	}
	role := chatctx.RoleUser
	switch strings.ToLower(s) {
	case "model", "ai", "bot", "agent", "assistant", "chatbot":
		role = chatctx.RoleAssistant
	case "system":
		role = chatctx.RoleSystem
	}
	b.lose(at, field, NoteRole, "unknown role %q taken as %s", clip(s), role)
	return role
}

// id makes an id that items may have: a good one stays, another is mapped, a missing one stays missing unless ids are filled in.
func (b *builder) id(id string, at node) string {
	if id == "" {
		if !b.fill {
			return ""
		}
		for {
			b.made++
			id = fmt.Sprintf("item_%d", b.made)
			if _, taken := b.seen[keyOf(id)]; !taken {
				break
			}
		}
	}
	given := id
	if !chatctx.ValidID(id) {
		id = mappedID(id)
	}
	for first := keyOf(id); ; {
		if _, taken := b.seen[keyOf(id)]; !taken {
			break
		}
		b.seen[first]++ // from where it was left: the hundred-thousandth of one id is found at once
		id = mappedID(fmt.Sprintf("%s\x00%d", given, b.seen[first]))
	}
	if id != given {
		b.note(at, "id", NoteID, "ids are 1 to 64 of A-Z, a-z, 0-9, _ and - and occur once: another was given in place of this one")
	}
	if b.seen == nil {
		b.seen = map[key]int{}
	}
	b.seen[keyOf(id)] = 1
	return id
}

// mappedID is always the same for the same text.
func mappedID(id string) string {
	sum := sha256.Sum256([]byte(id))
	var s strings.Builder
	for _, c := range []byte(id) {
		if s.Len() == 40 || c == 0 {
			break
		}
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			s.WriteByte(c)
		}
	}
	return s.String() + "_" + hex.EncodeToString(sum[:8])
}

// give hands an item out.
func (b *builder) give(item chatctx.Item, at node) {
	if b.err != nil || item == nil {
		return
	}
	b.count++
	b.err = b.emit(item, Place{Offset: at.off, Field: b.path})
}

func (b *builder) message(m chatctx.Message, at node) {
	if b.marks && b.unmark(m, at) {
		return
	}
	b.plainMessage(m, at)
}

func (b *builder) plainMessage(m chatctx.Message, at node) {
	if m.Content == nil {
		m.Content = chatctx.Content{}
	}
	m.ID = b.id(m.ID, at)
	b.give(&m, at)
}

// call gives a call out. Without a call_id it gets one; without a name it is called "unknown".
func (b *builder) call(c chatctx.FunctionCall, at node) {
	if c.CallID == "" {
		c.CallID = b.madeCallID()
		b.note(at, "call_id", NoteCallID, "a call without an id has got one")
	}
	if c.Name == "" {
		c.Name = "unknown"
		b.lose(at, "name", NoteChanged, `a call without a name is called "unknown"`)
	}
	c.ID = b.id(c.ID, at)
	if b.calls == nil {
		b.calls = map[key]*asked{}
	}
	if b.calls[keyOf(c.CallID)] == nil {
		a := &asked{id: c.CallID, name: c.Name}
		b.calls[keyOf(c.CallID)] = a
		if b.open = append(b.open, a); len(b.open) > 2*maxOpen {
			b.openCall("")
			b.open = append([]*asked(nil), b.open[max(0, len(b.open)-maxOpen):]...)
		}
	}
	b.give(&c, at)
}

func (b *builder) madeCallID() string {
	for n := len(b.calls) + 1; ; n++ {
		id := fmt.Sprintf("call_%d", n)
		if b.calls[keyOf(id)] == nil {
			return id
		}
	}
}

// output gives an output out: with the name of its call, and with the id of the oldest open call of that name when it has none.
func (b *builder) output(o chatctx.FunctionCallOutput, at node) {
	if o.CallID == "" {
		if o.CallID = b.openCall(o.Name); o.CallID != "" {
			b.note(at, "call_id", NoteCallID, "an output that does not say whose it is was given to the oldest open call of its name")
		}
	}
	if o.CallID == "" {
		o.CallID = b.madeCallID() + "_unasked"
		b.note(at, "call_id", NoteCallID, "an output that does not say whose it is, and no call is open")
	}
	a := b.calls[keyOf(o.CallID)]
	if a == nil {
		b.note(at, "call_id", NoteOrphan, "the output of a call that is not there before it")
	} else {
		a.answered = true
		if o.Name == "" && !b.exact {
			o.Name = a.name
		}
	}
	o.ID = b.id(o.ID, at)
	b.give(&o, at)
}

// openCall finds the oldest call without an output; name "" = of any name.
func (b *builder) openCall(name string) string {
	kept := b.open[:0]
	found := ""
	for _, a := range b.open {
		if a.answered {
			continue
		}
		kept = append(kept, a)
		if found == "" && (name == "" || a.name == name) {
			found = a.id
		}
	}
	b.open = kept
	return found
}

// image makes an image part of a URL; ok is false when it is none that can be kept, which is then reported.
func (b *builder) image(url, detail string, at node, field string) (img chatctx.ImageContent, ok bool) {
	switch detail {
	case "auto", "low", "high":
	case "":
		detail = "auto"
	default:
		b.note(at, field, NoteImage, "detail %q taken as auto: known are auto, low and high", clip(detail))
		detail = "auto"
	}
	switch {
	case strings.HasPrefix(url, "http://"), strings.HasPrefix(url, "https://"):
	case strings.HasPrefix(url, "data:"):
		if mime, _, _ := strings.Cut(url[5:min(len(url), 300)], ","); mime != "" && !strings.HasPrefix(strings.ToLower(mime), "image/") {
			b.lose(at, field, NoteDroppedImage, "the data: URL holds %q and no image", clip(mime))
			return img, false
		}
	case validBlob(url):
	case url == "":
		b.lose(at, field, NoteDroppedImage, "an image without a URL")
		return img, false
	default:
		b.lose(at, field, NoteDroppedImage, "the reference %q leads nowhere from here: kept are data: and http(s) URLs", clip(url))
		return img, false
	}
	return chatctx.ImageContent{URL: url, Detail: detail}, true
}

func validBlob(url string) bool {
	sha, ok := strings.CutPrefix(url, chatctx.BlobPrefix)
	return ok && len(sha) == 2*sha256.Size && strings.Trim(sha, "0123456789abcdef") == ""
}

// base64Image makes the data: URL of an image that the format keeps as type and base64.
func base64Image(mime, data string) string { return "data:" + mime + ";base64," + data }
