package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
)

// Format names a provider's request format.
type Format string

// The formats that Validate knows.
const (
	FormatOpenAIChat      Format = "openai"    // chat completions: a list of messages
	FormatOpenAIResponses Format = "responses" // Responses: a list of input items
	FormatOpenAIRealtime  Format = "realtime"  // Realtime: a list of items, or of conversation.item.create events
	FormatAnthropic       Format = "anthropic" // Messages: {system, messages}
	FormatGemini          Format = "gemini"    // generateContent: {systemInstruction, contents}
)

// Formats are all of them.
func Formats() []Format {
	return []Format{FormatOpenAIChat, FormatOpenAIResponses, FormatOpenAIRealtime, FormatAnthropic, FormatGemini}
}

// Problem is why a provider would refuse a request.
type Problem struct {
	Path   string `json:"path"`           // where, as messages[3].tool_calls[0].id
	Detail string `json:"detail"`         // what is wrong and what is allowed
	Some   bool   `json:"some,omitempty"` // only some models or servers of this format refuse it
}

func (p Problem) String() string {
	s := p.Path + ": " + p.Detail
	if p.Some {
		s += " (some models or servers)"
	}
	return s
}

// Validate says what in a request, or in the list of messages of one, would be answered with a 400, in order of place. It knows the
// providers' documented rules and those that their users met; what it does not know it lets pass. Nil = nothing found.
func Validate(format Format, data []byte) []Problem {
	c := &checker{}
	var root any
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&root); err != nil {
		at := ""
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = fmt.Sprintf(" at byte %d", syntax.Offset)
		}
		c.bad("$", "this is not JSON%s: %v", at, err)
		return c.problems
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		c.bad("$", "there is something after the JSON value")
	}
	if at := loneSurrogate(data); at >= 0 {
		c.bad("$", "an escape of half a surrogate pair at byte %d: parsers refuse it", at)
	}
	switch format {
	case FormatOpenAIChat:
		c.openAIChat(c.list(root, "messages"))
	case FormatOpenAIResponses:
		c.openAIResponses(c.list(root, "input"))
	case FormatOpenAIRealtime:
		c.openAIRealtime(c.list(root, "items"))
	case FormatAnthropic:
		c.anthropic(root)
	case FormatGemini:
		c.gemini(root)
	default:
		c.bad("$", "unknown format %q: allowed are %v", format, Formats())
	}
	return c.problems
}

type checker struct {
	problems []Problem
	images   int // bytes of base64 so far
}

func (c *checker) bad(path, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: path, Detail: fmt.Sprintf(format, args...)})
}

func (c *checker) some(path, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: path, Detail: fmt.Sprintf(format, args...), Some: true})
}

// place is a JSON value and where it stands.
type place struct {
	path  string
	value any
}

// list takes a list, or the list under key of an object.
func (c *checker) list(root any, key string) []place {
	path := key
	if object, ok := root.(map[string]any); ok {
		if root, ok = object[key]; !ok {
			c.bad("$", "neither a list nor an object with %s", key)
			return nil
		}
	}
	list := c.elements(place{path, root})
	if list != nil && len(list) == 0 {
		c.bad(path, "there has to be at least one")
	}
	return list
}

// elements gives the elements of a list; nil, and a problem, when it is none.
func (c *checker) elements(p place) []place {
	values, ok := p.value.([]any)
	if !ok {
		c.bad(p.path, "must be a list, is %s", kindOf(p.value))
		return nil
	}
	places := make([]place, len(values))
	for i, v := range values {
		places[i] = place{p.path + "[" + strconv.Itoa(i) + "]", v}
	}
	return places
}

// object gives an object's fields; nil, and a problem, when it is none. Fields that are not among known are problems.
func (c *checker) object(p place, known ...string) map[string]any {
	fields, ok := p.value.(map[string]any)
	if !ok {
		c.bad(p.path, "must be an object, is %s", kindOf(p.value))
		return nil
	}
	if known != nil {
		c.unknown(p.path, fields, known)
	}
	return fields
}

func (c *checker) unknown(path string, fields map[string]any, known []string) {
	for _, name := range sortedKeys(fields) {
		if !slices.Contains(known, name) {
			c.bad(path+"."+name, "unknown field")
		}
	}
}

// text gives a string field; ok = false, and a problem, when it is none.
func (c *checker) text(path string, fields map[string]any, name string) (string, bool) {
	s, ok := fields[name].(string)
	if !ok {
		c.bad(path+"."+name, "must be a string, is %s", kindOf(fields[name]))
	}
	return s, ok
}

// oneOf checks a string field against what is allowed.
func (c *checker) oneOf(path string, fields map[string]any, name string, allowed ...string) string {
	s, ok := c.text(path, fields, name)
	if !ok {
		return ""
	}
	if slices.Contains(allowed, s) {
		return s
	}
	c.bad(path+"."+name, "%q: allowed are %q", cut(s), allowed)
	return ""
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "missing or null"
	case bool:
		return "a boolean"
	case float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	}
	return "an object"
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// cut bounds what a problem repeats of the input.
func cut(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// named checks a name against [A-Za-z0-9_-] and a length.
func (c *checker) named(path, s string, limit int) {
	if len(s) == 0 || len(s) > limit {
		c.bad(path, "%d characters: 1 to %d are allowed", len(s), limit)
	}
	for _, r := range s {
		if r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			c.bad(path, "%q: only letters, digits, _ and - are allowed", cut(s))
			return
		}
	}
}

// loneSurrogate finds an escape of half a surrogate pair in JSON text, -1 = none.
func loneSurrogate(data []byte) int {
	high := -1 // place of a first half whose second must come next
	for i := 0; i < len(data); {
		step, unit := 1, 0
		if data[i] == '\\' {
			step = 2
			if i+6 <= len(data) && data[i+1] == 'u' {
				n, err := strconv.ParseUint(string(data[i+2:i+6]), 16, 16)
				if err == nil {
					step, unit = 6, int(n)
				}
			}
		}
		low := unit >= 0xDC00 && unit <= 0xDFFF
		if high >= 0 && !low {
			return high
		}
		if low && high < 0 {
			return i
		}
		high = -1
		if unit >= 0xD800 && unit <= 0xDBFF {
			high = i
		}
		i += step
	}
	return high
}
