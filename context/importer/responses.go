package importer

import (
	chatctx "sightline/context"
)

// responses reads an item of OpenAI's Responses, from a request's input or from an answer's output.
func (b *builder) responses(el node) {
	o := b.object(el, "")
	if b.err != nil {
		return
	}
	b.responsesItem(el, o)
}

func (b *builder) responsesItem(el node, o object) {
	id := b.str(o.get("id"), "id")
	switch t := b.str(o.get("type"), "type"); t {
	case "message", "":
		b.responsesMessage(el, o, id)
	case "function_call", "custom_tool_call":
		b.rest(o, "", "type", "id", "call_id", "name", "arguments", "input", "status", "object", "agent_id")
		b.call(chatctx.FunctionCall{ID: id, CallID: b.str(o.get("call_id"), "call_id"), Name: b.str(o.get("name"), "name"),
			Arguments: b.loose(o.get("arguments", "input"), "arguments")}, el)
	case "function_call_output", "custom_tool_call_output":
		b.rest(o, "", "type", "id", "call_id", "name", "output", "status", "object", "is_error")
		b.output(chatctx.FunctionCallOutput{ID: id, CallID: b.str(o.get("call_id"), "call_id"), Name: b.str(o.get("name"), "name"),
			Output: b.joined(o.get("output"), "output"), IsError: b.yes(o.get("is_error"), "is_error")}, el)
	case "mcp_call":
		b.mcpCall(el, o, id)
	case "reasoning":
		b.lose(el, "", NoteReasoning, "a model's reasoning is no part of the conversation")
	case "item_reference":
		b.lose(el, "", NoteEarlier, "an item that is only referred to")
	default:
		b.lose(el, "", NoteDroppedItem, "no place for an item of type %q", clip(t))
	}
}

func (b *builder) responsesMessage(el node, o object, id string) {
	b.rest(o, "", "type", "id", "role", "content", "status", "object", "phase")
	if !o.get("role").given() {
		b.fail(el, "role", "a message needs a role: system, developer, user or assistant")
		return
	}
	role := b.roleField(o)
	if role == "" {
		b.output(chatctx.FunctionCallOutput{ID: id, CallID: b.str(o.get("call_id", "tool_call_id"), "call_id"), Output: b.joined(o.get("content"), "content")}, el)
		return
	}
	content, _ := b.responsesContent(o.get("content"), "content")
	b.message(chatctx.Message{ID: id, Role: role, Content: content, Interrupted: o.str("status") == "incomplete"}, el)
}

// responsesContent reads a string or parts, those of Realtime too.
func (b *builder) responsesContent(v node, field string) (content chatctx.Content, audio bool) {
	if v.kind() != arrayKind {
		content, _ = b.openAIContent(v, field)
		return content, false
	}
	v.each(func(i int, p node) bool {
		at := index(field, i)
		o := b.object(p, at)
		t := b.str(o.get("type"), join(at, "type"))
		var part chatctx.Part
		switch t {
		case "input_text", "output_text", "text", "summary_text":
			if !o.get("annotations").empty() {
				b.lose(o.get("annotations"), join(at, "annotations"), NoteDroppedField, "annotations are not kept")
			}
			part = chatctx.Text{Text: b.str(o.get("text"), join(at, "text"))}
		case "refusal":
			b.note(p, at, NoteChanged, "a refusal is what the assistant said")
			part = chatctx.Text{Text: b.str(o.get("refusal"), join(at, "refusal"))}
		case "input_image":
			part = b.imagePart(o, at)
		case "input_audio", "output_audio", "audio":
			audio = true
			part = b.audioPart(o, at)
		case "reasoning_text":
			b.lose(p, at, NoteReasoning, "a model's reasoning is no part of the conversation")
		default:
			b.lose(p, at, NoteDroppedPart, "no place for a part of type %q", clip(t))
		}
		if part != nil {
			content = append(content, part)
		}
		return b.err == nil
	})
	return content, audio
}

// mcpCall is a call and its output in one item.
func (b *builder) mcpCall(el node, o object, id string) {
	b.rest(o, "", "type", "id", "name", "arguments", "output", "error", "status", "server_label", "approval_request_id")
	callID := id
	if callID == "" {
		callID = b.madeCallID()
	}
	name := b.str(o.get("name"), "name")
	if server := o.str("server_label"); server != "" {
		name = server + "." + name
	}
	b.note(el, "", NoteChanged, "a call over MCP is a call and an output")
	b.call(chatctx.FunctionCall{ID: id, CallID: callID, Name: name, Arguments: b.loose(o.get("arguments"), "arguments")}, el)
	switch {
	case o.get("error").given():
		b.output(chatctx.FunctionCallOutput{CallID: callID, Output: b.loose(o.get("error"), "error"), IsError: true}, el)
	case o.get("output").given():
		b.output(chatctx.FunctionCallOutput{CallID: callID, Output: b.loose(o.get("output"), "output")}, el)
	}
}

// objectText is a JSON object as the text of a call's arguments; some write that text themselves.
func (b *builder) objectText(v node, field string) string {
	if !v.given() {
		return "{}"
	}
	return b.loose(v, field)
}
