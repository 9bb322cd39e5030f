package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"sightline/switcher/cascade"
)

// errDone ends a stream of events from inside.
var errDone = errors.New("the stream is done")

// events reads server-sent events (WHATWG HTML, 9.2) and gives the data of each to take, until [DONE] or the end. Comments, which
// keep connections alive, and other fields are passed over.
func events(in io.Reader, take func(data []byte) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	lines.Split(sseLines)
	var data []byte
	flush := func() error {
		if len(data) == 0 {
			return nil
		}
		event := data
		data = nil
		if string(bytes.TrimSpace(event)) == "[DONE]" {
			return errDone
		}
		return take(event)
	}
	for lines.Scan() {
		line := lines.Bytes()
		var err error
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			// Some servers end an event with one line break only: what is whole JSON by itself is an event.
			if len(data) > 0 && json.Valid(data) {
				err = flush()
			} else if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
			if len(data) > maxLine {
				return invalid("an event of the stream is longer than %d bytes", maxLine)
			}
		} else if len(line) == 0 {
			err = flush()
		}
		if err != nil {
			return ignoreDone(err)
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return invalid("a line of the stream is longer than %d bytes", maxLine)
		}
		return err
	}
	return ignoreDone(flush())
}

func ignoreDone(err error) error {
	if errors.Is(err, errDone) {
		return nil
	}
	return err
}

// sseLines splits at \n, \r\n and \r.
func sseLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0 && atEOF && len(data) > 0:
		return len(data), data, nil
	case i < 0:
		return 0, nil, nil
	case data[i] == '\n':
		return i + 1, data[:i], nil
	case i+1 < len(data):
		if data[i+1] == '\n' {
			return i + 2, data[:i], nil
		}
		return i + 1, data[:i], nil
	case atEOF:
		return i + 1, data[:i], nil
	}
	return 0, nil, nil // a \n may follow
}

// chunk is an event of the stream, or a whole answer: then Message stands in the place of Delta.
type chunk struct {
	Choices []struct {
		Index        int     `json:"index"`
		Delta        *delta  `json:"delta"`
		Message      *delta  `json:"message"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type delta struct {
	Content   json.RawMessage `json:"content"` // a string, null, or a list of parts
	Refusal   *string         `json:"refusal"`
	ToolCalls []callDelta     `json:"tool_calls"`
}

type callDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a piece of a string, or an object
	} `json:"function"`
}

// answer puts an answer together from its pieces.
type answer struct {
	c       *Client
	yield   func(cascade.Delta) error
	refused bool // yield has failed: its error is given back as it is
	think   thinking
	text    int // bytes yielded
	calls   []*callParts
	end     string // finish_reason
	fin     cascade.Finish
}

type callParts struct {
	index     int
	id, name  string
	arguments strings.Builder
}

func (a *answer) event(data []byte) error {
	var k chunk
	if err := json.Unmarshal(data, &k); err != nil {
		return &cascade.EngineError{Code: "overloaded", Message: "the server sent an event that is no JSON", Retryable: true}
	}
	if len(k.Error) > 0 && string(k.Error) != "null" {
		message, code := readError(data)
		e := a.c.failure(500, message, code)
		if strings.Contains(code, "invalid") {
			e.Code, e.Retryable = "invalid", false
		}
		return e
	}
	if k.Usage != nil {
		a.fin.TokensIn, a.fin.TokensOut = k.Usage.PromptTokens, k.Usage.CompletionTokens
	}
	for _, choice := range k.Choices {
		if choice.Index != 0 {
			continue
		}
		for _, d := range []*delta{choice.Delta, choice.Message} {
			if d == nil {
				continue
			}
			if err := a.delta(d); err != nil {
				return err
			}
		}
		if choice.FinishReason != nil && *choice.FinishReason != "" {
			a.end = *choice.FinishReason
		}
	}
	return nil
}

func (a *answer) delta(d *delta) error {
	text := contentText(d.Content)
	if d.Refusal != nil {
		text += *d.Refusal
	}
	if err := a.say(a.think.push(text)); err != nil {
		return err
	}
	for _, c := range d.ToolCalls {
		if err := a.call(c); err != nil {
			return err
		}
	}
	return nil
}

func (a *answer) say(text string) error {
	if text == "" {
		return nil
	}
	if a.text += len(text); a.text > maxText {
		return invalid("the answer is longer than %d bytes", maxText)
	}
	if err := a.yield(cascade.Delta{Text: text}); err != nil {
		a.refused = true
		return err
	}
	return nil
}

func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// call adds a piece of a call. Pieces belong together by index; where a server gives none, or the same for all, a new id begins a
// new call.
func (a *answer) call(d callDelta) error {
	var c *callParts
	index := len(a.calls) - 1
	if d.Index != nil {
		index = *d.Index
	} else if d.ID != "" || d.Function.Name != "" {
		index = len(a.calls)
	}
	for _, known := range a.calls {
		if known.index == index && (d.ID == "" || known.id == "" || d.ID == known.id) {
			c = known
		}
	}
	if c == nil {
		if len(a.calls) == maxCalls {
			return invalid("the answer makes more than %d calls", maxCalls)
		}
		c = &callParts{index: index}
		a.calls = append(a.calls, c)
	}
	c.id = first(c.id, d.ID)
	c.name = first(c.name, d.Function.Name)
	var piece string
	if len(d.Function.Arguments) > 0 && json.Unmarshal(d.Function.Arguments, &piece) != nil {
		piece = string(d.Function.Arguments) // an object
	}
	if c.arguments.Len()+len(piece) > maxArguments {
		return invalid("the arguments of a call are longer than %d bytes", maxArguments)
	}
	c.arguments.WriteString(piece)
	return nil
}

// finish gives the calls, which are whole now, and how it ended. A stream that ends without a reason was cut off.
func (a *answer) finish(over bool) (cascade.Finish, error) {
	if over {
		return cascade.Finish{}, invalid("the answer is longer than %d bytes", maxStream)
	}
	if a.end == "" {
		return cascade.Finish{}, &cascade.EngineError{Code: "unreachable", Message: "the answer was cut off", Retryable: true}
	}
	if err := a.say(a.think.flush()); err != nil {
		return cascade.Finish{}, err
	}
	for _, c := range a.calls {
		if c.name == "" {
			continue
		}
		call := cascade.Call{ID: c.id, Name: c.name, Arguments: first(strings.TrimSpace(c.arguments.String()), "{}")}
		if err := a.yield(cascade.Delta{Call: &call}); err != nil {
			return cascade.Finish{}, err
		}
	}
	a.fin.Reason = reason(a.end)
	return a.fin, nil
}

func reason(provider string) string {
	switch provider {
	case "length", "max_tokens":
		return "length"
	case "tool_calls", "function_call":
		return "tool_calls"
	case "content_filter":
		return "filter"
	}
	return "stop"
}

// thinking takes out what a model thinks aloud before its answer, between <think> and </think>: nobody should hear that.
type thinking struct {
	held   string // the beginning, until it is clear what it is
	inside bool
	past   bool
}

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

func (t *thinking) push(text string) string {
	if t.past || text == "" {
		return text
	}
	t.held += text
	if !t.inside {
		begin := strings.TrimLeft(t.held, " \t\r\n")
		switch {
		case strings.HasPrefix(begin, thinkOpen):
			t.inside = true
			t.held = begin[len(thinkOpen):]
		case strings.HasPrefix(thinkOpen, begin):
			return "" // it may still become one
		default:
			return t.release(t.held)
		}
	}
	if _, after, ok := strings.Cut(t.held, thinkClose); ok {
		return t.release(strings.TrimLeft(after, " \t\r\n"))
	}
	t.held = t.held[max(0, len(t.held)-len(thinkClose)):] // a mark may be in two pieces
	return ""
}

func (t *thinking) release(text string) string {
	t.held, t.past = "", true
	return text
}

func (t *thinking) flush() string {
	if t.inside || strings.TrimSpace(t.held) == "" {
		return ""
	}
	return t.release(t.held)
}
