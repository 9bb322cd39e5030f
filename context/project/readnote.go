package project

import (
	"encoding/json"
	"regexp"

	chatctx "sightline/context"
)

// Notes as handoffNote and summaryNote write them.
var (
	handoffWritten = regexp.MustCompile(`^⟦handoff: (?:you, the agent ("(?:[^"\\]|\\.)*"), have taken over this conversation(?: from the agent ("(?:[^"\\]|\\.)*"))?` +
		`|the conversation went(?: from the agent ("(?:[^"\\]|\\.)*"))? to the agent ("(?:[^"\\]|\\.)*"))\.` +
		`(?: Reason: ("(?:[^"\\]|\\.)*")\.)?(?: What happened before: ("(?:[^"\\]|\\.)*")\.)?⟧$`)
	summaryWritten = regexp.MustCompile(`^⟦summary of the conversation before this point: ("(?:[^"\\]|\\.)*")⟧$`)
)

// ReadNote gives the handoff or the summary that a note of these projections tells, with the given item id. Where the reader of a projection
// is Sightline again, behind a provider's protocol, the note becomes the item that it was: as a system message it would take the place of
// the instructions. Names over 80 bytes come back cut, as they were told; what a summary covers is not told.
func ReadNote(id, text string) (chatctx.Item, bool) {
	if m := handoffWritten.FindStringSubmatch(text); m != nil {
		return &chatctx.AgentHandoff{ID: id, FromAgent: unquote(m[2] + m[3]), ToAgent: unquote(m[1] + m[4]), Reason: unquote(m[5]), Summary: unquote(m[6])}, true
	}
	if m := summaryWritten.FindStringSubmatch(text); m != nil {
		return &chatctx.Summary{ID: id, Text: unquote(m[1])}, true
	}
	return nil, false
}

// unquote reads what quote wrote: a JSON string.
func unquote(s string) string {
	var text string
	_ = json.Unmarshal([]byte(s), &text) // "" where nothing was told
	return text
}
