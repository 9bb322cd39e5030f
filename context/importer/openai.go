package importer

import (
	"strings"

	chatctx "sightline/context"
)

// openAI reads a message of chat completions, a choice of an answer, or what Pipecat keeps for one model only.
func (b *builder) openAI(el node) {
	o := b.object(el, "")
	if b.err != nil {
		return
	}
	if llm := o.str("llm"); llm != "" && o.get("message").kind() == objectKind {
		b.pipecatOwn(llm, o)
		return
	}
	if m := o.get("message"); m.kind() == objectKind && !o.has("role") {
		b.rest(o, "", "message", "index", "finish_reason", "logprobs")
		b.path = join(b.path, "message")
		b.openAIMessage(m, b.object(m, ""))
		return
	}
	b.openAIMessage(el, o)
}

// pipecatOwn reads {llm, message}: a message in the shape of one provider.
func (b *builder) pipecatOwn(llm string, o object) {
	m := o.get("message")
	b.path = join(b.path, "message")
	switch in := m.object(); {
	case llm == "anthropic" && in.has("role"):
		b.anthropic(m)
	case llm == "google" && in.has("parts"):
		b.gemini(m)
	case strings.HasPrefix(llm, "openai") && in.has("role"):
		b.openAIMessage(m, in)
	default:
		b.lose(m, "", NoteDroppedItem, "only the model of %q understands it", clip(llm))
	}
}

func (b *builder) openAIMessage(el node, o object) {
	b.rest(o, "", "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "id", "message_id", "images", "type",
		"weight", "object", "status", "created")
	id := b.str(o.get("id", "message_id"), "id")
	if !o.get("role").given() {
		b.fail(el, "role", "a message needs a role: system, developer, user, assistant or tool")
		return
	}
	name := b.str(o.get("name"), "name")
	role := b.roleField(o)
	if role == "" {
		if o.str("role") == "tool" {
			// A tool message's name is no part of the format, but many write it.
			b.output(chatctx.FunctionCallOutput{ID: id, CallID: b.str(o.get("tool_call_id"), "tool_call_id"), Name: name, Output: b.joined(o.get("content"), "content")}, el)
		} else {
			b.output(chatctx.FunctionCallOutput{ID: id, Name: name, Output: b.joined(o.get("content"), "content")}, el)
		}
		return
	}
	m := chatctx.Message{ID: id, Role: role}
	if name != "" && role != chatctx.RoleUser && chatctx.ValidID(name) {
		m.AgentID = name
	} else if name != "" {
		b.lose(o.get("name"), "name", NoteDroppedField, "no place for the name of a %s message", role)
	}
	content, said := b.openAIContent(o.get("content"), "content")
	m.Content = append(content, b.looseImages(o.get("images"))...)
	if refusal := b.str(o.get("refusal"), "refusal"); refusal != "" {
		b.note(o.get("refusal"), "refusal", NoteChanged, "a refusal is what the assistant said")
		m.Content = append(m.Content, chatctx.Text{Text: refusal})
	}
	if audio := o.get("audio"); audio.given() {
		a := b.object(audio, "audio")
		b.lose(audio, "audio", NoteDroppedAudio, "audio is not kept")
		if t := b.str(a.get("transcript"), "audio.transcript"); t != "" {
			m.Content = append(m.Content, chatctx.Text{Text: t})
		}
	}
	calls := !o.get("tool_calls").empty() || o.get("function_call").given()
	if len(m.Content) > 0 && (said || !calls || len(content) < len(m.Content)) || !calls {
		agent := m.AgentID
		b.message(m, el)
		id, m.AgentID = "", agent
	}
	b.toolCalls(o.get("tool_calls"), id, m.AgentID)
	if v := o.get("function_call"); v.given() {
		f := b.object(v, "function_call")
		b.call(chatctx.FunctionCall{ID: id, AgentID: m.AgentID, Name: b.str(f.get("name"), "function_call.name"),
			Arguments: b.loose(f.get("arguments"), "function_call.arguments")}, v)
	}
}

// openAIContent reads a string or parts; said is false when there is nothing but an empty text.
func (b *builder) openAIContent(v node, field string) (content chatctx.Content, said bool) {
	switch v.kind() {
	case noKind, nullKind:
		return nil, false
	case stringKind:
		s := b.str(v, field)
		return chatctx.TextContent(s), s != ""
	case arrayKind:
	default:
		b.fail(v, field, "content must be a string or a list of parts, got %s", kindName(v.kind()))
		return nil, false
	}
	v.each(func(i int, p node) bool {
		if part := b.openAIPart(p, index(field, i)); part != nil {
			content = append(content, part)
		}
		return b.err == nil
	})
	return content, len(content) > 0
}

func (b *builder) openAIPart(v node, field string) chatctx.Part {
	if v.kind() == stringKind {
		return chatctx.Text{Text: b.str(v, field)}
	}
	o := b.object(v, field)
	switch t := b.str(o.get("type"), join(field, "type")); t {
	case "text", "input_text", "output_text", "refusal":
		b.rest(o, field, "type", "text", "refusal", "cache_control")
		return chatctx.Text{Text: b.str(o.get("text", "refusal"), join(field, "text"))}
	case "image_url", "input_image", "image":
		return b.imagePart(o, field)
	case "input_audio", "audio":
		return b.audioPart(o, field)
	default:
		b.lose(v, field, NoteDroppedPart, "no place for a part of type %q", clip(t))
	}
	return nil
}

// imagePart reads the forms of OpenAI: image_url as an object or as a string. nil when the image cannot be kept.
func (b *builder) imagePart(o object, field string) chatctx.Part {
	url, detail := "", b.str(o.get("detail"), join(field, "detail"))
	in := o.get("image_url", "url")
	if in.kind() == objectKind {
		i := in.object()
		url, detail = b.str(i.get("url"), join(field, "image_url.url")), b.str(i.get("detail"), join(field, "image_url.detail"))
	} else {
		url = b.str(in, join(field, "image_url"))
	}
	if id := o.str("file_id"); url == "" && id != "" {
		url = "file_id:" + id
	}
	if img, ok := b.image(url, detail, o.node, field); ok {
		return img
	}
	return nil
}

// audioPart keeps the transcript of audio when there is one.
func (b *builder) audioPart(o object, field string) chatctx.Part {
	said := b.str(o.get("transcript"), join(field, "transcript"))
	if !o.get("audio", "input_audio", "data").empty() || said == "" {
		b.lose(o.node, field, NoteDroppedAudio, "audio is not kept: its transcript is, when there is one")
	}
	if said == "" {
		return nil
	}
	return chatctx.Text{Text: said}
}

// joined is the text of a tool's result: a string, or the texts of its parts.
func (b *builder) joined(v node, field string) string {
	if v.kind() != arrayKind {
		return b.loose(v, field)
	}
	var texts []string
	parts := 0
	v.each(func(i int, p node) bool {
		parts++
		at := index(field, i)
		if p.kind() == stringKind {
			texts = append(texts, b.str(p, at))
			return b.err == nil
		}
		o := b.object(p, at)
		switch t := b.str(o.get("type"), join(at, "type")); t {
		case "text", "input_text", "output_text":
			texts = append(texts, b.str(o.get("text"), join(at, "text")))
		case "image", "image_url", "input_image":
			b.toolImage(o, at, &texts)
		default:
			b.lose(p, at, NoteDroppedPart, "no place for a part of type %q in a tool's result", clip(t))
		}
		return b.err == nil
	})
	if len(texts) > 1 {
		b.note(v, field, NoteMerged, "a tool's result is one text: its parts are joined by line breaks")
	}
	return strings.Join(texts, "\n")
}

// toolImage: a tool's result is text, and its image must not pose as the caller's. A link is kept as text, bytes are not.
func (b *builder) toolImage(o object, field string, texts *[]string) {
	url := o.str("image_url", "url")
	for _, name := range []string{"image_url", "source"} {
		if in := o.get(name); in.kind() == objectKind {
			url = in.object().str("url")
		}
	}
	if strings.HasPrefix(url, "http") {
		*texts = append(*texts, url)
		b.note(o.node, field, NoteChanged, "the link of an image in a tool's result is kept as text")
		return
	}
	b.lose(o.node, field, NoteDroppedImage, "an image in a tool's result: results are text")
}
