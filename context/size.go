package chatctx

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"unicode/utf8"
)

// eachText gives f every text in item that its author chose, with the name of its field.
func eachText(item Item, f func(field, text string)) {
	switch it := item.(type) {
	case *Message:
		f("agent_id", it.AgentID)
		f("text_generated", it.TextGenerated)
		for _, p := range it.Content {
			switch part := p.(type) {
			case Text:
				f("content.text", part.Text)
			case ImageContent:
				f("content.url", part.URL)
				f("content.source", part.Source)
			}
		}
	case *FunctionCall:
		f("call_id", it.CallID)
		f("name", it.Name)
		f("arguments", it.Arguments)
		f("agent_id", it.AgentID)
	case *FunctionCallOutput:
		f("call_id", it.CallID)
		f("name", it.Name)
		f("output", it.Output)
	case *AgentHandoff:
		f("from_agent", it.FromAgent)
		f("to_agent", it.ToAgent)
		f("reason", it.Reason)
		f("summary", it.Summary)
	case *ConfigUpdate:
		f("instructions", it.Instructions)
		f("tools", string(it.Tools))
	case *Summary:
		f("text", it.Text)
	case *PipelineSwitch:
		f("from", it.From)
		f("to", it.To)
		f("reason", it.Reason)
		f("op_id", it.OpID)
	}
}

const (
	partOverhead   = 160 // bytes of an image part's JSON without its texts, rounded up
	itemOverhead   = 256 // the same of an item, its id included
	escapeOverhead = 6   // bytes of JSON for one byte of text, at most: \u0000
)

// checkTexts refuses an item whose JSON has more than maxBytes, and one with text that is not UTF-8: JSON cannot carry that,
// so a reader after a restart would see something else than a reader now. Short items are not marshalled for it.
func checkTexts(item Item, maxBytes int) error {
	n, broken := 0, ""
	eachText(item, func(field, text string) {
		n += len(text)
		if !utf8.ValidString(text) {
			broken = field
		}
	})
	if broken != "" {
		return fail(InvalidArgument, broken, "%s is not valid UTF-8", broken)
	}
	bound := escapeOverhead*n + itemOverhead
	if m, ok := item.(*Message); ok {
		bound += partOverhead * len(m.Content)
	}
	if n <= maxBytes && bound > maxBytes {
		b, err := json.Marshal(item)
		if err != nil {
			return &Error{Kind: InvalidArgument, Field: "item", Detail: "the item has no JSON", Cause: err}
		}
		n = len(b)
	}
	if n > maxBytes {
		return fail(TooLarge, "item", "the item has %d bytes without its image bytes: at most %d are allowed", n, maxBytes)
	}
	return nil
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// validSHA256 reports whether s is 64 lower-case hex digits; stores may use it as a file name.
func validSHA256(s string) bool {
	if len(s) != 2*sha256.Size {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
