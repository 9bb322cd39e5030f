package importer

import (
	"strings"

	chatctx "sightline/context"
)

// anthropic reads a message of the Messages API, an answer of it, or a message of claude.ai's export.
func (b *builder) anthropic(el node) {
	o := b.object(el, "")
	if b.err != nil {
		return
	}
	if o.has("sender") {
		b.claudeExport(el, o)
		return
	}
	b.rest(o, "", "role", "content", "id", "type", "model", "stop_reason", "stop_sequence", "usage", "container", "context_management")
	if !o.get("role").given() {
		b.fail(el, "role", "a message needs a role: user or assistant")
		return
	}
	t := turn{b: b, el: el, id: b.str(o.get("id"), "id"), role: b.roleField(o)}
	if t.role == "" {
		b.output(chatctx.FunctionCallOutput{ID: t.id, CallID: b.str(o.get("tool_call_id", "tool_use_id"), "tool_use_id"), Output: b.joined(o.get("content"), "content")}, el)
		return
	}
	t.blocks(o.get("content"), "content")
}

// claudeExport reads {uuid, sender, text, content, attachments}.
func (b *builder) claudeExport(el node, o object) {
	b.rest(o, "", "uuid", "sender", "text", "content", "created_at", "updated_at", "parent_message_uuid", "index")
	role := chatctx.RoleUser
	switch sender := o.str("sender"); sender {
	case "human", "user":
	case "assistant":
		role = chatctx.RoleAssistant
	default:
		role = b.role(sender, o.get("sender"), "sender")
	}
	t := turn{b: b, el: el, id: b.str(o.get("uuid"), "uuid"), role: role}
	if o.get("content").empty() {
		b.message(chatctx.Message{ID: t.id, Role: role, Content: chatctx.TextContent(b.str(o.get("text"), "text"))}, el)
		return
	}
	t.blocks(o.get("content"), "content")
}

// turn is a message whose blocks are texts, images, calls and results; in their order they become messages, calls and outputs.
type turn struct {
	b       *builder
	el      node
	id      string // given to the first item
	role    chatctx.Role
	content chatctx.Content
	given   bool
	broken  bool // Interrupted
}

// flush gives out what was said so far.
func (t *turn) flush() {
	if len(t.content) == 0 {
		return
	}
	t.b.message(chatctx.Message{ID: t.take(), Role: t.role, Content: t.content, Interrupted: t.broken}, t.el)
	t.content = nil
}

func (t *turn) take() string {
	id := t.id
	t.id, t.given = "", true
	return id
}

func (t *turn) blocks(v node, field string) {
	b := t.b
	switch v.kind() {
	case stringKind:
		t.content = chatctx.TextContent(b.str(v, field))
	case arrayKind:
		v.each(func(i int, block node) bool {
			t.block(block, index(field, i))
			return b.err == nil
		})
	case noKind, nullKind:
	default:
		b.fail(v, field, "content must be a string or a list of blocks, got %s", kindName(v.kind()))
		return
	}
	if t.flush(); !t.given && b.err == nil { // nothing in it: the turn stays as it was, empty
		b.message(chatctx.Message{ID: t.id, Role: t.role}, t.el)
	}
}

func (t *turn) block(v node, field string) {
	b := t.b
	if v.kind() == stringKind {
		t.content = append(t.content, chatctx.Text{Text: b.str(v, field)})
		return
	}
	o := b.object(v, field)
	if b.err != nil {
		return
	}
	switch kind := b.str(o.get("type"), join(field, "type")); kind {
	case "text":
		b.rest(o, field, "type", "text", "cache_control", "start_timestamp", "stop_timestamp", "flags")
		t.content = append(t.content, chatctx.Text{Text: b.str(o.get("text"), join(field, "text"))})
	case "image":
		if img := b.sourceImage(o, field); img != nil {
			t.content = append(t.content, img)
		}
	case "image_url", "input_image":
		if img := b.imagePart(o, field); img != nil {
			t.content = append(t.content, img)
		}
	case "tool_use":
		t.flush()
		b.rest(o, field, "type", "id", "name", "input", "cache_control", "caller", "start_timestamp", "stop_timestamp", "message", "flags")
		b.call(chatctx.FunctionCall{ID: t.take(), CallID: b.str(o.get("id"), join(field, "id")), Name: b.str(o.get("name"), join(field, "name")),
			Arguments: b.objectText(o.get("input"), join(field, "input"))}, v)
	case "tool_result":
		t.flush()
		b.rest(o, field, "type", "tool_use_id", "content", "is_error", "cache_control", "name", "start_timestamp", "stop_timestamp", "flags")
		b.output(chatctx.FunctionCallOutput{ID: t.take(), CallID: b.str(o.get("tool_use_id"), join(field, "tool_use_id")), Name: b.str(o.get("name"), join(field, "name")),
			Output: b.joined(o.get("content"), join(field, "content")), IsError: b.yes(o.get("is_error"), join(field, "is_error"))}, v)
	case "thinking", "redacted_thinking":
		b.lose(v, field, NoteReasoning, "a model's reasoning is no part of the conversation")
	default:
		b.lose(v, field, NoteDroppedPart, "no place for a block of type %q", clip(kind))
	}
}

// sourceImage reads {source: {type: base64, media_type, data}} or {source: {type: url, url}}. nil when it cannot be kept.
func (b *builder) sourceImage(o object, field string) chatctx.Part {
	v := o.get("source")
	if !v.given() && o.has("url") {
		return b.imagePart(o, field)
	}
	s := b.object(v, join(field, "source"))
	url := b.str(s.get("url"), join(field, "source.url"))
	if data := s.get("data"); data.given() {
		url = base64Image(b.str(s.get("media_type"), join(field, "source.media_type")), b.str(data, join(field, "source.data")))
	}
	if url == "" {
		url = strings.TrimSpace("file " + s.str("file_id"))
	}
	if img, ok := b.image(url, "", v, field); ok {
		return img
	}
	return nil
}
