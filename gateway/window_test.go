package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sightline/context/window"
)

// shortened stands for a language model that sums up.
type shortened struct{}

func (shortened) Summarize(_ context.Context, r window.Request) (string, error) {
	return fmt.Sprintf("summed up %d items", len(r.Items)), nil
}

func TestAConversationThatTalksIsBounded(t *testing.T) {
	most, turns := 6, 1
	g := startGateway(t, func(c *Config) {
		c.Pipelines.Window = window.ContextWindow{MaxContextItems: &most, KeepRecentTurns: &turns, SummaryLLM: shortened{}}
	})
	g.createSession("demo")
	leg := g.leg("demo", "runtime", `{"context":true}`)
	leg.register("mine", "cascade")
	leg.send(`{"type":"pipeline.switch","op_id":"s","target":"mine"}`)
	epoch, _, _ := leg.commits()
	for i := range 6 {
		leg.sendf(`{"type":"context.append","op_id":"u%d","item":{"type":"message","id":"u%d","role":"user","content":"question %d"}}`, i, i, i)
		leg.find("leg.respond", nil)
		leg.sendf(`{"type":"leg.text","epoch":%d,"item_id":"a%d","delta":"answer %d"}`, epoch, i, i)
		leg.sendf(`{"type":"leg.turn_done","epoch":%d,"item_id":"a%d","status":"completed"}`, epoch, i)
		leg.find("context.entry", said("assistant", fmt.Sprint("answer ", i)))
	}
	entry := leg.find("context.entry", entryOf("summary"))
	if entry["removed"] == nil {
		t.Errorf("the summary does not take the place of anything: %v", entry)
	}
	_, body, _ := g.do("GET", "/v1/sessions/demo/context?format=text", "")
	if !strings.Contains(string(body), "summed up") || !strings.Contains(string(body), "question 5") || strings.Contains(string(body), "question 0") {
		t.Errorf("conversation %s", body)
	}
}
