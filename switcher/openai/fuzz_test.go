package openai

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"sightline/switcher/cascade"
)

// FuzzAnswer: whatever a server streams, an answer is text and whole calls within the bounds, or an error that says what may be
// done about it; the same bytes in other pieces are the same answer.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		text("Hello.") + end("stop") + done, ": x\n\n" + text("<think>a</think>b") + end("length"), `data: {"error":{"message":"m"}}` + "\n\n",
		`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"function":{"arguments":{"a":1}}}]},"finish_reason":"tool_calls"}]}` + "\n\n",
		"data:a\r\rdata: [DONE]\r\n", "event: x\ndata\n\n",
	} {
		f.Add([]byte(s))
	}
	c, err := New(Config{BaseURL: "http://localhost/v1", Key: testKey})
	if err != nil {
		f.Fatal(err)
	}
	read := func(in []byte, most int) (string, error) {
		var b strings.Builder
		a := &answer{c: c, yield: func(d cascade.Delta) error {
			b.WriteString(d.Text)
			if d.Call != nil {
				b.WriteString("\x00" + d.Call.ID + "\x00" + d.Call.Name + "\x00" + d.Call.Arguments)
				if d.Call.Name == "" || d.Call.Arguments == "" {
					return errors.New("an empty call")
				}
			}
			return nil
		}}
		err := events(&slow{in, most}, a.event)
		if err == nil {
			_, err = a.finish(false)
		}
		return b.String(), err
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := read(in, len(in)+1)
		pieces, err2 := read(in, 3)
		if whole != pieces || (err == nil) != (err2 == nil) {
			t.Fatalf("whole %q (%v), in pieces %q (%v)", whole, err, pieces, err2)
		}
		if !utf8.ValidString(whole) || len(whole) > maxText+maxCalls*(maxArguments+1000) {
			t.Fatalf("%d bytes", len(whole))
		}
		if e := (*cascade.EngineError)(nil); err != nil && (!errors.As(err, &e) || e.Code == "") {
			t.Fatalf("an error that says nothing: %v", err)
		}
	})
}

// slow is a reader of pieces.
type slow struct {
	left []byte
	most int
}

func (s *slow) Read(p []byte) (int, error) {
	n, err := bytes.NewReader(s.left).Read(p[:min(len(p), s.most)])
	s.left = s.left[n:]
	return n, err
}
