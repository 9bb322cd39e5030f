package window

import (
	"context"
	"fmt"

	chatctx "sightline/context"
	"sightline/context/tokens"
)

// Defaults of a ContextWindow, which are the seeds'.
const (
	DefaultKeepRecentTurns     = 3
	DefaultMaxToolCallsPerTurn = 10
)

// ContextWindow is the seeds' type of that name: how the context is bounded. The zero value has no limits. A limit of 0 or less
// is an error, since a context of nothing is never meant; nil is no limit, or the default where there is one.
type ContextWindow struct {
	// MaxTokens is how many tokens the context should have at most, as the Manager's counter counts; nil = no limit.
	MaxTokens *int
	// MaxContextItems is how many items the context should have at most; nil = no limit.
	MaxContextItems *int
	// KeepRecentTurns is how many of the newest turns are always preserved word for word, even over the limits. A turn begins
	// with a user message. 0 keeps none: everything but the structure may be summed up. nil = DefaultKeepRecentTurns.
	KeepRecentTurns *int
	// MaxToolCallsPerTurn is how many tool calls one turn may make; see TurnCalls. nil = DefaultMaxToolCallsPerTurn.
	MaxToolCallsPerTurn *int
	// SummaryLLM sums up what leaves the context; nil = the oldest is removed without a summary.
	SummaryLLM Summarizer
}

// Summarizer asks a language model for a summary. It is called by one goroutine at a time and must return when ctx ends.
type Summarizer interface {
	Summarize(ctx context.Context, r Request) (string, error)
}

// Request is what a Summarizer is to sum up.
type Request struct {
	// Instructions say what to write; they are for the system prompt.
	Instructions string
	// Conversation is the text to sum up: one line an item, words in quotes with escapes, so that nothing anybody said can look
	// like a line of its own. It is for the user message.
	Conversation string
	// Items are the same as items, for a Summarizer that has its own form for them.
	Items chatctx.Items
}

// Check says what is wrong with the limits: an *chatctx.Error of kind InvalidArgument that names the seeds' field.
func (w ContextWindow) Check() error {
	for _, l := range []struct {
		field string
		value *int
		least int
	}{
		{"max_tokens", w.MaxTokens, 1}, {"max_context_items", w.MaxContextItems, 1},
		{"keep_recent_turns", w.KeepRecentTurns, 0}, {"max_tool_calls_per_turn", w.MaxToolCallsPerTurn, 1},
	} {
		if l.value != nil && *l.value < l.least {
			return &chatctx.Error{Kind: chatctx.InvalidArgument, Field: l.field, Detail: fmt.Sprintf(
				"%s is %d: it must be at least %d; leave it out for %s", l.field, *l.value, l.least, absent(l.field))}
		}
	}
	return nil
}

func absent(field string) string {
	switch field {
	case "keep_recent_turns":
		return fmt.Sprint("the default of ", DefaultKeepRecentTurns)
	case "max_tool_calls_per_turn":
		return fmt.Sprint("the default of ", DefaultMaxToolCallsPerTurn)
	}
	return "no limit"
}

func (w ContextWindow) keep() int { return or(w.KeepRecentTurns, DefaultKeepRecentTurns) }

func or(p *int, fallback int) int {
	if p == nil {
		return fallback
	}
	return *p
}

// over reports whether a context of so many tokens and items is over the limits.
func (w ContextWindow) over(tokens, items int) bool {
	return w.MaxTokens != nil && tokens > *w.MaxTokens || w.MaxContextItems != nil && items > *w.MaxContextItems
}

// Over reports whether the items are over the limits.
func (w ContextWindow) Over(items chatctx.Items, c tokens.Counter) bool {
	return w.over(c.Items(items), len(items))
}
