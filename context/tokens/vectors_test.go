package tokens

import (
	"encoding/json"
	"testing"

	chatctx "sightline/context"
	"sightline/context/internal/oracle"
)

func cases(t *testing.T, file string) []oracle.Case {
	t.Helper()
	c, err := oracle.Read("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPlainIsTheSeedsEstimate(t *testing.T) {
	for _, c := range cases(t, "documented_estimated_tokens.json") {
		var in struct {
			Messages json.RawMessage `json:"messages"`
		}
		var want int
		if json.Unmarshal(c.Input, &in) != nil || json.Unmarshal(c.Expected, &want) != nil {
			t.Fatalf("%s does not parse", c.Name)
		}
		items, _, err := chatctx.FromContextMessages(in.Messages)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if got := Plain().Items(items); got != want {
			t.Errorf("%s: %d tokens, want %d", c.Name, got, want)
		}
	}
}

func TestQuartersIsThePredecessorsEstimate(t *testing.T) {
	for _, c := range cases(t, "ref_estimated_tokens.json") {
		var in struct {
			Items oracle.Items `json:"items"`
		}
		var want struct {
			Total   int   `json:"estimated_tokens"`
			PerItem []int `json:"per_item"`
		}
		if err := json.Unmarshal(c.Input, &in); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if err := json.Unmarshal(c.Expected, &want); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		total := 0
		for i, item := range in.Items.Items {
			got := Quarters().Item(item)
			if s, ok := item.(*chatctx.Summary); ok { // there a message that begins with a heading
				got = Quarters().Item(&chatctx.Message{Content: chatctx.TextContent(s.Text)})
			}
			if total += got; len(want.PerItem) > 0 && got != want.PerItem[i] { // long cases have no list
				t.Errorf("%s: item %d has %d tokens, want %d", c.Name, i, got, want.PerItem[i])
			}
		}
		if total != want.Total {
			t.Errorf("%s: %d tokens, want %d", c.Name, total, want.Total)
		}
	}
}
