package importer

import (
	"encoding/json"
	"strings"

	chatctx "sightline/context"
)

// liveKit reads an item of LiveKit Agents (Python's to_dict, Node's toJSON) or of VideoSDK Agents, which has the same kinds.
func (b *builder) liveKit(el node) {
	o := b.object(el, "")
	if b.err != nil {
		return
	}
	id := b.str(o.get("id"), "id")
	switch t := b.str(o.get("type"), "type"); t {
	case "message", "":
		b.liveKitMessage(el, o, id)
	case "function_call":
		b.rest(o, "", "type", "id", "call_id", "callId", "name", "arguments", "args", "agent_id", "group_id", "groupId")
		b.call(chatctx.FunctionCall{ID: id, CallID: b.str(o.get("call_id", "callId"), "call_id"), Name: b.str(o.get("name"), "name"),
			Arguments: b.objectText(o.get("arguments", "args"), "arguments"), AgentID: b.str(o.get("agent_id"), "agent_id")}, el)
	case "function_call_output":
		b.rest(o, "", "type", "id", "call_id", "callId", "name", "output", "is_error", "isError", "agent_id")
		b.output(chatctx.FunctionCallOutput{ID: id, CallID: b.str(o.get("call_id", "callId"), "call_id"), Name: b.str(o.get("name"), "name"),
			Output: b.joined(o.get("output"), "output"), IsError: b.yes(o.get("is_error", "isError"), "is_error")}, el)
	case "agent_handoff", "handoff":
		b.rest(o, "", "type", "id", "old_agent_id", "oldAgentId", "new_agent_id", "newAgentId", "from_agent", "to_agent", "reason", "summary", "agent_id")
		h := chatctx.AgentHandoff{ID: b.id(id, el), FromAgent: b.str(o.get("old_agent_id", "oldAgentId", "from_agent"), "from_agent"),
			ToAgent: b.str(o.get("new_agent_id", "newAgentId", "to_agent"), "to_agent"), Reason: b.str(o.get("reason"), "reason"), Summary: b.str(o.get("summary"), "summary")}
		if h.ToAgent == "" {
			b.fail(el, "new_agent_id", "a handoff needs the agent that it goes to")
			return
		}
		b.give(&h, el)
	case "agent_config_update", "config_update":
		b.configUpdate(el, o, id)
	default:
		b.lose(el, "", NoteDroppedItem, "no place for an item of type %q", clip(t))
	}
}

func (b *builder) liveKitMessage(el node, o object, id string) {
	b.rest(o, "", "type", "id", "role", "content", "interrupted", "agent_id", "hash")
	if !o.get("role").given() {
		b.fail(el, "role", "a message needs a role: system, developer, user or assistant")
		return
	}
	role := b.roleField(o)
	if role == "" {
		b.output(chatctx.FunctionCallOutput{ID: id, CallID: b.str(o.get("call_id"), "call_id"), Output: b.joined(o.get("content"), "content")}, el)
		return
	}
	m := chatctx.Message{ID: id, Role: role, AgentID: b.str(o.get("agent_id"), "agent_id"), Interrupted: b.yes(o.get("interrupted"), "interrupted")}
	content := o.get("content")
	if content.kind() == arrayKind {
		content.each(func(i int, v node) bool {
			if part := b.liveKitPart(v, index("content", i)); part != nil {
				m.Content = append(m.Content, part)
			}
			return b.err == nil
		})
	} else {
		m.Content, _ = b.openAIContent(content, "content")
	}
	b.message(m, el)
}

func (b *builder) liveKitPart(v node, field string) chatctx.Part {
	if v.kind() == stringKind {
		return chatctx.Text{Text: b.str(v, field)}
	}
	o := b.object(v, field)
	switch t := b.str(o.get("type"), join(field, "type")); t {
	case "image_content", "image":
		b.rest(o, field, "type", "id", "image", "inference_detail", "inferenceDetail", "mime_type", "mimeType", "url", "detail", "inference_width", "inference_height")
		v := o.get("image", "url")
		if v.kind() != stringKind {
			b.lose(v, join(field, "image"), NoteDroppedImage, "a video frame, not an image with a URL")
			return nil
		}
		if img, ok := b.image(b.str(v, join(field, "image")), b.str(o.get("inference_detail", "inferenceDetail", "detail"), join(field, "inference_detail")), o.node, field); ok {
			return img
		}
		return nil
	case "audio_content":
		return b.audioPart(o, field)
	case "instructions":
		said := b.str(o.get("audio"), join(field, "audio"))
		if other := b.str(o.get("text"), join(field, "text")); other != "" && other != said {
			b.lose(o.get("text"), join(field, "text"), NoteDroppedField, "instructions have two wordings: the one for speech is kept")
		}
		return chatctx.Text{Text: said}
	}
	return b.openAIPart(v, field)
}

// configUpdate reads instructions and a tool list. LiveKit tells tools that came and went, which no list in force says.
func (b *builder) configUpdate(el node, o object, id string) {
	b.rest(o, "", "type", "id", "instructions", "tools", "tools_added", "toolsAdded", "agent_id")
	u := chatctx.ConfigUpdate{}
	switch v := o.get("instructions"); v.kind() {
	case objectKind:
		if part, ok := b.liveKitPart(v, "instructions").(chatctx.Text); ok {
			u.Instructions = part.Text
		}
	default:
		u.Instructions = b.str(v, "instructions")
	}
	if v := o.get("tools"); v.kind() == arrayKind {
		text := b.loose(v, "tools")
		u.Tools = json.RawMessage(strings.ToValidUTF8(text, "\uFFFD"))
	} else if v := o.get("tools_added", "toolsAdded"); !v.empty() {
		b.lose(v, "tools_added", NoteDroppedField, "tools that were added: no list of those in force")
	}
	if u.Instructions == "" && len(u.Tools) == 0 {
		b.lose(el, "", NoteDroppedItem, "a config update without instructions and tools")
		return
	}
	u.ID = b.id(id, el)
	b.give(&u, el)
}
