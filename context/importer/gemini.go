package importer

import (
	"strings"

	chatctx "sightline/context"
)

// gemini reads a content ({role, parts}) or a candidate of an answer. Calls without ids are paired with responses by name, in order.
func (b *builder) gemini(el node) {
	o := b.object(el, "")
	if b.err != nil {
		return
	}
	if c := o.get("content"); c.kind() == objectKind && !o.has("parts") {
		b.path, el = join(b.path, "content"), c
		o = b.object(c, "")
	}
	b.rest(o, "", "role", "parts", "finishReason", "index")
	role := chatctx.RoleUser
	switch s := b.str(o.get("role"), "role"); s {
	case "user", "function", "tool", "": // function: a turn of responses; nothing: the API takes it as the user's
	case "model":
		role = chatctx.RoleAssistant
	default:
		role = b.role(s, o.get("role"), "role")
	}
	parts := o.get("parts")
	if parts.kind() == objectKind { // the API takes one part without its list
		parts = node{append(append([]byte{'['}, parts.raw...), ']'), parts.off - 1}
	}
	if parts.given() && parts.kind() != arrayKind {
		b.fail(parts, "parts", "parts must be a list, got %s", kindName(parts.kind()))
		return
	}
	t := turn{b: b, el: el, role: role}
	parts.each(func(i int, v node) bool {
		t.part(v, index("parts", i), o.str("role"))
		return b.err == nil
	})
	if t.flush(); !t.given && b.err == nil {
		b.message(chatctx.Message{Role: role}, el)
	}
}

func (t *turn) part(v node, field, role string) {
	b := t.b
	if v.kind() == stringKind {
		t.content = append(t.content, chatctx.Text{Text: b.str(v, field)})
		return
	}
	o := b.object(v, field)
	if b.err != nil {
		return
	}
	if o.get("thoughtSignature", "thought_signature").given() {
		b.lose(v, join(field, "thoughtSignature"), NoteReasoning, "a model's own marks are not kept")
	}
	switch {
	case b.yes(o.get("thought"), join(field, "thought")):
		b.lose(v, field, NoteReasoning, "a model's reasoning is no part of the conversation")
	case o.get("text").given():
		b.rest(o, field, "text", "thought", "thoughtSignature", "thought_signature")
		text := b.str(o.get("text"), join(field, "text"))
		if role == "function" || role == "tool" {
			t.flush()
			b.output(chatctx.FunctionCallOutput{ID: t.take(), Output: text}, v)
			return
		}
		t.content = append(t.content, chatctx.Text{Text: text})
	case o.get("functionCall", "function_call").given():
		at := join(field, "functionCall")
		f := b.object(o.get("functionCall", "function_call"), at)
		t.flush()
		b.call(chatctx.FunctionCall{ID: t.take(), CallID: b.str(f.get("id"), join(at, "id")), Name: b.str(f.get("name"), join(at, "name")),
			Arguments: b.objectText(f.get("args"), join(at, "args"))}, v)
	case o.get("functionResponse", "function_response").given():
		t.response(o, field, v)
	case o.get("inlineData", "inline_data", "fileData", "file_data").given():
		if img := b.inlineImage(o, field); img != nil {
			t.content = append(t.content, img)
		}
	default:
		name := "nothing"
		if len(o.order) > 0 {
			name = o.order[0]
		}
		b.lose(v, field, NoteDroppedPart, "no place for a part with %q", clip(name))
	}
}

// response reads a function's answer: {output: text}, {error: text} and {result: text} are the text itself, anything else is JSON.
func (t *turn) response(o object, field string, v node) {
	b := t.b
	at := join(field, "functionResponse")
	f := b.object(o.get("functionResponse", "function_response"), at)
	t.flush()
	b.rest(f, at, "id", "name", "response", "scheduling", "willContinue", "will_continue")
	out := chatctx.FunctionCallOutput{ID: t.take(), CallID: b.str(f.get("id"), join(at, "id")), Name: b.str(f.get("name"), join(at, "name"))}
	answer := f.get("response")
	out.Output = b.loose(answer, join(at, "response"))
	if a := answer.object(); len(a.order) == 1 {
		switch name := a.order[0]; name {
		case "output", "result":
			out.Output = b.loose(a.get(name), join(at, "response."+name))
		case "error":
			out.Output, out.IsError = b.loose(a.get(name), join(at, "response.error")), true
		}
	}
	b.output(out, v)
}

// inlineImage reads inlineData {mimeType, data} or fileData {mimeType, fileUri}. nil when it cannot be kept.
func (b *builder) inlineImage(o object, field string) chatctx.Part {
	in := o.get("inlineData", "inline_data")
	name := "inlineData"
	if !in.given() {
		in, name = o.get("fileData", "file_data"), "fileData"
	}
	at := join(field, name)
	d := b.object(in, at)
	mime := b.str(d.get("mimeType", "mime_type"), join(at, "mimeType"))
	if strings.HasPrefix(mime, "audio/") {
		b.lose(in, at, NoteDroppedAudio, "audio is not kept")
		return nil
	}
	if mime != "" && !strings.HasPrefix(mime, "image/") {
		b.lose(in, at, NoteDroppedPart, "data of type %q is not kept", clip(mime))
		return nil
	}
	url := b.str(d.get("fileUri", "file_uri"), join(at, "fileUri"))
	if data := d.get("data"); data.given() {
		url = base64Image(mime, strings.NewReplacer("-", "+", "_", "/").Replace(b.str(data, join(at, "data"))))
	}
	if img, ok := b.image(url, "", in, at); ok {
		return img
	}
	return nil
}
