package importer

import (
	"encoding/json"

	chatctx "sightline/context"
)

// branch is one message of the tree.
type branch struct {
	v        node
	parent   string
	children int
	last     string // its last child
}

// chatGPT reads one conversation of ChatGPT's export: the path from its root to current_node, or to the last leaf.
func (r *reader) chatGPT(c *conversation) error {
	var v node
	var err error
	path := ""
	if c != nil {
		for _, l := range c.lists {
			if l.name == "mapping" {
				path = l.path
				v, err = r.in.at(l.off, l.path)
			}
		}
	}
	if err != nil {
		return err
	}
	b := r.b
	b.path = path
	if v.kind() != objectKind {
		return &Error{Place: Place{Field: path}, Detail: "a ChatGPT export has a mapping of messages"}
	}
	tree := map[string]*branch{}
	var order []string
	v.eachField(func(id string, n node) bool {
		o := n.object()
		tree[id] = &branch{v: n, parent: o.str("parent")}
		order = append(order, id)
		return true
	})
	leaf := ""
	for _, id := range order {
		if p := tree[tree[id].parent]; p != nil {
			p.children++
			p.last = id
		}
	}
	if leaf = text(c.beside["current_node"]); tree[leaf] == nil {
		for _, id := range order {
			if tree[id].children == 0 {
				leaf = id
			}
		}
	}
	var way []string
	on := map[string]bool{}
	for id := leaf; tree[id] != nil; id = tree[id].parent {
		if on[id] {
			return &Error{Place: Place{Offset: tree[id].v.off, Field: join(path, clip(id))}, Detail: "a message that is its own ancestor"}
		}
		on[id] = true
		way = append(way, id)
	}
	if others := len(order) - len(way); others > 0 {
		b.lose(v, "", NoteOtherBranches, "%d messages beside the path to the current one are not read", others)
	}
	for i := len(way) - 1; i >= 0 && b.err == nil; i-- {
		b.path = join(path, clip(way[i]))
		b.chatGPTNode(tree[way[i]].v)
	}
	return b.err
}

func (b *builder) chatGPTNode(v node) {
	m := b.object(v, "").get("message")
	if !m.given() {
		return // the root
	}
	o := b.object(m, "message")
	author := b.object(o.get("author"), "message.author")
	content := b.object(o.get("content"), "message.content")
	if b.err != nil {
		return
	}
	id, role := b.str(o.get("id"), "message.id"), author.str("role")
	parts := b.chatGPTContent(content)
	kind := content.str("content_type")
	recipient := o.str("recipient")
	switch {
	case kind == "thoughts" || kind == "reasoning_recap":
		b.lose(m, "message.content", NoteReasoning, "a model's reasoning is no part of the conversation")
	case role == "tool":
		b.output(chatctx.FunctionCallOutput{ID: id, Name: author.str("name"), Output: parts.Text()}, m)
	case role == "assistant" && recipient != "" && recipient != "all":
		b.note(m, "message.recipient", NoteChanged, "what the assistant sent to a tool is a call of it")
		args, err := json.Marshal(map[string]string{"text": parts.Text()})
		if s := parts.Text(); json.Valid([]byte(s)) || err != nil {
			args = []byte(s)
		}
		b.call(chatctx.FunctionCall{ID: id, CallID: "call_" + mappedID(id), Name: recipient, Arguments: string(args)}, m)
	case len(parts) == 0 || role == "system" && parts.Text() == "":
	default:
		b.message(chatctx.Message{ID: id, Role: b.role(role, author.get("role"), "message.author.role"), Content: parts}, m)
	}
}

func (b *builder) chatGPTContent(content object) chatctx.Content {
	const at = "message.content"
	var parts chatctx.Content
	for _, name := range []string{"text", "result", "user_profile", "user_instructions"} {
		if v := content.get(name); v.kind() == stringKind {
			parts = append(parts, chatctx.Text{Text: b.str(v, join(at, name))})
		}
	}
	content.get("parts").each(func(i int, v node) bool {
		field := index(at+".parts", i)
		if v.kind() == stringKind {
			if s := b.str(v, field); s != "" {
				parts = append(parts, chatctx.Text{Text: s})
			}
			return b.err == nil
		}
		o := b.object(v, field)
		switch kind := o.str("content_type"); {
		case kind == "audio_transcription" || o.get("text").kind() == stringKind:
			parts = append(parts, chatctx.Text{Text: b.str(o.get("text"), join(field, "text"))})
		case kind == "image_asset_pointer":
			b.lose(v, field, NoteDroppedImage, "an image that lies in another file of the export")
		default:
			b.lose(v, field, NoteDroppedPart, "no place for a part of type %q", clip(kind))
		}
		return b.err == nil
	})
	return parts
}
