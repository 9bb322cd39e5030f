package importer

import (
	"fmt"
	"slices"
	"strings"
)

// Format names what a saved conversation is written in.
type Format string

// The formats. Auto looks at the whole input and says why it chose what it chose.
const (
	Auto      Format = "auto"
	Items     Format = "items"     // ours: items, snapshots, entries, answers of the HTTP API
	Transport Format = "transport" // the seeds' dicts
	OpenAI    Format = "openai"    // chat completions: messages, requests, answers, fine-tuning files, Pipecat's contexts
	Responses Format = "responses" // OpenAI Responses: input lists, requests, response objects
	Realtime  Format = "realtime"  // OpenAI Realtime: items, logs of events
	Anthropic Format = "anthropic" // Messages: requests, answers, exports of claude.ai
	Gemini    Format = "gemini"    // contents, requests, answers
	LiveKit   Format = "livekit"   // LiveKit Agents' ChatContext.to_dict and session reports
	VideoSDK  Format = "videosdk"  // VideoSDK Agents' to_dict
	ChatGPT   Format = "chatgpt"   // exported conversations.json of ChatGPT
	Text      Format = "text"      // transcripts for people: "User: …"
)

// Formats lists what can be asked for, Auto first.
func Formats() []Format {
	return []Format{Auto, Items, Transport, OpenAI, Responses, Realtime, Anthropic, Gemini, LiveKit, VideoSDK, ChatGPT, Text}
}

// Place is where something stands in the input: Line and Column count from 1 (Column in bytes), 0 = unknown.
type Place struct {
	Offset int64  `json:"offset"` // bytes from the start
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	Field  string `json:"field,omitempty"` // such as messages[3].content[1].type
}

func (p Place) String() string {
	s := ""
	if p.Line > 0 {
		s = fmt.Sprintf("%d:%d", p.Line, p.Column)
	}
	if p.Field != "" {
		s = strings.TrimPrefix(s+": "+p.Field, ": ")
	}
	return s
}

// Note says that something was read otherwise than it stood there. Notes of one kind about one field are one Note with a Count;
// the place is that of the first.
type Note struct {
	Place
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
	Count  int    `json:"count"`
	Lost   bool   `json:"lost"` // something of the conversation is gone; else it was only changed or supplied
}

func (n Note) String() string {
	s := n.Kind + ": " + n.Detail
	if p := n.Place.String(); p != "" {
		s = p + ": " + s
	}
	if n.Count > 1 {
		s += fmt.Sprintf(" (%d times)", n.Count)
	}
	return s
}

// Report is how an input was understood and what did not come over.
type Report struct {
	Format        Format `json:"format"`
	Why           string `json:"why"`           // how the format was told
	Conversations int    `json:"conversations"` // in the input; one is read
	Items         int    `json:"items"`
	Notes         []Note `json:"notes"`
	Untold        int    `json:"untold"` // notes beyond what is kept
}

// Lossless reports whether nothing of the conversation is gone.
func (r Report) Lossless() bool {
	return r.Untold == 0 && !slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Lost })
}

// Error is input that cannot be read, with the place to blame. Its text repeats at most a few bytes of the input.
type Error struct {
	Place
	Detail string
	Cause  error
}

func (e *Error) Error() string {
	s := e.Detail
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	if p := e.Place.String(); p != "" {
		s = p + ": " + s
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// maxNotes bounds how many different notes are kept: more help nobody.
const maxNotes = 500

// notes collects Notes, alike ones together.
type notes struct {
	list   []Note
	index  map[string]int
	untold int
}

func (c *notes) add(n Note) {
	key := n.Kind + "\x00" + general(n.Field) + "\x00" + n.Detail
	if i, ok := c.index[key]; ok {
		c.list[i].Count++
		return
	}
	if len(c.list) >= maxNotes {
		c.untold++
		return
	}
	if c.index == nil {
		c.index = map[string]int{}
	}
	n.Count = 1
	c.index[key] = len(c.list)
	c.list = append(c.list, n)
}

// general is a field's path without its numbers, so that messages[3].x and messages[9].x are alike.
func general(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		b.WriteByte(path[i])
		if path[i] == '[' {
			for i+1 < len(path) && path[i+1] >= '0' && path[i+1] <= '9' {
				i++
			}
		}
	}
	return b.String()
}

// maxEcho is how many bytes of the input a note or an error repeats.
const maxEcho = 60

func clip(s string) string {
	if len(s) > maxEcho {
		s = s[:maxEcho] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
