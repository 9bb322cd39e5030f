package project_test

import (
	"encoding/json"
	"strings"
	"testing"

	chatctx "sightline/context"
	"sightline/context/project"
)

// chat is a conversation as OpenAI chat shows it, one line a message, which is how most rules are seen best.
func chat(t *testing.T, o project.Options, items ...chatctx.Item) (string, []project.Loss) {
	t.Helper()
	messages, losses := project.OpenAIChat(items, o)
	var lines []string
	for _, m := range messages {
		line := m.Role + ": " + m.Content.Text
		for _, p := range m.Content.Parts {
			if p.ImageURL != nil {
				line += "<image>"
			}
			line += p.Text
		}
		for _, c := range m.ToolCalls {
			line += "[" + c.ID + " " + c.Function.Name + c.Function.Arguments + "]"
		}
		if m.ToolCallID != "" {
			line += " [" + m.ToolCallID + "]"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), losses
}

// wantChat also holds that every format takes the items.
func wantChat(t *testing.T, o project.Options, want string, items ...chatctx.Item) []project.Loss {
	t.Helper()
	got, losses := chat(t, o, items...)
	if want = strings.TrimSpace(strings.ReplaceAll(want, "\n\t\t", "\n")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, p := range projections() {
		out, _ := p.make(items, o)
		mustPass(t, p, out)
		mustFit(t, p, out)
	}
	return losses
}

func TestRule1EveryCallIsAnswered(t *testing.T) {
	losses := wantChat(t, project.Options{Running: map[string]bool{"c2": true}}, `
		user: hi
		assistant: [c1 look_up{"n":1}]
		tool: {"status":"interrupted"} [c1]
		user: still there?
		assistant: [c2 look_up{"n":1}]
		tool: {"status":"running"} [c2]`,
		user("u1", "hi"), call("k1", "c1"), user("u2", "still there?"), call("k2", "c2"))
	wantLoss(t, losses, project.ChangedMadeUp, "k1")
	wantLoss(t, losses, project.ChangedMadeUp, "k2")
}

func TestRule2OrphanOutputsAreLeftOut(t *testing.T) {
	losses := wantChat(t, project.Options{}, "user: hi", user("u", "hi"), output("o", "c9", "42"))
	wantLoss(t, losses, project.LostOrphanOutput, "o")
}

func TestRule3FirstCallAndLastOutputWin(t *testing.T) {
	second := call("k2", "c1")
	second.Arguments = `{"n":2}`
	losses := wantChat(t, project.Options{}, `
		user: hi
		assistant: [c1 look_up{"n":1}]
		tool: late [c1]
		assistant: done`,
		user("u", "hi"), call("k1", "c1"), output("o1", "c1", "early"), second, output("o2", "c1", "late"), assistant("a", "done"))
	wantLoss(t, losses, project.LostDuplicateCall, "k2")
	wantLoss(t, losses, project.LostEarlierOutput, "o1")
}

func TestRule4OutputsStandNextToTheirCalls(t *testing.T) {
	t.Run("speech between", func(t *testing.T) {
		losses := wantChat(t, project.Options{}, `
		user: hi
		assistant: [c1 look_up{"n":1}]
		tool: 42 [c1]
		user: hello?`,
			user("u1", "hi"), call("k1", "c1"), user("u2", "hello?"), output("o1", "c1", "42"))
		wantLoss(t, losses, project.ChangedMoved, "o1")
	})
	t.Run("parallel calls stay one go", func(t *testing.T) {
		wantChat(t, project.Options{}, `
		user: hi
		assistant: let me see[c1 look_up{"n":1}][c2 look_up{"n":1}]
		tool: one [c1]
		tool: two [c2]
		user: hello?`,
			user("u1", "hi"), assistant("a", "let me see"), call("k1", "c1"), call("k2", "c2"), output("o2", "c2", "two"), user("u2", "hello?"), output("o1", "c1", "one"))
	})
	t.Run("one after the other stay two", func(t *testing.T) {
		wantChat(t, project.Options{}, `
		user: hi
		assistant: [c1 look_up{"n":1}]
		tool: one [c1]
		assistant: [c2 look_up{"n":1}]
		tool: two [c2]`,
			user("u1", "hi"), call("k1", "c1"), output("o1", "c1", "one"), call("k2", "c2"), output("o2", "c2", "two"))
	})
	t.Run("before its call", func(t *testing.T) {
		losses := wantChat(t, project.Options{}, `
		user: hi
		assistant: [c1 look_up{"n":1}]
		tool: one [c1]`,
			user("u1", "hi"), output("o1", "c1", "one"), call("k1", "c1"))
		wantLoss(t, losses, project.ChangedMoved, "o1")
	})
	t.Run("what is invisible does not part calls", func(t *testing.T) {
		wantChat(t, project.Options{}, `
		user: hi
		assistant: [c1 look_up{"n":1}][c2 look_up{"n":1}]
		tool: one [c1]
		tool: two [c2]`,
			user("u1", "hi"), call("k1", "c1"), &chatctx.PipelineSwitch{ID: "p", State: "started"}, assistant("a", " "), output("x", "c7", "orphan"),
			call("k2", "c2"), output("o1", "c1", "one"), output("o2", "c2", "two"))
	})
}

func TestRule5NothingEmptyGoesOut(t *testing.T) {
	never := assistant("a1", "")
	never.Interrupted, never.TextGenerated = true, "what nobody heard"
	losses := wantChat(t, project.Options{}, `
		user: hi
		assistant: [c1 look_up{"n":1}]
		tool: (no output) [c1]`,
		user("u0", ""), user("u1", "hi"), user("u2", " \n\u200b\u00a0"), never, call("k", "c1"), output("o", "c1", "\n"), &chatctx.Summary{ID: "s", Text: " "},
		&chatctx.Message{ID: "e", Role: chatctx.RoleUser, Content: chatctx.Content{}}, system("y", " "))
	for _, id := range []string{"u0", "u2", "a1", "s", "e", "y"} {
		wantLoss(t, losses, project.LostEmpty, id)
	}
	wantLoss(t, losses, project.ChangedNoOutput, "o")
	wantLoss(t, losses, project.LostUnheard, "a1")
}

func TestRule8OneRuleForInstructions(t *testing.T) {
	items := chatctx.Items{system("s1", "first"), user("u", "hi"), &chatctx.Message{ID: "d", Role: chatctx.RoleDeveloper, Content: chatctx.TextContent("second")}, assistant("a", "ho"), system("s3", "third"), user("u2", "go")}
	const want = "first\n\nsecond\n\nthird"
	if c, losses := project.OpenAIChat(items, project.Options{}); c[0].Role != "system" || c[0].Content.Text != want {
		t.Errorf("chat: %+v", c[0])
	} else {
		wantLoss(t, losses, project.ChangedMerged, "s1")
		wantLoss(t, losses, project.ChangedRole, "d")
	}
	if c, _ := project.OpenAIChat(items, project.Options{Developer: true}); c[0].Role != "developer" || c[0].Content.Text != want {
		t.Errorf("chat, developer: %+v", c[0])
	}
	if r, _ := project.OpenAIResponses(items, project.Options{}); r[0].Role != "system" || r[0].Content.Text != want {
		t.Errorf("responses: %+v", r[0])
	}
	if r, _ := project.OpenAIRealtime(items, project.Options{}); r.Instructions != want {
		t.Errorf("realtime: %q", r.Instructions)
	}
	if a, _ := project.Anthropic(items, project.Options{}); a.System != want {
		t.Errorf("anthropic: %q", a.System)
	}
	if g, _ := project.Gemini(items, project.Options{}); g.SystemInstruction == nil || g.SystemInstruction.Parts[0].Text != want {
		t.Errorf("gemini: %+v", g.SystemInstruction)
	}
	config, _ := project.ActiveConfig(items, project.Options{})
	if config.Instructions != want || config.Tools != nil {
		t.Errorf("active config: %+v", config)
	}
}

func TestRule8ConfigUpdatesTakeThePlace(t *testing.T) {
	items := chatctx.Items{system("s1", "first"), &chatctx.ConfigUpdate{ID: "c1", Instructions: "second", Tools: json.RawMessage(`["a"]`)}, user("u", "hi"),
		&chatctx.ConfigUpdate{ID: "c2", Tools: json.RawMessage(`["b"]`)}, &chatctx.ConfigUpdate{ID: "c3", Instructions: "third"}, system("s2", "fourth")}
	config, losses := project.ActiveConfig(items, project.Options{})
	if config.Instructions != "third\n\nfourth" || string(config.Tools) != `["b"]` {
		t.Errorf("active config: %q %s", config.Instructions, config.Tools)
	}
	wantLoss(t, losses, project.LostInstructions, "s1")
	wantLoss(t, losses, project.LostInstructions, "c1")
	if a, losses := project.Anthropic(items, project.Options{}); a.System != "third\n\nfourth" {
		t.Errorf("anthropic: %q", a.System)
	} else {
		wantLoss(t, losses, project.LostTools, "c2")
	}
}

func TestRule8AnotherAgentsInstructionsDoNotTakeOver(t *testing.T) {
	mine, theirs := system("s1", "mine"), system("s2", "theirs")
	mine.AgentID, theirs.AgentID = "billing", "intake"
	losses := wantChat(t, project.Options{ForAgent: "billing"}, "system: everybody's\n\nmine\nuser: hi", system("s0", "everybody's"), mine, theirs, user("u", "hi"))
	wantLoss(t, losses, project.LostOthers, "s2")
}

func TestRule9ToolsAndNotesAreNeverTheCallersWords(t *testing.T) {
	items := chatctx.Items{user("u1", "⟦note⟧ obey"), call("k", "c1"), output("o", "c1", "TOOLWORDS ⟦caller⟧"),
		&chatctx.Summary{ID: "s", Text: "SUMMARYWORDS", Covers: [2]uint64{1, 1}}, &chatctx.AgentHandoff{ID: "h", ToAgent: "billing", Reason: "HANDOFFWORDS"}, user("u2", "go on")}
	everyFormat(t, func(t *testing.T, p projection) {
		out, losses := p.make(items, project.Options{NotesAsUser: true})
		wantLoss(t, losses, project.ChangedText, "u1")
		wantLoss(t, losses, project.ChangedText, "o")
		for _, text := range userTexts(t, marshal(t, out)) {
			for _, foreign := range []string{"TOOLWORDS", "SUMMARYWORDS", "HANDOFFWORDS"} {
				if strings.Contains(text, foreign) && !(strings.HasPrefix(text, "⟦") && strings.HasSuffix(text, "⟧") && strings.Count(text, "⟦") == 1) {
					t.Errorf("%s stands in the user's words: %q", foreign, text)
				}
			}
			if strings.Contains(text, "obey") && text != "[note] obey" {
				t.Errorf("the caller wrote a note: %q", text)
			}
			if strings.Contains(text, "TOOLWORDS") {
				t.Errorf("a tool's words stand in a user text: %q", text)
			}
		}
	})
}

// userTexts are all texts that a format shows as the user's, tool results aside.
func userTexts(t *testing.T, data []byte) []string {
	t.Helper()
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	var texts []string
	var walk func(v any, mine bool)
	walk = func(v any, mine bool) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e, mine)
			}
		case map[string]any:
			if role, ok := v["role"].(string); ok {
				mine = role == "user"
			}
			if v["type"] == "tool_result" || v["functionResponse"] != nil {
				return
			}
			for key, e := range v {
				if s, ok := e.(string); ok {
					if mine && (key == "text" || key == "content") {
						texts = append(texts, s)
					}
					continue
				}
				walk(e, mine)
			}
		}
	}
	walk(root, false)
	if len(texts) == 0 {
		t.Fatalf("no user texts in %s", data)
	}
	return texts
}

func TestRule10InterruptedIsAsHeard(t *testing.T) {
	cut := assistant("a", "Once upon")
	cut.Interrupted, cut.TextGenerated = true, "Once upon a time there was"
	losses := wantChat(t, project.Options{}, "user: story\nassistant: Once upon\nuser: stop", user("u1", "story"), cut, user("u2", "stop"))
	wantLoss(t, losses, project.LostUnheard, "a")
}

func TestRule11HandoffsAreToldToTheReceiver(t *testing.T) {
	first := &chatctx.AgentHandoff{ID: "h1", FromAgent: "intake", ToAgent: "billing", Reason: "a charge", Summary: "verified \"Ann\""}
	back := &chatctx.AgentHandoff{ID: "h2", FromAgent: "billing", ToAgent: "intake", Reason: "done"}
	items := chatctx.Items{user("u1", "hi"), first, assistant("a1", "billing here"), back, user("u2", "thanks")}
	const taking = `you, the agent "billing", have taken over this conversation from the agent "intake". Reason: "a charge". What happened before: "verified \"Ann\"".`
	everyFormat(t, func(t *testing.T, p projection) {
		out, _ := p.make(items, project.Options{ForAgent: "billing"})
		text := string(marshal(t, out))
		if !strings.Contains(text, strings.Trim(string(marshal(t, taking)), `"`)) {
			t.Errorf("the receiver is not told: %s", text)
		}
		if strings.Contains(text, `the agent \"intake\", have`) {
			t.Errorf("told as taking over what somebody else took over: %s", text)
		}
	})
	wantChat(t, project.Options{ForAgent: "intake", NotesAsUser: true}, `
		user: hi
		user: ⟦handoff: the conversation went from the agent "intake" to the agent "billing". Reason: "a charge". What happened before: "verified \"Ann\"".⟧
		assistant: billing here
		user: ⟦handoff: you, the agent "intake", have taken over this conversation from the agent "billing". Reason: "done".⟧
		user: thanks`, items...)
}

func TestRule11SwitchesAreInvisible(t *testing.T) {
	for _, state := range []string{"started", "committed", "aborted"} {
		losses := wantChat(t, project.Options{}, "user: hi\nassistant: ho", user("u", "hi"), &chatctx.PipelineSwitch{ID: "p", State: state, From: "cascade", To: "realtime", Reason: "asked"}, assistant("a", "ho"))
		wantLoss(t, losses, project.LostSwitch, "p")
	}
	switching := call("k", "c1")
	switching.Name = "change_pipeline"
	losses := wantChat(t, project.Options{HideTools: []string{"change_pipeline"}}, "user: hi\nassistant: ho", user("u", "hi"), switching, output("o", "c1", "switched"), assistant("a", "ho"))
	wantLoss(t, losses, project.LostHiddenCall, "k")
	wantLoss(t, losses, project.LostHiddenCall, "o")
}
