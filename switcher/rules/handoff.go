package rules

import (
	"strings"

	chatctx "sightline/context"
)

// takenOver is what to say when the call was just handed over.
func takenOver(items chatctx.Items) (string, bool) {
	for i := len(items) - 1; i >= 0; i-- {
		switch item := items[i].(type) {
		case *chatctx.PipelineSwitch, *chatctx.ConfigUpdate, *chatctx.Summary:
			continue
		case *chatctx.AgentHandoff:
			return greeting(item, items), true
		}
		return "", false
	}
	return "", false
}

func greeting(h *chatctx.AgentHandoff, items chatctx.Items) string {
	text := "I take over from " + h.FromAgent + "."
	if h.FromAgent == "" {
		text = "I take over."
	}
	if h.Reason != "" {
		text += " Reason: " + strings.TrimRight(short(h.Reason), ".") + "."
	}
	if f := readFacts(items); f.order != "" {
		text += " Your order number is " + spoken(f.order) + "."
	}
	return text
}
