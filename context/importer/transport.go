package importer

import (
	chatctx "sightline/context"
)

// transport reads one of the seeds' dicts. What has a tool_call_id is a tool's result, whatever its role.
func (b *builder) transport(el node) {
	o := b.object(el, "")
	if b.err != nil {
		return
	}
	b.rest(o, "", "role", "content", "message_id", "images", "tool_calls", "tool_call_id", "name")
	if o.get("content").kind() == arrayKind { // the dicts have strings; parts come from OpenAI's dialect
		b.openAI(el)
		return
	}
	id := b.str(o.get("message_id"), "message_id")
	content := b.loose(o.get("content"), "content")
	if callID := b.str(o.get("tool_call_id"), "tool_call_id"); callID != "" {
		if !o.get("images").empty() || !o.get("tool_calls").empty() {
			b.lose(el, "tool_call_id", NoteDroppedPart, "a tool's result has no images and no calls")
		}
		b.output(chatctx.FunctionCallOutput{ID: id, CallID: callID, Name: b.str(o.get("name"), "name"), Output: content}, el)
		return
	}
	role := b.roleField(o)
	if role == "" {
		b.output(chatctx.FunctionCallOutput{ID: id, Name: b.str(o.get("name"), "name"), Output: content}, el)
		return
	}
	images := b.looseImages(o.get("images"))
	calls := !o.get("tool_calls").empty()
	if content != "" || len(images) > 0 || !calls {
		m := chatctx.Message{ID: id, Role: role, Content: append(chatctx.TextContent(content), images...)}
		b.message(m, el)
		id = ""
	}
	if calls && role != chatctx.RoleAssistant {
		b.note(el, "tool_calls", NoteRole, "calls of a %s message taken as the assistant's", role)
	}
	b.toolCalls(o.get("tool_calls"), id, "")
}

// roleField reads a role; "" means a tool.
func (b *builder) roleField(o object) chatctx.Role {
	v := o.get("role")
	s := b.loose(v, "role")
	if s == "tool" || s == "function" {
		return ""
	}
	at := v
	if !v.given() {
		at = o.node
	}
	return b.role(s, at, "role")
}

// looseImages reads images given as URLs, {url} or {image_url: {url}}.
func (b *builder) looseImages(list node) chatctx.Content {
	if list.given() && list.kind() != arrayKind {
		b.fail(list, "images", "images must be a list, got %s", kindName(list.kind()))
		return nil
	}
	var images chatctx.Content
	list.each(func(i int, v node) bool {
		field := join("images", "")
		field = index(field, i)
		url, detail := "", ""
		if v.kind() == stringKind {
			url = b.str(v, field)
		} else {
			o := b.object(v, field)
			in := o
			if nested := o.get("image_url"); nested.kind() == objectKind {
				in = nested.object()
			} else if nested.kind() == stringKind {
				url = b.str(nested, join(field, "image_url"))
			}
			if url == "" {
				url = b.str(in.get("url"), join(field, "url"))
			}
			detail = b.str(in.get("detail"), join(field, "detail"))
			b.rest(o, field, "type", "url", "detail", "image_url")
		}
		if img, ok := b.image(url, detail, v, field); ok {
			images = append(images, img)
		}
		return b.err == nil
	})
	return images
}

// toolCalls reads calls in any of the forms {name, arguments, call_id}, {id, function: {name, arguments}}. The first gets id.
func (b *builder) toolCalls(list node, id, agent string) {
	if list.given() && list.kind() != arrayKind {
		b.fail(list, "tool_calls", "tool_calls must be a list, got %s", kindName(list.kind()))
		return
	}
	list.each(func(i int, v node) bool {
		field := index("tool_calls", i)
		o := b.object(v, field)
		f := o
		if fn := o.get("function"); fn.given() {
			f = b.object(fn, join(field, "function"))
		} else if custom := o.get("custom"); custom.kind() == objectKind {
			f = custom.object()
		}
		c := chatctx.FunctionCall{ID: id, AgentID: agent,
			CallID:    b.str(o.get("call_id", "id"), join(field, "id")),
			Name:      b.str(f.get("name"), join(field, "name")),
			Arguments: b.loose(f.get("arguments", "arguments_json", "input"), join(field, "arguments"))}
		if b.err != nil {
			return false
		}
		b.rest(o, field, "id", "call_id", "type", "function", "custom", "name", "arguments", "arguments_json", "input", "index")
		b.call(c, v)
		id = ""
		return b.err == nil
	})
}
