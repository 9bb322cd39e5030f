package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/cascade"
)

// talk is a conversation by voice without a session: what a leg and the session do between them.
type talk struct {
	t       *testing.T
	engines *Engines
	tools   Tools
	items   chatctx.Items
	n       int
}

func (c *talk) id(kind string) string { c.n++; return fmt.Sprintf("%s%d", kind, c.n) }

// say lets the caller speak and gives what was heard of the agent's answer, in words, with the answer's text.
func (c *talk) say(text string) (heard, answer string) {
	c.t.Helper()
	understood := hear(c.t, c.engines.Recognizer, speech(c.t, "rms", text), nil)
	c.items = append(c.items, &chatctx.Message{ID: c.id("u"), Role: chatctx.RoleUser, Content: chatctx.TextContent(understood)})
	for range 3 {
		var calls []cascade.Call
		answer = ""
		finish, err := c.engines.Model.Answer(c.t.Context(), cascade.Request{At: time.Now(), Items: c.items, Tools: append(c.tools.List(), switcher.Tool{Name: "switch_pipeline"})},
			func(d cascade.Delta) error {
				answer += d.Text
				if d.Call != nil {
					calls = append(calls, *d.Call)
				}
				return nil
			})
		if err != nil {
			c.t.Fatal(err)
		}
		if len(calls) == 0 {
			break
		}
		if finish.Reason != "tool_calls" {
			c.t.Errorf("reason %q", finish.Reason)
		}
		for _, call := range calls {
			id := c.id("c")
			out, isError := c.tools.Run(c.t.Context(), switcher.ToolCallOut{CallID: id, Name: call.Name, Arguments: call.Arguments})
			c.items = append(c.items, &chatctx.FunctionCall{ID: c.id("f"), CallID: id, Name: call.Name, Arguments: call.Arguments},
				&chatctx.FunctionCallOutput{ID: c.id("o"), CallID: id, Name: call.Name, Output: out, IsError: isError})
		}
	}
	c.items = append(c.items, &chatctx.Message{ID: c.id("a"), Role: chatctx.RoleAssistant, Content: chatctx.TextContent(answer)})
	pcm := make([]int16, recognizerRate/4)
	if err := c.engines.Voice.Speak(c.t.Context(), answer, func(p []int16) error { pcm = append(pcm, p...); return nil }); err != nil {
		c.t.Fatal(err)
	}
	heard = hear(c.t, c.engines.Recognizer, pcm, nil)
	c.t.Logf("caller %q, understood %q, agent %q, heard %q", text, understood, answer, heard)
	return heard, answer
}

// The whole way by sound: the caller's voice is recognised, the rules answer, the agent's voice is recognised.
func TestACallBySoundKnowsItsHistory(t *testing.T) {
	engines, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engines.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	c := &talk{t: t, engines: engines, tools: Tools{Read: engines.Reader, Look: func(context.Context, time.Duration) []switcher.Sight {
		return []switcher.Sight{{Source: "camera", State: "live", JPEG: sign(t, "EXIT ONLY", "Platform 9"), Width: 640, Height: 480}}
	}}}

	expect := func(say, inAnswer string, inHeard ...string) {
		t.Helper()
		heard, answer := c.say(say)
		if !strings.Contains(answer, inAnswer) {
			t.Errorf("%q is answered %q, want %q in it", say, answer, inAnswer)
		}
		for _, w := range inHeard {
			if !strings.Contains(" "+heard+" ", " "+w+" ") {
				t.Errorf("the answer to %q was heard as %q, without %q", say, heard, w)
			}
		}
	}
	expect("my order number is four seven one one", "4 7 1 1", "number", "seven", "one")
	expect("my name is david", "David", "meet", "david")
	c.items = append(c.items, &chatctx.PipelineSwitch{ID: "p1", State: "committed", From: "cascade", To: "realtime", Epoch: 2})
	expect("what was my order number", "It is order number 4 7 1 1.", "order", "number", "four", "seven", "one")
	expect("look up my order and read the sign", "EXIT ONLY, Platform 9", "four", "seven", "delivered", "exit", "platform", "nine")
	if last := c.items[len(c.items)-1].(*chatctx.Message); !strings.Contains(last.Content.Text(), "order number 4 7 1 1. It was delivered on Tuesday.") {
		t.Errorf("the order is not in the answer: %q", last.Content.Text())
	}
	expect("where is my order", "I know this already. It is order number 4 7 1 1.", "already", "seven", "delivered")
	expect("what is my name", "Your name is David.", "name", "david")
}

func TestToolsAnswerJSON(t *testing.T) {
	at := time.Date(2026, 11, 30, 9, 5, 0, 0, time.UTC)
	tools := Tools{Read: NewReader(ReaderConfig{}), Look: func(context.Context, time.Duration) []switcher.Sight {
		return []switcher.Sight{{Source: "camera", State: "live"}}
	}, Now: func() time.Time { return at }}
	for _, test := range []struct {
		name, arguments, want string
		isError               bool
	}{
		{LookupOrder, `{"order_number":"4711"}`, `"order_number":"4711"`, false},
		{LookupOrder, `{"order_number":"4711; rm"}`, "3 to 12 digits", true},
		{LookupOrder, ``, "3 to 12 digits", true},
		{LookupOrder, `[`, "a JSON object is wanted", true},
		{CurrentTime, `{}`, `"time":"09:05"`, false},
		{ReadText, `{}`, "no image to read", true},
		{"drop_tables", `{}`, "no tool", true},
	} {
		out, isError := tools.Run(t.Context(), switcher.ToolCallOut{Name: test.name, Arguments: test.arguments})
		if isError != test.isError || !strings.Contains(out, test.want) || !json.Valid([]byte(out)) {
			t.Errorf("%s %s: %s (error %v), want %s", test.name, test.arguments, out, isError, test.want)
		}
	}
	one, _ := tools.Run(t.Context(), switcher.ToolCallOut{Name: LookupOrder, Arguments: `{"order_number":"4711"}`})
	if two, _ := tools.Run(t.Context(), switcher.ToolCallOut{Name: LookupOrder, Arguments: `{"order_number":"4711"}`}); one != two {
		t.Errorf("the same order is %s and %s", one, two)
	}
	for _, tool := range tools.List() {
		if !json.Valid(tool.Parameters) || tool.Description == "" {
			t.Errorf("%+v", tool)
		}
	}
	if (Tools{}).Has(ReadText) {
		t.Error("read_text is offered without a reader")
	}
}

func TestModelStreamsAndEndsWithYield(t *testing.T) {
	items := chatctx.Items{&chatctx.Message{ID: "u", Role: chatctx.RoleUser, Content: chatctx.TextContent("hello")}}
	var pieces []string
	if _, err := (Model{}).Answer(t.Context(), cascade.Request{Items: items}, func(d cascade.Delta) error { pieces = append(pieces, d.Text); return nil }); err != nil || len(pieces) < 2 {
		t.Errorf("%q, %v", pieces, err)
	}
	stop := errors.New("stop")
	if _, err := (Model{}).Answer(t.Context(), cascade.Request{Items: items}, func(cascade.Delta) error { return stop }); err != stop {
		t.Errorf("%v", err)
	}
}

func TestCheckSaysWhatToInstall(t *testing.T) {
	if missing := Check(); len(missing) > 0 {
		t.Errorf("missing here: %+v", missing)
	}
	none := check(func(string) (string, error) { return "", exec.ErrNotFound }, func(string) (os.FileInfo, error) { return nil, os.ErrNotExist })
	if len(none) != 3 {
		t.Fatalf("%+v", none)
	}
	for i, pkg := range []string{"pocketsphinx-en-us", "flite", "tesseract-ocr"} {
		if !strings.Contains(none[i].Sentence, pkg) {
			t.Errorf("%q does not name %s", none[i].Sentence, pkg)
		}
	}
}
