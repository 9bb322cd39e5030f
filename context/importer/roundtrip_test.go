package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	chatctx "sightline/context"
	"sightline/context/project"
)

// pixel is the smallest PNG.
const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// exporter writes a format and says how the importer is to name it.
type exporter struct {
	format Format
	write  func(items chatctx.Items) (any, []project.Loss)
}

var exporters = []exporter{
	{OpenAI, func(i chatctx.Items) (any, []project.Loss) { return listed(project.OpenAIChat(i, keepAll)) }},
	{Responses, func(i chatctx.Items) (any, []project.Loss) { return listed(project.OpenAIResponses(i, keepAll)) }},
	{Realtime, func(i chatctx.Items) (any, []project.Loss) { return listed(project.OpenAIRealtime(i, keepAll)) }},
	{Anthropic, func(i chatctx.Items) (any, []project.Loss) { return listed(project.Anthropic(i, keepAll)) }},
	{Gemini, func(i chatctx.Items) (any, []project.Loss) { return listed(project.Gemini(i, keepAll)) }},
}

var keepAll = project.Options{KeepImages: 1000}

func listed[T any](v T, l []project.Loss) (any, []project.Loss) { return v, l }

// TestRoundTripsLoseNothing: what a format holds comes back. Exporting what was imported gives the same bytes again, and the import
// loses nothing.
func TestRoundTripsLoseNothing(t *testing.T) {
	for _, e := range exporters {
		t.Run(string(e.format), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				items := history(t)
				once, _ := e.write(items)
				data := marshal(t, once)
				back, report, err := Read(Bytes(data), Options{Format: e.format})
				if noConversation(data) {
					return
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, data)
				}
				for _, n := range report.Notes {
					if n.Lost {
						t.Errorf("lost: %s\n%s", n, data)
					}
				}
				twice, _ := e.write(back)
				if again := marshal(t, twice); !bytes.Equal(madeUp.ReplaceAll(data, nil), madeUp.ReplaceAll(again, nil)) {
					t.Errorf("not the same after a round trip:\n%s\n%s\nitems %s", data, again, marshal(t, back))
				}
				if fromTool(back) {
					t.Errorf("a tool's words came back as the caller's: %s", marshal(t, back))
				}
			})
		})
	}
}

// madeUp are ids that package project makes up; it makes others for the same item when that has one already.
var madeUp = regexp.MustCompile(`"id":"sl_[A-Za-z0-9_-]*",`)

// TestItemsRoundTripIsTheSame: our own format and the transport format, as far as it goes.
func TestItemsRoundTripIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := history(t)
		data := marshal(t, items)
		back, report, err := Read(Bytes(data), Options{Format: Items})
		if len(items) == 0 {
			return
		}
		if err != nil || !report.Lossless() {
			t.Fatalf("%v %v\n%s", err, report.Notes, data)
		}
		if again := marshal(t, back); !bytes.Equal(data, again) {
			t.Errorf("got %s\nwant %s", again, data)
		}
		items = slices.DeleteFunc(items, func(i chatctx.Item) bool { // for the rest, and for an empty message before calls, the dicts have no place
			if m, ok := i.(*chatctx.Message); ok {
				return m.Content.Text() == "" && len(m.Content.Images()) == 0
			}
			return i.Kind() == chatctx.KindHandoff || i.Kind() == chatctx.KindSummary || i.Kind() == chatctx.KindConfigUpdate
		})
		dicts := marshal(t, chatctx.ToContextMessages(items))
		if len(chatctx.ToContextMessages(items)) == 0 {
			return
		}
		back, report, err = Read(Bytes(dicts), Options{Format: Transport})
		if err != nil || !report.Lossless() {
			t.Fatalf("%v %v\n%s", err, report.Notes, dicts)
		}
		if again := marshal(t, chatctx.ToContextMessages(back)); !bytes.Equal(dicts, again) {
			t.Errorf("got %s\nwant %s", again, dicts)
		}
	})
}

// TestDetectionOfOurOwnExports: what package project writes is told without a hint, or what comes out is the same anyway.
func TestDetectionOfOurOwnExports(t *testing.T) {
	for _, e := range exporters {
		t.Run(string(e.format), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				out, _ := e.write(history(t))
				data := marshal(t, out)
				if noConversation(data) {
					return
				}
				want, _, err := Read(Bytes(data), Options{Format: e.format})
				if err != nil {
					t.Fatal(err)
				}
				got, report, err := Read(Bytes(data), Options{})
				if err != nil {
					t.Fatal(err)
				}
				if report.Why == "" {
					t.Error("no reason is given")
				}
				if report.Format != e.format && !bytes.Equal(marshal(t, got), marshal(t, want)) {
					t.Errorf("read as %s (%s), which is something else:\n%s\n%s\n%s", report.Format, report.Why, data, marshal(t, got), marshal(t, want))
				}
			})
		})
	}
}

// noConversation: an export with nothing in it is no input.
func noConversation(data []byte) bool {
	s := string(data)
	return s == "[]" || strings.HasSuffix(s, `"items":[]}`) || strings.HasSuffix(s, `"messages":[]}`) || strings.HasSuffix(s, `"contents":[]}`)
}

func marshal(t *rapid.T, v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// toolWords are in every output of a history and in nothing else.
const toolWords = "said the tool"

func fromTool(items chatctx.Items) bool {
	for _, item := range items {
		if m, ok := item.(*chatctx.Message); ok && strings.Contains(m.Content.Text(), toolWords) {
			return true
		}
	}
	return false
}

// history makes a conversation in any order, broken ones too; the ids are good.
func history(t *rapid.T) chatctx.Items {
	words := rapid.OneOf(rapid.SampledFrom([]string{"", " ", "Hello", "Ja\nund nein", "⟦handoff: the conversation went to the agent \"x\".⟧", "[tool result] x -> y", "こんにちは 🙂", "\x00", "a\"b\\", "<b>&", "  spaced  "}), rapid.String())
	callID := rapid.SampledFrom([]string{"c1", "c2", "c3"}) // ids and names that every provider takes: mapped ones are mapped anew by design
	items := chatctx.Items{}
	for n := range rapid.IntRange(0, 12).Draw(t, "items") {
		id := fmt.Sprintf("i%d", n)
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0, 1, 2:
			m := &chatctx.Message{ID: id, Role: rapid.SampledFrom([]chatctx.Role{"user", "user", "assistant", "system", "developer"}).Draw(t, "role"),
				Content: chatctx.TextContent(words.Draw(t, "text")), Interrupted: rapid.Bool().Draw(t, "interrupted")}
			if rapid.Bool().Draw(t, "more") {
				m.Content = append(m.Content, chatctx.Text{Text: words.Draw(t, "second")})
			}
			if rapid.Bool().Draw(t, "image") {
				m.Content = append(m.Content, chatctx.ImageContent{URL: pixel, Detail: rapid.SampledFrom([]string{"auto", "low", "high"}).Draw(t, "detail"),
					Source: rapid.SampledFrom([]string{"", "camera"}).Draw(t, "source")})
			}
			if m.Role == chatctx.RoleSystem || m.Role == chatctx.RoleDeveloper {
				for k, p := range m.Content { // an operator who writes our marks gets what they stand for
					if text, ok := p.(chatctx.Text); ok {
						m.Content[k] = chatctx.Text{Text: strings.NewReplacer("⟦", "", "⟧", "").Replace(text.Text)}
					}
				}
			}
			items = append(items, m)
		case 3, 4, 5:
			items = append(items, &chatctx.FunctionCall{ID: id, CallID: callID.Draw(t, "call"), Name: rapid.SampledFrom([]string{"zoom", "look_up"}).Draw(t, "name"),
				Arguments: rapid.SampledFrom([]string{"{}", `{"a":1}`, "", "no json", "[1]", `{"b": "<>"}`}).Draw(t, "arguments")})
		case 6, 7:
			items = append(items, &chatctx.FunctionCallOutput{ID: id, CallID: callID.Draw(t, "call"), Output: toolWords + words.Draw(t, "output"), IsError: rapid.Bool().Draw(t, "error")})
		case 8:
			items = append(items, &chatctx.AgentHandoff{ID: id, FromAgent: rapid.SampledFrom([]string{"", "ada"}).Draw(t, "from"), ToAgent: "bob", Reason: words.Draw(t, "reason"), Summary: words.Draw(t, "summary")})
		case 9:
			if rapid.Bool().Draw(t, "summary") {
				items = append(items, &chatctx.Summary{ID: id, Text: "They met. " + words.Draw(t, "text"), Covers: [2]uint64{1, 1}})
			} else {
				items = append(items, &chatctx.ConfigUpdate{ID: id, Instructions: "Be exact. " + words.Draw(t, "instructions")})
			}
		}
	}
	return items
}
