package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	chatctx "sightline/context"
	"sightline/context/importer"
)

var updateContext = flag.Bool("update-context", false, "write the golden files of sightline context anew")

const dumps = "../../context/importer/testdata/dumps/"

// runContext runs `sightline context` with stdin and gives what it said.
func runContext(stdin string, args ...string) (stdout, stderr string, code int) {
	var out, complaints bytes.Buffer
	code = contextTool{args: args, stdin: strings.NewReader(stdin), stdout: &out, stderr: &complaints}.run()
	return out.String(), complaints.String(), code
}

// TestContextGolden: what the commands say about dumps of every format, as a person has looked at it.
func TestContextGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"inspect-openai":      {"inspect", dumps + "openai-request.json"},
		"inspect-items":       {"inspect", dumps + "items-snapshot.json"},
		"inspect-json":        {"inspect", "--json", dumps + "livekit-to-dict.json"},
		"inspect-exact":       {"inspect", "--model", "gpt-4o", dumps + "anthropic-request.json"},
		"inspect-problems":    {"inspect", "testdata/context/broken.json"},
		"convert-anthropic":   {"convert", "--to", "anthropic", dumps + "openai-request.json"},
		"convert-gemini":      {"convert", "--to", "gemini", dumps + "livekit-to-dict.json"},
		"convert-realtime":    {"convert", "--to", "realtime", dumps + "videosdk-to-dict.json"},
		"convert-responses":   {"convert", "--to", "responses", dumps + "anthropic-request.json"},
		"convert-openai":      {"convert", "--to", "openai", "--developer", dumps + "gemini-request.json"},
		"convert-items":       {"convert", "--to", "items", dumps + "realtime-events.jsonl"},
		"convert-transport":   {"convert", "--to", "transport", dumps + "items-snapshot.json"},
		"convert-text":        {"convert", "--to", "text", dumps + "pipecat-context.json"},
		"validate-own-format": {"validate", "--for", "openai", "testdata/context/broken.json"},
		"validate-other":      {"validate", "--for", "anthropic", "testdata/context/broken.json"},
		"validate-links":      {"validate", "--for", "gemini", dumps + "transport.json"},
		"validate-fine":       {"validate", "--for", "openai", dumps + "transport.json"},
		"convert-end":         {"convert", "--to", "anthropic", "--end-with-user", dumps + "gemini-response.json"},
		"truncate":            {"truncate", "--max-items", "4", dumps + "anthropic-request.json"},
		"truncate-plain":      {"truncate", "--plain", "--max-items", "2", "--to", "text", dumps + "anthropic-request.json"},
		"diff":                {"diff", dumps + "items-snapshot.json", "testdata/context/edited.json"},
		"redact":              {"redact", "--images", "--names", "Maria Lopez,Maria", "testdata/context/private.json"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := runContext("", args...)
			got := stdout + "--- standard error\n" + stderr + "--- exit " + string(rune('0'+code)) + "\n"
			file := filepath.Join("testdata/context/golden", name+".txt")
			if *updateContext {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestContextExitCodes(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"", exitUsage, "usage:"},
		{"help", exitOK, "usage:"},
		{"inspect --help", exitOK, "usage:"},
		{"sing", exitUsage, "unknown command"},
		{"inspect --from yaml -", exitUsage, "allowed are auto"},
		{"inspect a b", exitUsage, "at most 1"},
		{"inspect --wings", exitUsage, "wings"},
		{"inspect nowhere.json", exitUsage, "no such file"},
		{"inspect testdata", exitUsage, "is a folder"},
		{"inspect -", exitFail, "standard input:1:1: the input is empty"},
		{"convert -", exitUsage, "--to says"},
		{"convert --to yaml -", exitUsage, "allowed are items"},
		{"validate -", exitUsage, "--for says"},
		{"validate --for mistral -", exitUsage, "allowed are"},
		{"truncate -", exitUsage, "--max-items"},
		{"truncate --max-items 0 -", exitUsage, "at least 1"},
		{"truncate --max-tokens -5 -", exitUsage, "at least 1"},
		{"diff one", exitUsage, "two files"},
		{"diff - -", exitUsage, "two files"},
		{"convert --to items --strict " + dumps + "chatgpt-conversations.json", exitFail, "lost"},
		{"convert --to items " + dumps + "chatgpt-conversations.json", exitOK, "[0].mapping"},
		{"convert --to items " + dumps + "openai-finetune.jsonl", exitFail, "openai-finetune.jsonl:2:1: 2 conversations"},
		{"convert --to items --conversation 2 " + dumps + "openai-finetune.jsonl", exitOK, ""},
		{"convert " + dumps + "transport.json --to items", exitOK, ""}, // flags behind the file
		{"diff " + dumps + "transport.json " + dumps + "transport.json", exitOK, ""},
	} {
		stdout, stderr, code := runContext("", strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("context %s: exit %d, want %d, with %q:\n%s%s", c.args, code, c.code, c.says, stdout, stderr)
		}
	}
}

// TestContextFormatsAgree: a conversation comes from every format to every format and back, and diff finds nothing between them.
func TestContextFormatsAgree(t *testing.T) {
	const talk = `[{"type":"message","id":"a","role":"system","content":"Be kind."},{"type":"message","id":"b","role":"user","content":"Where is it?"},
		{"type":"function_call","id":"c","call_id":"c1","name":"look","arguments":"{}"},{"type":"function_call_output","id":"d","call_id":"c1","name":"look","output":"There.","is_error":false},
		{"type":"message","id":"e","role":"assistant","content":"There."},{"type":"message","id":"f","role":"user","content":"Thanks."}]`
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	original := write("items.json", talk)
	for _, to := range []string{"items", "transport", "openai", "responses", "realtime", "anthropic", "gemini"} {
		out, complaints, code := runContext(talk, "convert", "--to", to)
		if code != exitOK || complaints != "" {
			t.Fatalf("%s: exit %d: %s", to, code, complaints)
		}
		file := write(to, out)
		if out, complaints, code = runContext("", "diff", "--by-content", original, file); code != exitOK {
			t.Errorf("%s: exit %d\n%s%s", to, code, out, complaints)
		}
		for _, provider := range []string{"openai", "responses", "realtime", "anthropic", "gemini"} {
			if _, complaints, code = runContext("", "validate", "--for", provider, file); code != exitOK {
				t.Errorf("%s for %s: %s", to, provider, complaints)
			}
		}
	}
}

// TestContextTruncateKeepsPairsAndInstructions, whatever the limits, and as package chatctx does it.
func TestContextTruncateKeepsPairsAndInstructions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var small skeleton
		items := chatctx.Items{}
		for n := range rapid.IntRange(1, 20).Draw(t, "items") {
			call := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "call")
			words := strings.Repeat("w ", rapid.IntRange(0, 5).Draw(t, "words"))
			var item chatctx.Item
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				item = &chatctx.Message{Role: rapid.SampledFrom([]chatctx.Role{"user", "assistant", "system"}).Draw(t, "role"), Content: chatctx.TextContent(words)}
			case 1:
				item = &chatctx.FunctionCall{CallID: call, Arguments: words}
			case 2:
				item = &chatctx.FunctionCallOutput{CallID: call, Output: words}
			case 3:
				item = &chatctx.Summary{Text: words}
			}
			items = append(items, item)
			small.add(item, strings.Count(words, "w"))
			_ = n
		}
		maxItems, maxTokens := rapid.IntRange(1, 20).Draw(t, "max items"), rapid.IntRange(1, 40).Draw(t, "max tokens")
		keep, err := small.plan(&maxItems, &maxTokens, false)
		if err != nil {
			t.Fatal(err)
		}
		doubled := 2 * maxTokens // chatctx counts two tokens a word
		want, err := items.Truncate(&maxItems, &doubled)
		if err != nil {
			t.Fatal(err)
		}
		var got chatctx.Items
		for i, k := range keep {
			if k {
				got = append(got, items[i])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d stay, package chatctx keeps %d", len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("item %d is another", i)
			}
		}
	})
}

// TestContextDiffIsShortest: changes turn the one list into the other, and where keys occur once there are as few as can be.
func TestContextDiffIsShortest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}), 0, 12)
		old, now := keys.Draw(t, "old"), keys.Draw(t, "new")
		a, b := shadesOf(old), shadesOf(now)
		pairs := common(a, b)
		li, lk := -1, -1
		for _, p := range pairs {
			if p[0] <= li || p[1] <= lk || old[p[0]] != now[p[1]] {
				t.Fatalf("pairs %v", pairs)
			}
			li, lk = p[0], p[1]
		}
		if want := longest(old, now); len(pairs) != want {
			t.Errorf("%d in common, %d could be", len(pairs), want)
		}
		if n := len(compare(a, b)); n != len(old)+len(now)-2*len(pairs) {
			t.Errorf("%d changes", n)
		}
	})
}

func shadesOf(keys []string) []shade {
	list := make([]shade, len(keys))
	for i, k := range keys {
		list[i].key = k
	}
	return list
}

func longest(a, b []string) int {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for k, y := range b {
			above := row[k+1]
			if x == y {
				row[k+1] = diagonal + 1
			} else {
				row[k+1] = max(above, row[k])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

func TestContextDiffOfLongConversations(t *testing.T) {
	old := make([]shade, 50_000)
	for i := range old {
		old[i].key = string(rune('a'+i%26)) + string(rune(0x4e00+i))
	}
	now := append(append(append([]shade{}, old[:10_000]...), old[10_100:40_000]...), shade{key: "new"})
	now = append(now, old[40_000:]...)
	if n := len(compare(old, now)); n != 101 {
		t.Errorf("%d changes, want 101", n)
	}
}

// TestContextPlainTextHasNoEscapes: a conversation is not ours; what it says must not steer the terminal.
func TestContextPlainTextHasNoEscapes(t *testing.T) {
	out, complaints, code := runContext(`[{"role":"user","content":"\u001b[2J\u0007\u202e x","\u001b[2Jy":1,"message_id":"\u001b]"}]`, "inspect")
	if code != exitOK || strings.ContainsAny(out+complaints, "\x1b\x07\u202e") {
		t.Errorf("%q %q", out, complaints)
	}
}

func TestContextInspectJSONIsJSON(t *testing.T) {
	for _, file := range []string{"openai-request.json", "items-snapshot.json", "transcript.txt"} {
		out, _, _ := runContext("", "inspect", "--json", dumps+file)
		var v struct {
			Items   []inspected
			Summary overview
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil || len(v.Items) == 0 || v.Summary.Report.Items != len(v.Items) {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

func TestContextColoursOnlyOnATerminal(t *testing.T) {
	var out, complaints bytes.Buffer
	tool := contextTool{args: []string{"inspect", dumps + "transport.json"}, stdout: &out, stderr: &complaints, terminal: true}
	if tool.run() != exitOK || !strings.Contains(out.String(), "\x1b[32m") {
		t.Error(out.String())
	}
	if plain, _, _ := runContext("", "inspect", dumps+"transport.json"); strings.Contains(plain, "\x1b") {
		t.Error(plain)
	}
}

// TestContextIsReachable through the program itself.
func TestContextIsReachable(t *testing.T) {
	var out, complaints bytes.Buffer
	p := program{args: []string{"context", "inspect", dumps + "transport.json"}, getenv: os.Getenv, stdout: &out, stderr: &complaints}
	if code := p.run(); code != exitOK || !strings.Contains(out.String(), string(importer.Transport)) {
		t.Error(code, out.String(), complaints.String())
	}
}

// TestContextConvertedIsValid: what convert makes of any saved conversation is nothing that validate finds fault with.
func TestContextConvertedIsValid(t *testing.T) {
	files, err := filepath.Glob(dumps + "*")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for _, to := range []string{"openai", "responses", "realtime", "anthropic", "gemini"} {
			made, complaints, code := runContext("", "convert", "--conversation", "1", "--to", to, file)
			if code != exitOK {
				t.Errorf("%s to %s: exit %d: %s", file, to, code, complaints)
				continue
			}
			if _, complaints, code := runContext(made, "validate", "--for", to); code != exitOK {
				t.Errorf("%s to %s: exit %d: %s\n%s", file, to, code, complaints, made)
			}
		}
	}
}

// TestContextValidatePlain: nothing but role and content is the provider's own form when it can be.
func TestContextValidatePlain(t *testing.T) {
	for _, c := range []struct {
		input, provider string
		code            int
		says            string
	}{
		{`[{"role":"user","content":"Hi"},{"role":"assistant","content":" "}]`, "anthropic", exitFail, "[1].content.text: empty"},
		{`[{"role":"user","content":"Hi"}]`, "anthropic", exitOK, "read as anthropic"},
		{`[{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"}]`, "anthropic", exitOK, "read as openai"},
		{`[{"role":"user","content":"Hi"}]`, "openai", exitOK, "read as openai"},
	} {
		if out, complaints, code := runContext(c.input, "validate", "--for", c.provider); code != c.code || !strings.Contains(out+complaints, c.says) {
			t.Errorf("%s for %s: exit %d: %s%s", c.input, c.provider, code, out, complaints)
		}
	}
}
