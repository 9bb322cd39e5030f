package gemini_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

func TestWhatWaitsToBeToldIsBounded(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.floor(false)
		for n := range 300 {
			r.put(switcher.ItemIn{Item: user(fmt.Sprint("u", n), fmt.Sprintf("line %d.", n))})
		}
		r.until("drops", func() bool { return r.noticed("words_dropped") == 300-256 })
		r.put(switcher.FloorIn{Respond: true}) // has it already: nothing
		r.speak(time.Second)
		r.done(1)
		if said := r.p.Conversation(); !strings.Contains(said[0].Parts[0].Text, "line 44.") || strings.Contains(said[0].Parts[0].Text, "line 43.") || len(r.turns()) != 1 {
			t.Errorf("told: %.100s", said[0].Parts[0].Text)
		}
	})
}

func TestTurnsWithoutWordsAreBounded(t *testing.T) {
	with(t, setup{}, func(r *rig) {
		r.floor(false)
		for range 40 {
			r.put(switcher.CallerSpeechIn{Started: true, At: time.Now()})
			time.Sleep(20 * time.Millisecond)
			r.put(switcher.CallerSpeechIn{Final: true, At: time.Now()})
		}
		r.until("given up", func() bool { return len(all[switcher.TranscriptOut](r)) == 40-16 })
		r.until("the rest", func() bool { return len(all[switcher.TranscriptOut](r)) == 40 })
	})
}

// TestAnOutputOfOthersFindsItsCall, told of just before it or standing in the conversation; alone it is no use.
func TestAnOutputOfOthersFindsItsCall(t *testing.T) {
	start := switcher.Start{Items: func() chatctx.Items { return history }}
	with(t, setup{start: start}, func(r *rig) {
		r.floor(false)
		r.put(switcher.ItemIn{Item: &chatctx.FunctionCallOutput{ID: "x", CallID: "h2", Name: "lookup_order", Output: "delayed"}})
		r.put(switcher.ItemIn{Item: &chatctx.FunctionCallOutput{ID: "y", CallID: "nobody", Name: "lost", Output: "lost"}})
		r.put(switcher.ItemIn{Item: user("q", "And?"), Respond: true})
		r.done(1)
		if said := r.p.Conversation()[0].Parts[0].Text; !strings.Contains(said, `lookup_order was called with {"id":456}`) || !strings.Contains(said, "delayed") || strings.Contains(said, "lost") {
			t.Errorf("%s", said)
		}
	})
}
