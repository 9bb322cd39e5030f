package cascade

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

// toolbox is what the leg knows of its calls, and of those of legs before it whose results come to it. The session runs them.
type toolbox struct {
	mu    sync.Mutex
	calls map[string]*toolCall
	order []string // of results that no request has shown yet
}

type toolCall struct {
	id, name string
	made     *chatctx.FunctionCall // nil: of a leg before this one
	done     chan struct{}         // closed when it has its output
	output   string
	isError  bool
	waiting  int  // turns that wait for it
	dropped  bool // taken back, or too late: nobody is told
}

// maxCallsKept bounds the toolbox; what goes first has its place in the log.
const maxCallsKept = 256

func newToolbox() *toolbox { return &toolbox{calls: map[string]*toolCall{}} }

func (b *toolbox) open(made *chatctx.FunctionCall) *toolCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.calls) >= maxCallsKept {
		for key, c := range b.calls {
			if c.finished() {
				delete(b.calls, key)
			}
		}
	}
	c := &toolCall{id: made.CallID, name: made.Name, made: made, done: make(chan struct{}), waiting: 1}
	b.calls[c.id] = c
	return c
}

func (c *toolCall) finished() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// settle takes a result in. owed: nobody waits for it, so a turn of its own is to tell it.
func (b *toolbox) settle(res switcher.ToolResultIn) (owed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.calls[res.CallID]
	if c == nil { // of a leg before this one
		c = &toolCall{id: res.CallID, name: res.Name, done: make(chan struct{})}
		b.calls[res.CallID] = c
	}
	if c.dropped || c.finished() {
		return false
	}
	c.output, c.isError = res.Output, res.IsError
	close(c.done)
	b.order = append(b.order, c.id)
	return c.waiting == 0
}

// news are the results that no request has shown yet.
func (b *toolbox) news() []*toolCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*toolCall
	for _, id := range b.order {
		if c := b.calls[id]; c != nil && !c.dropped {
			out = append(out, c)
		}
	}
	b.order = nil
	return out
}

func (c *toolCall) item() *chatctx.FunctionCallOutput {
	return &chatctx.FunctionCallOutput{ID: outputID(c.id), CallID: c.id, Name: c.name, Output: c.output, IsError: c.isError}
}

func outputID(callID string) string { return callID + "-out" }

func (b *toolbox) owed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.order {
		if c := b.calls[id]; c != nil && !c.dropped {
			return true
		}
	}
	return false
}

// leave ends the waiting of a turn for its calls. drop: they are taken back.
func (b *toolbox) leave(calls []*toolCall, drop bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range calls {
		c.waiting--
		c.dropped = c.dropped || drop
	}
}

// join waits for a call that is there already, if it can still be told.
func (b *toolbox) join(id string) *toolCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.calls[id]
	if c != nil {
		c.waiting++
	}
	return c
}

// turnCalls bounds the calls of one turn of the caller and remembers them by what they ask for.
type turnCalls struct {
	made int
	same map[string]string // name and arguments → call id
}

// key is the same for calls that ask for the same.
func key(name, arguments string) string {
	var v any
	d := json.NewDecoder(bytes.NewReader([]byte(arguments)))
	d.UseNumber()
	if d.Decode(&v) == nil {
		if b, err := json.Marshal(v); err == nil { // the keys of objects in order
			arguments = string(b)
		}
	}
	return name + "\x00" + arguments
}

// errorOutput is what the model reads of a call that gave nothing.
func errorOutput(why string) string {
	b, err := json.Marshal(map[string]string{"error": why})
	if err != nil { // a string always has JSON
		return why
	}
	return string(b)
}

// pendingCall is a call of the model on its way: a real one, or one that another stands for.
type pendingCall struct {
	id, name string
	real     *toolCall // whose output it gets; nil: refused
	refused  string
	copied   bool // the output of real is written once more, under id
}

// callTools has the calls of one answer run, at the same time, and waits until all have an output.
func (r *run) callTools(ctx context.Context, t *turn, calls []Call) error {
	if t.ask.calls == nil {
		t.ask.calls = &turnCalls{same: map[string]string{}}
	}
	pending := make([]pendingCall, 0, len(calls))
	for _, c := range calls {
		p, err := r.callTool(ctx, t, c)
		if err != nil {
			return err
		}
		pending = append(pending, p)
	}
	r.parted(ctx, t)
	var waited []*toolCall
	for _, p := range pending {
		if p.real != nil {
			waited = append(waited, p.real)
		}
	}
	err := r.await(ctx, t, waited)
	for _, p := range pending {
		switch {
		case p.refused != "":
			t.ask.items = append(t.ask.items, &chatctx.FunctionCallOutput{ID: outputID(p.id), CallID: p.id, Name: p.name, Output: errorOutput(p.refused), IsError: true})
		case p.copied && p.real.finished():
			t.ask.items = append(t.ask.items, &chatctx.FunctionCallOutput{ID: outputID(p.id), CallID: p.id, Name: p.name, Output: p.real.output, IsError: p.real.isError})
		}
	}
	return err
}

// callTool asks the session for one call, unless the turn has made it already or has made too many.
func (r *run) callTool(ctx context.Context, t *turn, c Call) (pendingCall, error) {
	p := pendingCall{id: r.callID(c.ID), name: c.Name}
	made := &chatctx.FunctionCall{ID: p.id, CallID: p.id, Name: c.Name, Arguments: c.Arguments}
	t.ask.items = append(t.ask.items, made)
	k := key(c.Name, c.Arguments)
	if id, ok := t.ask.calls.same[k]; ok {
		if p.real = r.tools.join(id); p.real != nil {
			p.copied = true
			r.notice("tool_repeated", "%s was called with the same arguments in this turn", c.Name)
			return p, nil
		}
	}
	if t.ask.calls.made >= r.cfg.MaxCalls {
		p.refused = fmt.Sprintf("not run: at most %d tool calls are made in one turn", r.cfg.MaxCalls)
		r.notice("tool_limit", "%s was not called", c.Name)
		return p, nil
	}
	t.ask.calls.made++
	t.ask.calls.same[k] = p.id
	p.real = r.tools.open(made)
	call := switcher.ToolCallOut{CallID: p.id, Name: c.Name, Arguments: c.Arguments}
	if t.part.opened.Load() {
		call.Item = t.part.id
	}
	return p, t.emit(ctx, call)
}

// callID is the model's id of a call where it can be one here, else one of ours: servers without ids, and with the same for
// every answer, are known.
func (r *run) callID(wanted string) string {
	if chatctx.ValidID(wanted) && len(wanted)+len("-out") <= 64 && !r.used[wanted] && r.tools.get(wanted) == nil {
		if !logged(r.start.Items(), wanted) {
			if len(r.used) > 16*maxCallsKept { // the log has the older ones
				clear(r.used)
			}
			r.used[wanted] = true
			return wanted
		}
	}
	return r.newID("t")
}

// logged: the log holds a call of that id.
func logged(log chatctx.Items, callID string) bool {
	return slices.ContainsFunc(log, func(item chatctx.Item) bool { return isCall(item, callID) })
}

func isCall(item chatctx.Item, callID string) bool {
	c, ok := item.(*chatctx.FunctionCall)
	return ok && c.CallID == callID
}

func (b *toolbox) get(id string) *toolCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[id]
}

// await waits until the calls have their outputs. One that takes too long gets an error for an output and is taken back; when
// the turn is stopped, all are, except when it only begins anew: then they run on for the turn that takes its place.
func (r *run) await(ctx context.Context, t *turn, calls []*toolCall) error {
	deadline := time.NewTimer(r.cfg.Timeouts.Tool)
	defer deadline.Stop()
	late := false
	for _, c := range calls {
		select {
		case <-c.done:
		case <-deadline.C:
			late = true
		case <-ctx.Done():
			drop := !t.withdrawn()
			r.tools.leave(calls, drop)
			if drop {
				r.takeBack(calls)
			}
			return context.Cause(ctx)
		}
		if late {
			break
		}
	}
	r.tools.leave(calls, false)
	if late {
		r.giveUp(calls)
	}
	return nil
}

// giveUp writes the outputs of calls that took too long.
func (r *run) giveUp(calls []*toolCall) {
	for _, c := range calls {
		if c.finished() {
			continue
		}
		r.notice("tool_timeout", "%s did not answer within %s", c.name, r.cfg.Timeouts.Tool)
		r.takeBack([]*toolCall{c})
		r.tools.settle(switcher.ToolResultIn{CallID: c.id, Name: c.name, IsError: true,
			Output: errorOutput("no answer within " + r.cfg.Timeouts.Tool.String() + "; it may still be running")})
	}
}

// takeBack tells the session that nobody waits for these.
func (r *run) takeBack(calls []*toolCall) {
	var open []string
	for _, c := range calls {
		if !c.finished() {
			open = append(open, c.id)
		}
	}
	if len(open) > 0 {
		_ = r.out(r.ctx, switcher.ToolCancelOut{CallIDs: open})
	}
}
