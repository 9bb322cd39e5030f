package gateway

import (
	"context"

	chatctx "sightline/context"
)

// HistoryOptions say what of the conversation FetchContextHistory gives; the zero value gives all of it.
type HistoryOptions struct {
	LastN                 int  // only the newest so many messages; 0 = all
	ExcludeFunctionCalls  bool // no calls and no outputs
	ExcludeSystemMessages bool // no system messages
	Inline                bool // images as data: URLs instead of references into the session
}

// FetchContextHistory is the conversation as it is now, in the seeds' transport format: a plain list of role, content, message_id,
// images, tool_calls and tool_call_id. Over HTTP it is GET /v1/sessions/{id}/context?format=transport. ctx bounds the reading of
// images, which only Inline needs.
func (s *Session) FetchContextHistory(ctx context.Context, o HistoryOptions) ([]chatctx.ContextMessage, error) {
	items, err := s.log.Snapshot().Items.History(chatctx.HistoryOptions{
		LastN: o.LastN, ExcludeFunctionCalls: o.ExcludeFunctionCalls, ExcludeSystemMessages: o.ExcludeSystemMessages,
	})
	if err == nil && o.Inline {
		items, err = chatctx.Inline(ctx, s.log, items)
	}
	if err != nil {
		return nil, contextProblem(err)
	}
	return chatctx.ToContextMessages(items), nil
}
