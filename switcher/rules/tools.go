package rules

import (
	"encoding/json"
	"slices"
	"strings"

	"sightline/switcher"
)

// The tools that the rules know how to use; they are asked for only where they are offered.
const (
	lookupOrder    = "lookup_order"
	readText       = "read_text"
	currentTime    = "current_time"
	switchPipeline = "switch_pipeline"

	askNumber = "What is your order number?"
)

// wish is what a message asks to be done.
type wish struct {
	order, again, read, time bool
	target                   string // cascade, realtime or ""
}

// wants reads wishes clause by clause, so that one message can have several.
func wants(words []string) wish {
	var w wish
	for _, clause := range clauses(words) {
		one := wantsOne(clause)
		if one == (wish{}) {
			if meant, ok := nearest(clause); ok {
				one = wantsOne(split(meant))
			}
		}
		w.order, w.again, w.read, w.time = w.order || one.order, w.again || one.again, w.read || one.read, w.time || one.time
		if one.target != "" {
			w.target = one.target
		}
	}
	return w
}

func wantsOne(words []string) (w wish) {
	w.order = has(words, "order", "orders", "parcel") && !has(words, "what was", "one was") &&
		has(words, "look up", "look", "lookup", "find", "check", "track", "status", "where is", "where s", "what about", "how is")
	if number, _ := longestNumber(words); len(number) >= 3 && has(words, "look up", "lookup", "check") {
		w.order = true // the word itself may have been misheard
	}
	w.again = w.order && has(words, "again", "once more")
	w.read = has(words, "read", "sign say", "sign saying", "sign says", "line say", "what does this say", "what does it say", "written", "the sign", "the label") && !has(words, "have you read")
	w.time = has(words, "what time", "the time", "what day", "which day")
	if has(words, "switch", "change", "go", "move", "which to", "witch to", "back to", "switched") {
		w.target = targetIn(words)
	}
	return w
}

func targetIn(words []string) string {
	switch {
	case has(words, "real time", "realtime", "speech to speech"):
		return string(switcher.Realtime)
	case slices.ContainsFunc(words, func(w string) bool { return unlike(w, "cascade") < 0.35 }):
		return string(switcher.Cascade)
	}
	return ""
}

func clauses(words []string) (all [][]string) {
	start := 0
	for i, w := range words {
		if w == "and" || w == "then" || w == "also" {
			if i > start {
				all = append(all, words[start:i])
			}
			start = i + 1
		}
	}
	if start < len(words) {
		all = append(all, words[start:])
	}
	return all
}

// useTools asks for what the message wishes, as far as it is offered.
func useTools(turn Turn, f facts, words []string) (Reply, bool) {
	w := wants(words)
	var reply Reply
	call := func(name string, arguments map[string]any) {
		b, _ := json.Marshal(arguments) // of strings and numbers
		reply.Calls = append(reply.Calls, Call{name, string(b)})
	}
	if tool, ok := offered(turn, lookupOrder); ok && w.order {
		known := f.found[f.order]
		switch {
		case f.order == "":
			reply.Text = askNumber
		case known != "" && !w.again: // a second look-up would be told nothing new; the log has it
			reply.Text = "I know this already. " + tellOutput(lookupOrder, known, false)
		default:
			call(lookupOrder, orderArguments(tool.Parameters, f.order))
		}
	}
	if _, ok := offered(turn, readText); ok && w.read {
		call(readText, map[string]any{})
	}
	if _, ok := offered(turn, currentTime); ok && w.time {
		call(currentTime, map[string]any{})
	}
	if _, ok := offered(turn, switchPipeline); ok && w.target != "" {
		call(switchPipeline, map[string]any{"target": w.target, "reason": "the caller asked for it"})
	}
	return reply, reply.Text != "" || len(reply.Calls) > 0
}

// withoutTool says why a wish is not fulfilled.
func withoutTool(words []string) string {
	switch w := wants(words); {
	case w.order:
		return "I cannot look up orders here: no tool for it is offered."
	case w.target != "":
		return "I cannot switch the pipeline here: no tool for it is offered."
	case w.read:
		return "I cannot read text here: no tool for it is offered."
	}
	return ""
}

func offered(turn Turn, name string) (switcher.Tool, bool) {
	i := slices.IndexFunc(turn.Tools, func(t switcher.Tool) bool { return t.Name == name })
	if i < 0 {
		return switcher.Tool{}, false
	}
	return turn.Tools[i], true
}

// orderArguments names the number as the tool's author does: order_number, order_id, id, as a string or an integer.
func orderArguments(schema []byte, number string) map[string]any {
	var s struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(schema, &s) // a tool without a readable schema gets the usual name
	names := make([]string, 0, len(s.Properties))
	for n := range s.Properties {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, part := range []string{"order", "number", "id"} {
		for _, n := range names {
			if !strings.Contains(n, part) {
				continue
			}
			if t := s.Properties[n].Type; t == "integer" || t == "number" {
				return map[string]any{n: json.Number(strings.TrimLeft(number, "0") + zeroIfEmpty(strings.TrimLeft(number, "0")))}
			}
			return map[string]any{n: number}
		}
	}
	return map[string]any{"order_number": number}
}

func zeroIfEmpty(s string) string {
	if s == "" {
		return "0"
	}
	return ""
}
