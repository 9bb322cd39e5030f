package importer

import (
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	chatctx "sightline/context"
)

// fuzz feeds one importer: nothing panics, what comes out a log would take, and it comes out the same the second time.
func fuzz(f *testing.F, format Format) {
	dumps, err := filepath.Glob("testdata/dumps/*")
	if err != nil || len(dumps) == 0 {
		f.Fatal(err)
	}
	for _, dump := range dumps {
		data, err := os.ReadFile(dump)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := Options{Format: format, Conversation: 1, FillIDs: true, MaxElement: 1 << 20}
		items, report, err := Read(Bytes(data), o)
		if err != nil {
			return
		}
		if report.Items != len(items) || report.Format == "" || report.Why == "" {
			t.Errorf("report %+v of %d items", report, len(items))
		}
		seen := map[string]bool{}
		for _, item := range items {
			if err := problem(item); err != nil {
				t.Errorf("%v: %v", item, err)
			}
			if id := item.ItemID(); !chatctx.ValidID(id) || seen[id] {
				t.Errorf("id %q", id)
			}
			seen[item.ItemID()] = true
			valid(t, item)
		}
		for _, n := range report.Notes {
			if n.Offset < 0 || n.Offset > int64(len(data)) || n.Line < 1 || !utf8.ValidString(n.String()) || len(n.String()) > 2000 {
				t.Errorf("note %+v", n)
			}
		}
		again, _, err := Read(Bytes(data), o)
		if err != nil || len(again) != len(items) {
			t.Error("not the same the second time", err)
		}
	})
}

// valid checks the texts of an item.
func valid(t *testing.T, item chatctx.Item) {
	var texts []string
	switch it := item.(type) {
	case *chatctx.Message:
		texts = append(texts, it.Content.Text(), it.AgentID)
		for _, img := range it.Content.Images() {
			texts = append(texts, img.URL, img.Source)
		}
	case *chatctx.FunctionCall:
		texts = append(texts, it.Name, it.Arguments, it.CallID)
		if it.CallID == "" || it.Name == "" {
			t.Errorf("%+v", it)
		}
	case *chatctx.FunctionCallOutput:
		texts = append(texts, it.Name, it.Output, it.CallID)
		if it.CallID == "" {
			t.Errorf("%+v", it)
		}
	}
	for _, s := range texts {
		if !utf8.ValidString(s) {
			t.Errorf("%q is not UTF-8", s)
		}
	}
}

func FuzzAuto(f *testing.F)      { fuzz(f, Auto) }
func FuzzItems(f *testing.F)     { fuzz(f, Items) }
func FuzzTransport(f *testing.F) { fuzz(f, Transport) }
func FuzzOpenAI(f *testing.F)    { fuzz(f, OpenAI) }
func FuzzResponses(f *testing.F) { fuzz(f, Responses) }
func FuzzRealtime(f *testing.F)  { fuzz(f, Realtime) }
func FuzzAnthropic(f *testing.F) { fuzz(f, Anthropic) }
func FuzzGemini(f *testing.F)    { fuzz(f, Gemini) }
func FuzzLiveKit(f *testing.F)   { fuzz(f, LiveKit) }
func FuzzChatGPT(f *testing.F)   { fuzz(f, ChatGPT) }
func FuzzText(f *testing.F)      { fuzz(f, Text) }
