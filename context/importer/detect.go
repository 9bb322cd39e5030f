package importer

import (
	"fmt"
	"strings"
)

// evidence gathers what speaks for each format. The strongest sign counts, not the sum: a thousand plain messages say less than
// one field that only one format has.
type evidence struct {
	signs map[Format]sign
}

type sign struct {
	weight int
	count  int // how often a sign of this weight was seen
	why    string
	off    int64
}

// Weights of signs.
const (
	faint  = 1 // what several formats have
	likely = 3
	strong = 5 // what no other format has
	sure   = 9 // it says so itself
)

func (e *evidence) add(f Format, weight int, off int64, why string) {
	if e.signs == nil {
		e.signs = map[Format]sign{}
	}
	s := e.signs[f]
	switch {
	case weight > s.weight:
		e.signs[f] = sign{weight, 1, why, off}
	case weight == s.weight:
		s.count++
		e.signs[f] = s
	}
}

// preference settles what is equally likely: the more specific format comes first.
var preference = []Format{Items, LiveKit, VideoSDK, ChatGPT, Realtime, Responses, Gemini, Anthropic, Transport, OpenAI}

// verdict gives the format, why, and another format that has a sign of its own.
func (e *evidence) verdict() (f Format, why string, rival Format, against sign) {
	f = OpenAI
	for _, candidate := range preference {
		a, b := e.signs[candidate], e.signs[f]
		if a.weight > b.weight || a.weight == b.weight && (a.count > b.count || a.count == b.count && a.weight > 0 && rank(candidate) < rank(f)) {
			f = candidate
		}
	}
	best := e.signs[f]
	if best.weight == 0 {
		return f, "nothing but role and content, which openai, transport and anthropic read alike", "", sign{}
	}
	for _, candidate := range preference {
		if s := e.signs[candidate]; candidate != f && s.weight >= strong && s.weight > against.weight {
			rival, against = candidate, s
		}
	}
	return f, best.why, rival, against
}

func rank(f Format) int {
	for i, p := range preference {
		if p == f {
			return i
		}
	}
	return len(preference)
}

// isElementType: an object with this type is an element, not a body.
func isElementType(t string) bool {
	switch t {
	case "message", "function_call", "function_call_output", "handoff", "agent_handoff", "config_update", "agent_config_update", "summary",
		"pipeline_switch", "context.entry", "reasoning", "custom_tool_call", "custom_tool_call_output", "item_reference", "mcp_call", "compaction":
		return true
	}
	return isEvent(t) || strings.HasSuffix(t, "_call") || strings.HasSuffix(t, "_call_output") || strings.HasPrefix(t, "mcp_")
}

// isEvent: a type of OpenAI's realtime events.
func isEvent(t string) bool {
	for _, prefix := range []string{"conversation.", "response.", "session.", "input_audio_buffer.", "output_audio_buffer.", "rate_limits.", "transcription_session."} {
		if strings.HasPrefix(t, prefix) {
			return true
		}
	}
	return false
}

// lookBeside weighs what stands beside the elements of a body.
func (e *evidence) lookBeside(c conversation) {
	b := c.beside
	says := func(f Format, weight int, field string) {
		if v, ok := b[field]; ok && v.given() {
			e.add(f, weight, v.off, "the field "+field)
		}
	}
	if named := Format(text(b["format"])); named != "" {
		for _, f := range []Format{Items, Transport, OpenAI, Responses, Realtime, Anthropic, Gemini, Text} {
			if named == f {
				e.add(f, sure+1, b["format"].off, fmt.Sprintf("its format field says %s", f))
			}
		}
	}
	for _, l := range c.lists {
		switch l.name {
		case "mapping":
			e.add(ChatGPT, sure, l.off, "a mapping of messages, as ChatGPT exports it")
		case "contents", "candidates", "turns":
			e.add(Gemini, likely, l.off, "the list "+l.name)
		case "chat_messages":
			e.add(Anthropic, strong, l.off, "the list chat_messages, as claude.ai exports it")
		case "choices":
			e.add(OpenAI, strong, l.off, "the list choices of an answer")
		case "input", "output":
			e.add(Responses, likely, l.off, "the list "+l.name)
		case "items":
			says(Items, likely, "seq")
			if e.signs[Responses].weight == likely+1 { // parts that both have; Responses calls its lists input and output
				e.add(Realtime, strong, l.off, "the list items with parts such as input_text")
			}
			says(Realtime, likely, "instructions")
		}
	}
	says(Anthropic, likely, "system")
	says(Anthropic, sure, "anthropic_version")
	says(Anthropic, likely, "stop_sequences")
	says(Gemini, strong, "systemInstruction")
	says(Gemini, strong, "system_instruction")
	says(Gemini, strong, "generationConfig")
	says(Responses, likely, "previous_response_id")
	if len(c.lists) > 0 && (c.lists[0].name == "input" || c.lists[0].name == "output") {
		says(Responses, strong, "instructions")
	}
	switch object := text(b["object"]); {
	case object == "response":
		e.add(Responses, sure, b["object"].off, `object "response"`)
	case strings.HasPrefix(object, "chat.completion"):
		e.add(OpenAI, sure, b["object"].off, fmt.Sprintf("object %q", clip(object)))
	}
	if model := text(b["model"]); strings.Contains(model, "claude") {
		e.add(Anthropic, likely, b["model"].off, "the model "+clip(model))
	}
	e.lookTools(b["tools"])
}

func (e *evidence) lookTools(tools node) {
	tools.each(func(i int, v node) bool {
		o := v.object()
		switch {
		case o.has("input_schema"):
			e.add(Anthropic, likely, v.off, "tools with input_schema")
		case o.has("functionDeclarations", "function_declarations"):
			e.add(Gemini, likely, v.off, "tools with functionDeclarations")
		case o.get("function").kind() == objectKind:
			e.add(OpenAI, likely, v.off, "tools with function")
		case o.str("type") == "function":
			e.add(Responses, faint, v.off, "tools of type function")
		}
		return i < 8
	})
}

// look weighs one element and reports whether it can be one.
func (e *evidence) look(el node) bool {
	o := el.object()
	if inner, _, ok := unwrapEvent(o); ok {
		o = inner
	}
	t := o.str("type")
	switch {
	case o.has("op") && o.has("seq"):
		e.add(Items, sure, el.off, "entries of a log (op and seq)")
		return true
	case isEvent(t):
		e.add(Realtime, sure, el.off, "events of type "+clip(t))
		return true
	case o.get("parts").kind() == arrayKind:
		e.add(Gemini, strong, o.get("parts").off, "parts")
		return true
	case o.get("mapping").kind() == objectKind:
		e.add(ChatGPT, sure, el.off, "a mapping of messages")
		return true
	case o.has("sender") && o.has("text", "content"):
		e.add(Anthropic, strong, el.off, "sender, as claude.ai exports it")
		return true
	case o.get("llm").kind() == stringKind && o.has("message"):
		e.add(OpenAI, likely, el.off, "llm and message, as Pipecat keeps what only one model understands")
		return true
	case o.get("content").kind() == objectKind && o.get("content").object().has("parts"):
		e.add(Gemini, strong, el.off, "a candidate with parts")
		return true
	case o.get("message").kind() == objectKind && o.has("finish_reason", "index"):
		e.add(OpenAI, strong, el.off, "a choice with its message")
		return true
	}
	if o.str("object") == "realtime.item" {
		e.add(Realtime, sure, o.get("object").off, `object "realtime.item"`)
	}
	if t != "" && t != "message" && !o.has("role") {
		return e.lookItem(o, t)
	}
	if !o.has("role") {
		return false
	}
	e.lookMessage(o, t == "message")
	return true
}

// lookItem weighs an element that is no message.
func (e *evidence) lookItem(o object, t string) bool {
	why := "an item of type " + clip(t)
	switch t {
	case "handoff", "config_update", "pipeline_switch", "summary":
		e.add(Items, strong, o.off, why)
	case "agent_handoff":
		if o.has("to_agent", "from_agent") {
			e.add(VideoSDK, strong, o.off, why+" with to_agent")
		} else {
			e.add(LiveKit, strong, o.off, why)
		}
	case "agent_config_update":
		if o.has("tools") {
			e.add(VideoSDK, strong, o.off, why+" with tools")
		} else {
			e.add(LiveKit, likely, o.off, why)
			e.add(VideoSDK, likely, o.off, why)
		}
	case "function_call", "function_call_output":
		e.lookCall(o, why)
	default:
		if !isElementType(t) {
			return false
		}
		e.add(Responses, strong, o.off, why)
	}
	return true
}

func (e *evidence) lookCall(o object, why string) {
	switch {
	case o.has("callId"):
		e.add(LiveKit, strong, o.off, "callId, as LiveKit for Node writes it")
	case o.has("metadata") && o.has("created_at", "agent_id"):
		e.add(VideoSDK, likely, o.off, why+" with metadata")
	case o.has("extra", "group_id", "created_at"):
		e.add(LiveKit, likely-1, o.off, why+" with extra")
		e.add(VideoSDK, faint, o.off, why)
	case o.get("output").kind() == arrayKind || o.has("status"):
		e.add(Responses, likely-1, o.off, why+" with status")
	case o.has("is_error"):
		for _, f := range []Format{Items, LiveKit, VideoSDK} {
			e.add(f, faint, o.off, why+" with is_error")
		}
	case !o.has("id") || o.has("output"):
		e.add(Responses, likely-1, o.off, why+" without id or is_error")
	default:
		for _, f := range []Format{Items, LiveKit, VideoSDK, Responses} {
			e.add(f, faint, o.off, why)
		}
	}
}

// lookMessage weighs an element with a role; typed: its type is message.
func (e *evidence) lookMessage(o object, typed bool) {
	role := o.str("role")
	sees := func(f Format, weight int, fields ...string) {
		for _, field := range fields {
			if v, ok := o.fields[field]; ok && v.given() {
				e.add(f, weight, v.off, "the field "+field+" of a message")
			}
		}
	}
	switch {
	case role == "tool", role == "function":
		e.add(OpenAI, likely, o.off, "messages of role "+role)
	case o.get("tool_call_id").given():
		sees(Transport, strong, "tool_call_id")
	case !typed && (role == "system" || role == "developer"):
		e.add(OpenAI, faint, o.off, "messages of role "+role)
	}
	sees(Transport, strong, "message_id")
	if o.get("images").kind() == arrayKind {
		sees(Transport, strong, "images")
	}
	o.get("tool_calls").each(func(i int, v node) bool {
		call := v.object()
		switch {
		case call.get("function").kind() == objectKind:
			e.add(OpenAI, strong, v.off, "tool_calls with function")
		case call.has("call_id"):
			e.add(Transport, strong, v.off, "tool_calls with call_id")
		}
		return i < 8
	})
	if o.get("function_call").kind() == objectKind {
		sees(OpenAI, likely, "function_call")
	}
	sees(OpenAI, likely, "refusal")
	sees(Anthropic, strong, "stop_reason")
	if typed {
		sees(LiveKit, likely, "transcript_confidence", "createdAt")
		sees(LiveKit, likely-1, "metrics", "extra", "created_at")
		if o.has("audio_instructions", "confidence") || o.has("agent_id") && o.has("created_at", "extra") {
			e.add(VideoSDK, likely, o.off, "a message with agent_id and created_at, or confidence")
		}
		if o.get("interrupted").given() || o.get("agent_id").given() || o.has("text_generated") {
			e.add(Items, faint, o.off, "a message with agent_id or interrupted")
		}
		e.add(Items, faint, o.off, "items of type message")
		e.add(Responses, faint, o.off, "items of type message")
		if o.has("status") || !o.has("id") {
			e.add(Responses, likely-1, o.off, "items of type message, with status or without id")
		}
	}
	e.lookParts(o.get("content"), typed)
}

// maxParts bounds how many parts of one message are weighed.
const maxParts = 256

func (e *evidence) lookParts(content node, typed bool) {
	content.each(func(i int, v node) bool {
		if v.kind() == stringKind {
			if typed {
				e.add(LiveKit, likely-1, v.off, "content as a list of strings")
				e.add(VideoSDK, faint, v.off, "content as a list of strings")
			}
			return i < maxParts
		}
		o := v.object()
		t := o.str("type")
		why := "a part of type " + clip(t)
		switch t {
		case "image_url":
			e.add(OpenAI, strong, v.off, why)
		case "input_text", "output_text", "input_image", "input_file":
			e.add(Responses, likely+1, v.off, why)
			e.add(Realtime, likely, v.off, why)
		case "input_audio", "audio":
			if o.get("input_audio").kind() == objectKind {
				e.add(OpenAI, strong, v.off, why)
			} else {
				e.add(Realtime, strong+1, v.off, why)
			}
		case "output_audio":
			e.add(Realtime, strong+1, v.off, why)
		case "image":
			e.lookImage(o, why)
		case "image_content", "audio_content", "instructions":
			e.add(LiveKit, strong, v.off, why)
		case "tool_use", "tool_result", "thinking", "redacted_thinking", "document", "server_tool_use", "web_search_tool_result", "search_result":
			e.add(Anthropic, strong, v.off, why)
		case "refusal":
			e.add(OpenAI, likely, v.off, why)
			e.add(Responses, likely, v.off, why)
		case "text":
			if typed {
				e.add(Items, likely, v.off, "items with parts of type text")
			}
		}
		return i < maxParts
	})
}

func (e *evidence) lookImage(o object, why string) {
	switch {
	case o.get("source").kind() == objectKind:
		e.add(Anthropic, strong, o.off, why+" with source")
	case o.has("image"):
		e.add(VideoSDK, strong, o.off, why+" with image")
	case o.has("url"):
		e.add(Items, strong, o.off, why+" with url")
	}
}

// unwrapEvent takes an event out of what a logger put around it: {"event": {…}}, {"data": {…}}, {"message": {…}}.
func unwrapEvent(o object) (inner object, field string, ok bool) {
	if isEvent(o.str("type")) || o.has("role") {
		return o, "", false
	}
	for _, name := range []string{"event", "data", "message", "payload", "msg"} {
		if v := o.get(name); v.kind() == objectKind {
			if in := v.object(); isEvent(in.str("type")) {
				return in, name, true
			}
		}
	}
	return o, "", false
}
