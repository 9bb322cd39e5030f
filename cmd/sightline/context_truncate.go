package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	chatctx "sightline/context"
	"sightline/context/importer"
	"sightline/context/tokens"
)

func (t contextTool) truncate(args []string) error {
	f := t.flags("truncate", "--max-items N and/or --max-tokens N [FILE|-]", `Keeps the newest of a conversation. Instructions, handoffs, summaries and the newest message of the user stay, and a call and its
output go together. With --plain it cuts as the seeds' Truncate does: the newest stay, whatever they are.`)
	maxItems := f.Int("max-items", 0, "how many items stay at most")
	maxTokens := f.Int("max-tokens", 0, "how many tokens stay at most")
	model := f.String("model", "", "count tokens for this `model`, exactly where its vocabulary is published")
	plain := f.Bool("plain", false, "cut as the seeds do: oldest first, no matter what")
	var w writeFlags
	w.add(f, "")
	operands, err := f.parse(args, 1)
	if err != nil {
		return err
	}
	limits := map[string]*int{}
	for name, value := range map[string]*int{"max-items": maxItems, "max-tokens": maxTokens} {
		if f.given(name) {
			if *value < 1 {
				return misuse("--%s must be at least 1; leave it out for no limit", name)
			}
			limits[name] = value
		}
	}
	if len(limits) == 0 {
		return misuse("give --max-items, --max-tokens or both")
	}
	count, err := counter(*model)
	if err != nil {
		return err
	}
	if *plain && *model == "" {
		count = tokens.Plain()
	}
	src, err := t.open(operands, 0)
	if err != nil {
		return err
	}
	defer src.close()
	var small skeleton
	report, err := t.read(src, f.options(), true, func(item chatctx.Item, _ importer.Place) error { small.add(item, count.Item(item)); return nil })
	if err != nil {
		return err
	}
	keep, err := small.plan(limits["max-items"], limits["max-tokens"], *plain)
	if err != nil {
		return err
	}
	if w.to == "" {
		w.to = sameFormat(report.Format)
	}
	n := -1
	quiet := *f
	_, err = t.rewriteSome(src, &quiet, w, func(chatctx.Item) bool { n++; return keep[n] })
	if err == nil && !f.quiet {
		fmt.Fprintf(t.stderr, "%s: %d of %d items stay\n", src.name, small.kept, len(keep))
	}
	return err
}

// sameFormat is the format to write what was read: the same, where there is a writer for it.
func sameFormat(f importer.Format) string {
	switch f {
	case importer.Transport, importer.OpenAI, importer.Responses, importer.Realtime, importer.Anthropic, importer.Gemini, importer.Text:
		return string(f)
	}
	return "items"
}

// rewriteSome is rewrite of those items for which keep is true.
func (t contextTool) rewriteSome(src *source, f *readFlags, w writeFlags, keep func(chatctx.Item) bool) (bool, error) {
	return t.rewrite(src, f, w, func(item chatctx.Item) chatctx.Item {
		if keep(item) {
			return item
		}
		return nil
	})
}

// skeleton is a conversation without its words: what truncation looks at is which kind an item is, what it belongs to and what
// it costs. So a conversation of any size can be cut.
type skeleton struct {
	items chatctx.Items
	costs []int
	kept  int
}

func (s *skeleton) add(item chatctx.Item, cost int) {
	id := strconv.Itoa(len(s.items))
	var small chatctx.Item
	switch it := item.(type) {
	case *chatctx.Message:
		small = &chatctx.Message{ID: id, Role: it.Role, Content: words(cost)}
	case *chatctx.FunctionCall:
		small = &chatctx.FunctionCall{ID: id, CallID: strings.Clone(it.CallID), Arguments: wordText(cost)}
	case *chatctx.FunctionCallOutput:
		small = &chatctx.FunctionCallOutput{ID: id, CallID: strings.Clone(it.CallID), Output: wordText(cost)}
	case *chatctx.AgentHandoff:
		small = &chatctx.AgentHandoff{ID: id, ToAgent: "x", Reason: wordText(cost)}
	case *chatctx.ConfigUpdate:
		small = &chatctx.ConfigUpdate{ID: id, Instructions: wordText(cost)}
	case *chatctx.Summary:
		small = &chatctx.Summary{ID: id, Text: wordText(cost)}
	default:
		small = &chatctx.PipelineSwitch{ID: id}
	}
	s.items, s.costs = append(s.items, small), append(s.costs, cost)
}

// skeletonWords is as many words as a skeleton's texts need; they are all parts of it.
var skeletonWords = strings.Repeat("x ", 1<<16)

// words is content that package chatctx estimates at 2*cost tokens: it counts two a word.
func words(cost int) chatctx.Content {
	var c chatctx.Content
	for ; cost > len(skeletonWords)/2; cost -= len(skeletonWords) / 2 {
		c = append(c, chatctx.Text{Text: skeletonWords})
	}
	return append(c, chatctx.Text{Text: wordText(cost)})
}

func wordText(cost int) string {
	if 2*cost <= len(skeletonWords) {
		return skeletonWords[:2*cost]
	}
	return strings.Repeat("x ", cost)
}

// plan says which items stay.
func (s *skeleton) plan(maxItems, maxTokens *int, plain bool) ([]bool, error) {
	keep := make([]bool, len(s.items))
	if plain {
		s.kept = s.planPlain(keep, maxItems, maxTokens)
		return keep, nil
	}
	if maxTokens != nil {
		doubled := 2 * *maxTokens
		maxTokens = &doubled
	}
	kept, err := s.items.Truncate(maxItems, maxTokens)
	if err != nil {
		return nil, err
	}
	for _, item := range kept {
		i, err := strconv.Atoi(item.ItemID())
		if err != nil {
			return nil, err
		}
		keep[i] = true
	}
	s.kept = len(kept)
	return keep, nil
}

// planPlain: the newest, first by number, then by tokens; one always stays.
func (s *skeleton) planPlain(keep []bool, maxItems, maxTokens *int) int {
	from := 0
	if maxItems != nil {
		from = max(0, len(keep)-*maxItems)
	}
	total := 0
	for _, c := range s.costs[from:] {
		total += c
	}
	for maxTokens != nil && total > *maxTokens && from < len(keep)-1 {
		total -= s.costs[from]
		from++
	}
	for i := range slices.All(keep[from:]) {
		keep[from+i] = true
	}
	return len(keep) - from
}
