package gateway

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/problem"
	"sightline/gateway/wire"
	"sightline/switcher"
)

// Bounds of an agent's tools.
const (
	maxTools           = 64
	maxToolDescription = 8 << 10
	maxToolParameters  = 64 << 10
	maxToolOutput      = 128 << 10
)

var toolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// BuiltinTool is a tool that the gateway runs itself.
type BuiltinTool struct {
	switcher.Tool
	// Run answers; look gives what can be seen now.
	Run func(ctx context.Context, arguments string, look func(context.Context, time.Duration) []switcher.Sight) (output string, isError bool)
}

// toolbox is the session's tools: who offers which, and the calls under way. Whichever leg asks, a call runs once.
type toolbox struct {
	session *Session
	builtin []BuiltinTool

	mu     sync.Mutex
	offers []toolOffer          // in the order of their setting; the latest of a name counts
	open   map[string]*openCall // by call id
	// clients are those of /v1/realtime that run tools, by the name that their offers have
	clients map[string]switcher.ToolRun
}

type toolOffer struct {
	agentID string
	tool    switcher.Tool
}

// openCall waits for an agent's result.
type openCall struct {
	agentID string
	result  chan wire.ToolResult // capacity 1
}

func newToolbox(s *Session, builtin []BuiltinTool) *toolbox {
	return &toolbox{session: s, builtin: builtin, open: map[string]*openCall{}}
}

// set takes the place of what the agent offered before; no tools: it offers none.
func (b *toolbox) set(agentID string, tools []wire.Tool) error {
	if len(tools) > maxTools {
		return problem.New(problem.InvalidArgument, "tools has %d entries: at most %d are allowed", len(tools), maxTools).WithField("tools")
	}
	offers := make([]toolOffer, len(tools))
	for i, t := range tools {
		if err := checkTool(t); err != nil {
			return err
		}
		offers[i] = toolOffer{agentID, switcher.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters}}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offers = append(slices.DeleteFunc(b.offers, func(o toolOffer) bool { return o.agentID == agentID }), offers...)
	return nil
}

func checkTool(t wire.Tool) error {
	if !toolName.MatchString(t.Name) {
		return problem.New(problem.InvalidArgument, "tools.name %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", t.Name).WithField("tools.name")
	}
	if len(t.Description) > maxToolDescription || len(t.Parameters) > maxToolParameters {
		return problem.New(problem.TooLarge, "tool %s: at most %d bytes of description and %d of parameters are allowed", t.Name, maxToolDescription, maxToolParameters).WithField("tools")
	}
	if len(t.Parameters) > 0 {
		var object map[string]any
		if json.Unmarshal(t.Parameters, &object) != nil {
			return problem.New(problem.InvalidArgument, "tools.parameters of %s: a JSON Schema, that is an object, is allowed", t.Name).WithField("tools.parameters")
		}
	}
	return nil
}

// list is what a model is offered: each name once.
func (b *toolbox) list() []switcher.Tool {
	b.mu.Lock()
	defer b.mu.Unlock()
	var tools []switcher.Tool
	put := func(t switcher.Tool) {
		if i := slices.IndexFunc(tools, func(have switcher.Tool) bool { return have.Name == t.Name }); i >= 0 {
			tools[i] = t
			return
		}
		tools = append(tools, t)
	}
	for _, t := range b.builtin {
		put(t.Tool)
	}
	for _, o := range b.offers {
		put(o.tool)
	}
	return tools
}

// run implements switcher.ToolRun: at the agent that offers the tool, else by the gateway itself.
func (b *toolbox) run(ctx context.Context, call switcher.ToolCallOut) (output string, isError bool) {
	b.mu.Lock()
	agentID := ""
	for _, o := range b.offers {
		if o.tool.Name == call.Name {
			agentID = o.agentID
		}
	}
	client := b.clients[agentID]
	b.mu.Unlock()
	if client != nil {
		return client(ctx, call)
	}
	if agentID != "" {
		return b.ask(ctx, agentID, call)
	}
	for _, t := range b.builtin {
		if t.Name == call.Name {
			return t.Run(ctx, call.Arguments, b.session.look)
		}
	}
	return toolError("there is no tool " + call.Name), true
}

// ask sends the call to the agent and waits for its result until ctx ends.
func (b *toolbox) ask(ctx context.Context, agentID string, call switcher.ToolCallOut) (string, bool) {
	c := &openCall{agentID: agentID, result: make(chan wire.ToolResult, 1)}
	b.mu.Lock()
	b.open[call.CallID] = c
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.open, call.CallID)
		b.mu.Unlock()
	}()
	var left time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	a := b.session.agent(agentID)
	if a == nil {
		return toolError("the agent that runs this tool has left"), true
	}
	a.tell(wire.ToolCall{Type: wire.TypeToolCall, CallID: call.CallID, Name: call.Name, Arguments: call.Arguments, DeadlineMS: max(left.Milliseconds(), 1)}, false)
	select {
	case r := <-c.result:
		return r.Output, r.IsError
	case <-ctx.Done():
		if a := b.session.agent(agentID); a != nil {
			a.tell(wire.ToolCancel{Type: wire.TypeToolCancel, CallID: call.CallID}, false)
		}
		return toolError("the tool did not answer in time"), true
	}
}

// finish takes an agent's result in.
func (b *toolbox) finish(agentID string, r wire.ToolResult) error {
	if r.CallID == "" {
		return problem.New(problem.InvalidArgument, "call_id is required: that of the tool.call").WithField("call_id")
	}
	if len(r.Output) > maxToolOutput {
		return problem.New(problem.TooLarge, "output has %d bytes: at most %d are allowed", len(r.Output), maxToolOutput).WithField("output")
	}
	b.mu.Lock()
	c := b.open[r.CallID]
	if c != nil && c.agentID == agentID {
		delete(b.open, r.CallID) // a second result finds it gone
	}
	b.mu.Unlock()
	switch {
	case c != nil && c.agentID == agentID:
		c.result <- r
		return nil
	case c == nil && b.known(r.CallID):
		return problem.New(problem.Conflict, "call %s is finished: a result counts once, and in time", r.CallID).WithField("call_id")
	}
	return problem.New(problem.NotFound, "no call %s is open at this agent", r.CallID).WithField("call_id")
}

// known: the conversation has the call, or its result was taken and is on its way into it.
func (b *toolbox) known(callID string) bool {
	for _, item := range b.session.log.Chat().Items() {
		if call, ok := item.(*chatctx.FunctionCall); ok && call.CallID == callID {
			return true
		}
	}
	return false
}

// toolError is what a model is told of a tool that did not run.
func toolError(reason string) string {
	text, _ := json.Marshal(map[string]string{"error": reason})
	return string(text)
}
