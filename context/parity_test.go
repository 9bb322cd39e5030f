package chatctx

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// seedNames are the names of the published API; each has a row in docs/parity.md.
const seedNames = `ChatContext add_attributed_message add_handoff add_message copy empty estimated_tokens from_context_messages handoffs
	last_handoff messages items to_context_messages to_openai_messages truncate turn_count ChatMessage ChatContent ChatRole FunctionCall
	FunctionCallOutput AgentHandoff ImageContent from_base64 from_bytes from_data_url from_file from_frame from_url ContextWindow
	EncodeOptions ResizeOptions encode coerce_image_to_jpeg_bytes DEFAULT_REALTIME_ENCODE_OPTIONS created_at replace
	initial_messages initial_handoffs reasoning_model max_tokens max_context_items keep_recent_turns max_tool_calls_per_turn
	summary_llm format resize_options quality width height fetch_context_history message_id images tool_calls tool_call_id agent_id
	call_id arguments is_error detail`

// TestParityTable: every file and name that docs/parity.md gives is there, every row has a test, and no name of the API is missing.
func TestParityTable(t *testing.T) {
	root := filepath.Join("..")
	table, err := os.ReadFile(filepath.Join(root, "docs", "parity.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	read := func(path string) string {
		if text, known := files[path]; known {
			return text
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		if err != nil {
			t.Error(err)
		}
		files[path] = string(data)
		return string(data)
	}
	place := regexp.MustCompile("`([a-z0-9_/]+\\.go):([A-Za-z0-9_]+)`")
	words := []string{}
	rows := 0
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) != 4 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[3]) == "test" {
			continue
		}
		rows++
		words = append(words, regexp.MustCompile(`[A-Za-z_0-9]+`).FindAllString(cells[0]+cells[1], -1)...)
		tests := place.FindAllStringSubmatch(cells[3], -1)
		if len(tests) == 0 {
			t.Errorf("no test in %s", line)
		}
		for _, m := range tests {
			if !strings.HasSuffix(m[1], "_test.go") || !strings.Contains(read(m[1]), "\nfunc "+m[2]+"(t *testing.T)") {
				t.Errorf("%s has no test %s", m[1], m[2])
			}
		}
		for _, m := range place.FindAllStringSubmatch(cells[2], -1) {
			declared := regexp.MustCompile(`(?m)^(func (\([a-z]+ \*?[A-Za-z]+\) )?|type |\t)` + m[2] + `\b`)
			if strings.HasSuffix(m[1], "_test.go") || !declared.MatchString(read(m[1])) {
				t.Errorf("%s does not declare %s", m[1], m[2])
			}
		}
	}
	if rows < 50 {
		t.Errorf("%d rows were read", rows)
	}
	for name := range strings.FieldsSeq(seedNames) {
		if !slices.Contains(words, name) {
			t.Errorf("the table has no %s", name)
		}
	}
}
