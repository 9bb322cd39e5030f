package rules

import (
	"encoding/json"
	"strings"
	"testing"

	chatctx "sightline/context"
	"sightline/switcher"
)

var allTools = []switcher.Tool{{Name: "lookup_order", Parameters: []byte(`{"type":"object","properties":{"order_number":{"type":"string"}}}`)},
	{Name: "read_text"}, {Name: "current_time"}, {Name: "switch_pipeline"}}

func call(id, name, arguments string) chatctx.Item {
	return &chatctx.FunctionCall{ID: "f" + id, CallID: id, Name: name, Arguments: arguments}
}

func output(id, name, text string) chatctx.Item {
	return &chatctx.FunctionCallOutput{ID: "o" + id, CallID: id, Name: name, Output: text}
}

// calls writes calls as "name arguments; …".
func calls(r Reply) string {
	var all []string
	for _, c := range r.Calls {
		all = append(all, c.Name+" "+c.Arguments)
	}
	return strings.Join(all, "; ")
}

func TestReplies(t *testing.T) {
	const way = `{"order_number":"4711","status":"on its way","arrives":"Tuesday"}`
	number := user("My order number is 4 7 1 1.")
	tests := []struct {
		name  string
		items chatctx.Items
		text  string
		calls string
	}{
		// Facts.
		{"a number is told", chatctx.Items{user("my order number is four seven one one")}, "Thank you. Your order number is 4 7 1 1.", ""},
		{"and asked for", chatctx.Items{number, assistant("Thank you."), user("what was my order number")}, "It is order number 4 7 1 1.", ""},
		{"as it was misheard", chatctx.Items{number, assistant("Thank you."), user("one was my order number")}, "It is order number 4 7 1 1.", ""},
		{"after a switch", chatctx.Items{number, &chatctx.PipelineSwitch{ID: "p", State: "committed", To: "realtime"}, user("What was my order number?")}, "It is order number 4 7 1 1.", ""},
		{"out of a summary", chatctx.Items{&chatctx.Summary{ID: "s", Text: "The caller's name is Mary Jones. The order number is 4711; it was looked up."}, user("what was my order number and what is my name")},
			"It is order number 4 7 1 1. Your name is Mary Jones.", ""},
		{"the name out of a summary", chatctx.Items{&chatctx.Summary{ID: "s", Text: "The caller's name is Mary Jones and she asked for an order."}, user("What is my name?")}, "Your name is Mary Jones.", ""},
		{"a correction", chatctx.Items{number, user("no, the order number is 8 0 5 2"), user("what is my order number")}, "It is order number 8 0 5 2.", ""},
		{"no number", chatctx.Items{user("what was my order number")}, "You have not told me an order number yet.", ""},
		{"the agent's words are no facts", chatctx.Items{user("hello"), assistant("An order number is like 1 2 3 4."), user("what is my order number")}, "You have not told me an order number yet.", ""},
		{"a name", chatctx.Items{user("my name is david")}, "Nice to meet you, David.", ""},
		{"both", chatctx.Items{user("My name is David and my order number is 4711")}, "Thank you, David. Your order number is 4 7 1 1.", ""},
		{"the name later", chatctx.Items{user("my name is david"), assistant("Nice."), user("what is my name")}, "Your name is David.", ""},
		{"a note", chatctx.Items{user("Remember that the door code is blue."), assistant("I will."), user("What do you remember?")}, "You asked me to remember: the door code is blue.", ""},
		// Tools.
		{"a look-up", chatctx.Items{number, assistant("Thank you."), user("look up my order")}, "", `lookup_order {"order_number":"4711"}`},
		{"with its number", chatctx.Items{user("Look up order 8052, please.")}, "", `lookup_order {"order_number":"8052"}`},
		{"without one", chatctx.Items{user("look up my order")}, askNumber, ""},
		{"the number after the question", chatctx.Items{user("look up my order"), assistant(askNumber), user("four seven one one"), assistant("Thank you."), user("where is my order")}, "", `lookup_order {"order_number":"4711"}`},
		{"its result", chatctx.Items{number, user("look up my order"), call("c1", "lookup_order", `{"order_number":"4711"}`), output("c1", "lookup_order", way)},
			"It is order number 4 7 1 1. It is on its way and arrives on Tuesday.", ""},
		{"no second look-up after a switch", chatctx.Items{number, call("c1", "lookup_order", `{"order_number":"4711"}`), output("c1", "lookup_order", way), assistant("It is on its way."), user("where is my order")},
			"I know this already. It is order number 4 7 1 1. It is on its way and arrives on Tuesday.", ""},
		{"unless asked for", chatctx.Items{number, call("c1", "lookup_order", `{"order_number":"4711"}`), output("c1", "lookup_order", way), assistant("It is on its way."), user("look up my order again")},
			"", `lookup_order {"order_number":"4711"}`},
		{"a sign", chatctx.Items{user("what does the sign saying")}, "", `read_text {}`},
		{"two at once", chatctx.Items{number, user("look up my order and read the sign")}, "", `lookup_order {"order_number":"4711"}; read_text {}`},
		{"two results", chatctx.Items{number, user("look up my order and read the sign"), call("c1", "lookup_order", `{}`), call("c2", "read_text", `{}`),
			output("c2", "read_text", `{"images":[{"source":"camera","text":"EXIT\nONLY"}]}`), output("c1", "lookup_order", way)},
			"I read: EXIT, ONLY. It is order number 4 7 1 1. It is on its way and arrives on Tuesday.", ""},
		{"one of two", chatctx.Items{number, user("look up my order and read the sign"), call("c1", "lookup_order", `{}`), call("c2", "read_text", `{}`), output("c1", "lookup_order", way)},
			"It is order number 4 7 1 1. It is on its way and arrives on Tuesday. The tool read text is still running.", ""},
		{"a late result", chatctx.Items{number, call("c1", "lookup_order", `{}`), user("what is my name"), output("c1", "lookup_order", way)},
			"It is order number 4 7 1 1. It is on its way and arrives on Tuesday. You have not told me your name yet.", ""},
		{"a failure", chatctx.Items{user("read the sign"), call("c2", "read_text", `{}`), &chatctx.FunctionCallOutput{ID: "o", CallID: "c2", Name: "read_text", Output: `{"error":"no image"}`, IsError: true}},
			"The tool read text failed: no image.", ""},
		{"somebody's tool", chatctx.Items{user("x"), call("c3", "weather", `{}`), output("c3", "weather", `{"sky":"blue","degrees":21}`)}, "The tool weather says: degrees 21, sky blue.", ""},
		{"the time", chatctx.Items{user("what time is it")}, "", `current_time {}`},
		{"a switch", chatctx.Items{user("switch to a real time")}, "", `switch_pipeline {"reason":"the caller asked for it","target":"realtime"}`},
		{"back", chatctx.Items{user("Switch to the cascade pipeline.")}, "", `switch_pipeline {"reason":"the caller asked for it","target":"cascade"}`},
		{"switched", chatctx.Items{user("switch to real time"), call("c4", "switch_pipeline", `{}`), output("c4", "switch_pipeline", `{"status":"already_active","active":"rt","kind":"realtime"}`)},
			"You are talking to the realtime pipeline.", ""},
		// Others.
		{"a handoff", chatctx.Items{number, &chatctx.AgentHandoff{ID: "h", FromAgent: "intake", ToAgent: "billing", Reason: "dispute of a charge"}},
			"I take over from intake. Reason: dispute of a charge. Your order number is 4 7 1 1.", ""},
		{"misheard", chatctx.Items{user("hello old as the picture")}, nothing, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := Responder{}.Reply(Turn{Items: test.items, Tools: allTools, Running: map[string]bool{"c2": true}})
			if got.Text != test.text || calls(got) != test.calls {
				t.Errorf("got  %q, calls %s\nwant %q, calls %s", got.Text, calls(got), test.text, test.calls)
			}
			for _, c := range got.Calls {
				if !json.Valid([]byte(c.Arguments)) {
					t.Errorf("arguments %s", c.Arguments)
				}
			}
		})
	}
}

func TestWithoutToolsNothingIsCalled(t *testing.T) {
	for text, want := range map[string]string{"look up my order": "no tool for it is offered", "switch to realtime": "no tool for it is offered", "what time is it": "It is"} {
		got := Responder{}.Reply(Turn{Items: chatctx.Items{user("my order number is 4711"), user(text)}})
		if len(got.Calls) > 0 || !strings.Contains(got.Text, want) {
			t.Errorf("%q: %+v, want %q", text, got, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"four seven one one": "4711", "4 7 1 1": "4711", "4711": "4711", "forty seven eleven": "4711", "double four oh seven": "4407", "four for one": "441",
		"eight zero five to": "805", "I have to go": "", "one": "1", "twenty one zero": "210", "one and two": "12", "": "",
	} {
		if got, _ := longestNumber(split(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestArgumentsAsTheSchemaNamesThem(t *testing.T) {
	for schema, want := range map[string]string{
		`{"properties":{"order_id":{"type":"integer"},"again":{"type":"boolean"}}}`: `{"order_id":456}`,
		`{"properties":{"id":{"type":"string"}}}`:                                   `{"id":"0456"}`,
		`nonsense`: `{"order_number":"0456"}`,
	} {
		tool := switcher.Tool{Name: "lookup_order", Parameters: []byte(schema)}
		got := Responder{}.Reply(Turn{Items: chatctx.Items{user("look up order 0456")}, Tools: []switcher.Tool{tool}})
		if len(got.Calls) != 1 || got.Calls[0].Arguments != want {
			t.Errorf("%s: %s, want %s", schema, calls(got), want)
		}
	}
}

func TestEverySentenceIsUnderstood(t *testing.T) {
	for _, s := range Phrases() {
		text := strings.NewReplacer("{digits}", "four seven one one", "{name}", "mary").Replace(s)
		got := Responder{}.Reply(Turn{Items: chatctx.Items{user(text)}, Tools: allTools})
		if strings.HasPrefix(got.Text, "You said") {
			t.Errorf("%q is not understood: %q", text, got.Text)
		}
	}
}

func FuzzReply(f *testing.F) {
	f.Add("my order number is four", "call me", `{"status":1}`)
	f.Add("name is", "remember that", `{"images":[1]}`)
	f.Fuzz(func(t *testing.T, one, two, out string) {
		got := Responder{}.Reply(Turn{Items: chatctx.Items{user(one), call("c1", "lookup_order", out), output("c1", "read_text", out), output("c2", "lookup_order", out), user(two),
			output("c3", two, out)}, Tools: allTools})
		if len(got.Text) > 20_000 {
			t.Errorf("%d bytes", len(got.Text))
		}
	})
}
