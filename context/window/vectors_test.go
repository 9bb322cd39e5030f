package window

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	chatctx "sightline/context"
	"sightline/context/internal/oracle"
	"sightline/context/tokens"
)

type vector struct {
	Op     string       `json:"op"`
	Items  oracle.Items `json:"items"`
	Keep   *int         `json:"keep_recent_turns"`
	Window struct {
		MaxTokens *int   `json:"max_tokens"`
		MaxItems  *int   `json:"max_context_items"`
		Keep      *int   `json:"keep_recent_turns"`
		Dedicated string `json:"summary_llm"`
	} `json:"window"`
	Reply *string         `json:"llm_reply"`
	LLM   json.RawMessage `json:"llm"`

	differs bool // the reference is wrong here
	want    struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
		Calls     []json.RawMessage `json:"llm_calls"`
		Unchanged bool              `json:"unchanged"`
		Tokens    *int              `json:"estimated_tokens"`
		NCalls    *int              `json:"n_llm_calls"`
	}
}

// rightInstead holds what is right where the reference is wrong (bugs listed with the vectors), and where the seeds speak: the
// newest turns are «always» preserved.
var rightInstead = map[string][]string{
	"summarize_summary_keep1":                         {"m55", "<generated>", "m59"}, // the earlier summary is folded in
	"summarize_long_keep0":                            {"m63", "<generated>"},        // keep 0: everything but the structure
	"summarize_tool_pair_keep0":                       {"m21", "<generated>"},
	"manage_long_max_tokens=100_keep_recent_turns=30": nil, // 30 turns kept are all there are
}

func TestOracleVectors(t *testing.T) {
	cases, err := oracle.Read("testdata/ref_summarize_and_window.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var v vector
			if err := json.Unmarshal(c.Input, &v); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(c.Expected, &v.want); err != nil {
				t.Fatal(err)
			}
			before := ids(v.Items.Items)
			want := before
			if !v.want.Unchanged {
				want = nil
				for _, item := range v.want.Items {
					want = append(want, item.ID)
				}
			}
			if right, listed := rightInstead[c.Name]; listed {
				v.differs = true
				if want = right; right == nil {
					want = before
				}
			}
			llm := &fake{reply: "S."}
			if v.want.Unchanged {
				llm.reply = ""
			}
			got := runVector(t, v, llm)
			if strings.Join(ids(got), " ") != strings.Join(want, " ") {
				t.Errorf("items %v, want %v", ids(got), want)
			}
			if n := v.want.NCalls; n != nil && len(llm.requests) != *n {
				t.Errorf("%d calls of the model, want %d", len(llm.requests), *n)
			}
			checkPrompt(t, v, got, llm)
		})
	}
}

// runVector puts the items into a log and lets a Manager work on it; «summarize» is an order and has no limits of its own.
func runVector(t *testing.T, v vector, llm *fake) chatctx.Items {
	w := ContextWindow{MaxTokens: v.Window.MaxTokens, MaxContextItems: v.Window.MaxItems, KeepRecentTurns: v.Window.Keep, SummaryLLM: llm}
	if v.Op == "summarize" {
		w.KeepRecentTurns, w.MaxContextItems = v.Keep, new(1)
	}
	if string(v.LLM) == "null" && v.Window.Dedicated == "" {
		w.SummaryLLM = nil
	}
	var items chatctx.Items
	synctest.Test(t, func(t *testing.T) {
		log := openLog(t, chatctx.NewMemStore())
		for _, item := range v.Items.Items {
			appendItem(t, log, item)
		}
		m, err := New(Config{Log: log, Window: w, Counter: tokens.Quarters()})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, m)
		synctest.Wait()
		stop()
		items = log.Snapshot().Items
		if n := v.want.Tokens; n != nil && !v.differs {
			sum := 0
			for _, item := range items {
				sum += tokens.Quarters().Item(item)
				if s, ok := item.(*chatctx.Summary); ok { // the reference puts a heading into the text
					sum += tokens.Quarters().Text("[Conversation Summary]\n"+s.Text) - tokens.Quarters().Text(s.Text)
				}
			}
			if sum != *n {
				t.Errorf("%d tokens are left, want %d", sum, *n)
			}
		}
	})
	return items
}

// checkPrompt checks that the model is shown all that left, whole and in order.
func checkPrompt(t *testing.T, v vector, kept chatctx.Items, llm *fake) {
	if len(llm.requests) == 0 {
		return
	}
	there := map[string]bool{}
	for _, item := range kept {
		there[item.ItemID()] = true
	}
	rest := llm.requests[0].Conversation
	if v.want.Unchanged {
		return
	}
	for _, item := range v.Items.Items {
		if there[item.ItemID()] {
			continue
		}
		text := ""
		switch it := item.(type) {
		case *chatctx.Message:
			text = quote(it.Content.Text())
		case *chatctx.FunctionCall:
			text = quote(it.Arguments)
		case *chatctx.FunctionCallOutput:
			text = quote(it.Output) // 400 characters of it: the reference cuts at 200
		case *chatctx.Summary:
			text = quote(it.Text)
		}
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Fatalf("the prompt lacks %q, or has it in another place:\n%s", text, llm.requests[0].Conversation)
		}
		rest = after
	}
}

// ids lists the items' ids, with the reference's placeholder for a summary that was made.
func ids(items chatctx.Items) []string {
	out := []string{}
	for _, item := range items {
		id := item.ItemID()
		if strings.HasPrefix(id, "summary-") {
			id = "<generated>"
		}
		out = append(out, id)
	}
	return slices.Clip(out)
}
