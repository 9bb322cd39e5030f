package chatctx

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// toolCall completes a call and its output: both have the same call id, a new one when neither has any; the output has the tool's
// name; missing arguments are {}.
func toolCall(call FunctionCall, output FunctionCallOutput) (FunctionCall, FunctionCallOutput, error) {
	if call.CallID != "" && output.CallID != "" && call.CallID != output.CallID {
		return call, output, fail(InvalidArgument, "call_id", "the output is of the call %s, not of %s", output.CallID, call.CallID)
	}
	call.CallID = cmp.Or(call.CallID, output.CallID, "call_"+uuid.NewString())
	output.CallID = call.CallID
	call.Name = cmp.Or(call.Name, output.Name)
	output.Name = cmp.Or(output.Name, call.Name)
	call.Arguments = cmp.Or(call.Arguments, "{}")
	return call, output, nil
}

// RecordToolCall records a tool call with its output, each once for a call_id: what is there already is not recorded again, and an
// output that was missing joins its call. Without a call_id both are recorded under a new one. recorded is false when nothing was
// new.
func (c *ChatContext) RecordToolCall(call FunctionCall, output FunctionCallOutput) (recorded bool, err error) {
	call, output, err = toolCall(call, output)
	if err != nil {
		return false, err
	}
	known, now := c.callIDs(), time.Now()
	called, answered := known.called[call.CallID], known.answered[call.CallID]
	if !called {
		if err := c.push(&call, now, ""); err != nil {
			return false, err
		}
	}
	if !answered {
		if err := c.push(&output, now, ""); err != nil {
			return false, err
		}
	}
	return !called || !answered, nil
}

// RecordToolCall records a tool call with its output in the log, as ChatContext.RecordToolCall does. Sending it again, also after
// an error that left open what was stored, or from another place, adds nothing that is there.
func (l *Log) RecordToolCall(ctx context.Context, from Origin, call FunctionCall, output FunctionCallOutput) (recorded bool, err error) {
	call, output, err = toolCall(call, output)
	if err != nil {
		return false, err
	}
	opID := "tool." + sha256Hex([]byte(call.CallID))
	for _, op := range []Op{
		{ID: opID + ".call", Kind: OpAppend, Item: &call},
		{ID: opID + ".output", Kind: OpAppend, Item: &output},
	} {
		ack, err := l.Append(ctx, from, op)
		var e *Error
		switch {
		case errors.As(err, &e) && e.Field == "call_id" && (e.Kind == DuplicateID || e.Kind == Conflict): // somebody else recorded it
		case err != nil:
			return recorded, err
		case !ack.Duplicate:
			recorded = true
		}
	}
	return recorded, nil
}
