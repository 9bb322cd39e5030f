package chatctx

import (
	"slices"
	"strings"
)

// Truncation keeps what a model needs: instructions (system and developer messages, config updates), handoffs, summaries and
// the newest user message stay; a call and its output go together or not at all, so a call without its output stays; the
// oldest go first.

// planTruncate lists the places of the items to remove, in order, so that at most maxItems items and maxTokens estimated tokens
// stay, as far as what is protected allows. nil = no limit. Places, because the items of a saved conversation may have no ids.
func planTruncate(items Items, maxItems, maxTokens *int, itemTokens func(Item) int) ([]int, error) {
	if err := checkLimits(maxItems, maxTokens); err != nil {
		return nil, err
	}
	if maxItems == nil && maxTokens == nil {
		return nil, fail(InvalidArgument, "max_items", "give max_items, max_tokens or both")
	}
	count, tokens := len(items), 0
	for _, item := range items {
		tokens += itemTokens(item)
	}
	over := func() bool {
		return maxItems != nil && count > *maxItems || maxTokens != nil && tokens > *maxTokens
	}
	var places []int
	for _, unit := range removable(items) {
		if !over() {
			break
		}
		for _, i := range unit {
			places = append(places, i)
			count--
			tokens -= itemTokens(items[i])
		}
	}
	slices.Sort(places)
	return places, nil
}

func checkLimits(maxItems, maxTokens *int) error {
	for _, limit := range []struct {
		field string
		value *int
	}{{"max_items", maxItems}, {"max_tokens", maxTokens}} {
		if limit.value != nil && *limit.value <= 0 {
			return fail(InvalidArgument, limit.field, "%s must be at least 1; leave it out for no limit", limit.field)
		}
	}
	return nil
}

// removable groups the unprotected items, oldest first; each group is the places of items that may only go together.
func removable(items Items) [][]int {
	newestUser := -1
	pairs := map[string][]int{} // call_id → places of its call and output
	for i, item := range items {
		switch it := item.(type) {
		case *Message:
			if it.Role == RoleUser {
				newestUser = i
			}
		case *FunctionCall:
			pairs[it.CallID] = append(pairs[it.CallID], i)
		case *FunctionCallOutput:
			pairs[it.CallID] = append(pairs[it.CallID], i)
		}
	}
	var groups [][]int
	for i, item := range items {
		switch it := item.(type) {
		case *Message:
			if i != newestUser && it.Role != RoleSystem && it.Role != RoleDeveloper {
				groups = append(groups, []int{i})
			}
		case *FunctionCall:
			if pair := pairs[it.CallID]; len(pair) > 1 && pair[0] == i {
				groups = append(groups, pair)
			}
		case *FunctionCallOutput:
			if pair := pairs[it.CallID]; pair[0] == i {
				groups = append(groups, pair)
			}
		case *PipelineSwitch:
			groups = append(groups, []int{i})
		}
	}
	return groups
}

// imageTokens is what one image is taken to cost: a 1024×1024 image in four 512-pixel tiles at 170 each plus 85, as OpenAI
// publishes for its vision models.
const imageTokens = 765

// itemTokens estimates by the seeds' heuristic, two tokens a word, and counts what the seeds leave out: images and arguments.
func itemTokens(item Item) int {
	switch it := item.(type) {
	case *Message:
		return 2*wordCount(it.Content.Text()) + imageTokens*len(it.Content.Images())
	case *FunctionCall:
		return 2 * (wordCount(it.Name) + wordCount(it.Arguments))
	case *FunctionCallOutput:
		return 2 * wordCount(it.Output)
	case *AgentHandoff:
		return 2 * (wordCount(it.Reason) + wordCount(it.Summary))
	case *ConfigUpdate:
		return 2 * (wordCount(it.Instructions) + wordCount(string(it.Tools)))
	case *Summary:
		return 2 * wordCount(it.Text)
	}
	return 0
}

// wordCount counts whitespace-separated words with Python's idea of white space, which the seeds' estimate is built on: it
// has U+001C to U+001F besides what unicode.IsSpace knows.
func wordCount(s string) int {
	n := 0
	for range strings.FieldsFuncSeq(s, isPythonSpace) {
		n++
	}
	return n
}
