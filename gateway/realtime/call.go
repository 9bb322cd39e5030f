package realtime

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"log/slog"
	"strings"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/sound"
	"sightline/gateway/sound/vad"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// Config of a Call. Speech is required.
type Config struct {
	ID           string // of the session, as the client is told; "": one is made
	Model        string // the profile that the client asked for
	Instructions string // of the session, until the client has its own
	Turns        sound.TurnPolicy
	Speech       *vad.Model
	// Watch makes it the sideband of a session whose caller's sound goes another way: Event tells it what happens there, Tap is of
	// no use.
	Watch bool
	Log   *slog.Logger // nil: discard
}

// Session is what a call is a call of.
type Session struct {
	Log *chatctx.Log
	// Switcher gives the session's switcher, and begins it where it has not yet.
	Switcher func() (*switcher.Switcher, error)
	// Append puts an operation into the log as the client's.
	Append func(ctx context.Context, op chatctx.Op) (chatctx.Ack, error)
	// SetTools is told which tools the client runs; nil: the Call's Tools are asked.
	SetTools func(tools []switcher.Tool)
	// Sound is given the caller's sound besides the switcher, at each of Rates, which are asked for each time; nil: nobody else
	// listens.
	Sound func(rate int, pcm []int16, at time.Time)
	Rates func() []int // nil: the switcher's
}

// Event tells a call that watches what has happened in its session. It does not wait.
func (k *Call) Event(e switcher.Event) {
	if k.cfg.Watch {
		k.do(context.Background(), func(c *core) { c.happened(e) })
	}
}

// Call is one client's session on one socket.
type Call struct {
	cfg     Config
	session Session // set by Serve
	log     *slog.Logger
	send    *sendQueue
	alarm   chan struct{} // capacity 1: the core's deadline is another
	hasLeg  chan struct{} // closed when a leg has the floor for the first time
	once    sync.Once

	// For the goroutine that reads the socket.
	mic mic

	mu      sync.Mutex
	core    *core
	leg     *tap            // that has the floor
	clients map[string]bool // names of tools that the client has, or had
	tools   map[string]chan string
	times   map[int64]time.Time // of the caller's speech: as the session was told → of the sound
}

// New makes a Call; Serve runs it.
func New(cfg Config) *Call {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	k := &Call{
		cfg: cfg, log: cfg.Log, send: newSendQueue(), alarm: make(chan struct{}, 1), hasLeg: make(chan struct{}),
		clients: map[string]bool{}, tools: map[string]chan string{}, times: map[int64]time.Time{},
	}
	if cfg.ID == "" {
		cfg.ID = newID("sess")
	}
	k.core = newCore(coreConfig{model: cfg.Model, instructions: cfg.Instructions, id: cfg.ID, policy: cfg.Turns, watch: cfg.Watch, newID: newID, opPrefix: newID("rt") + ":", conversation: newID("conv")})
	return k
}

// ID is the call's own, unlike any other's.
func (k *Call) ID() string { return k.core.cfg.conversation }

var ids = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID is random: kind_ and 24 letters.
func newID(kind string) string {
	var b [15]byte
	_, _ = rand.Read(b[:]) // never fails
	return kind + "_" + ids.EncodeToString(b[:])
}

// do has the core decide something, and does what follows. Only the goroutine that reads the socket may cause effects that wait:
// appends, and sound.
func (k *Call) do(ctx context.Context, decide func(c *core)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.core.now = time.Now()
	decide(k.core)
	for effects := k.core.take(); len(effects) > 0; effects = k.core.take() {
		for _, e := range effects {
			k.perform(ctx, e)
		}
		k.core.now = time.Now()
	}
	poke(k.alarm)
}

// perform does one thing; k.mu is held, and let go meanwhile where it may take long.
func (k *Call) perform(ctx context.Context, e effect) {
	switch e := e.(type) {
	case eSend:
		k.write(e.ServerEvent)
	case eLeg:
		if k.leg != nil {
			k.leg.give(e.Input)
		}
	case eSession:
		if k.leg != nil {
			k.leg.said.put(e.Output)
		}
	case eRestart:
		k.toolsChanged()
		if k.leg != nil {
			k.leg.begin()
		}
	case eResult:
		k.tool(e.callID) <- e.output // capacity 1, once for a call
	case eAppend:
		k.mu.Unlock()
		ack, err := k.session.Append(ctx, e.op)
		if err != nil {
			k.log.Warn("an item was not taken into the conversation", "error", err)
		}
		k.mu.Lock()
		if e.then != nil {
			e.then(ack, err)
		}
	case eHear:
		k.mu.Unlock()
		k.hear(ctx, e.pcm, e.whole)
		k.mu.Lock()
	case eListen:
		k.mic.listener = sound.NewListener(k.cfg.Speech, e.TurnPolicy)
	case eEnd:
		k.mu.Unlock()
		k.endTurn(ctx)
		k.mu.Lock()
	case eAsk:
		k.steer((*switcher.Switcher).Respond)
	case eStop:
		k.steer((*switcher.Switcher).Interrupt)
	}
}

// steer tells the session's switcher something, if there is one or one can be had; k.mu is held, and let go meanwhile.
func (k *Call) steer(tell func(*switcher.Switcher)) {
	k.mu.Unlock()
	defer k.mu.Lock()
	s, err := k.session.Switcher()
	if err != nil {
		k.log.Warn("a sideband has nobody to steer", "error", err)
		return
	}
	tell(s)
}

func (k *Call) write(e dialect.ServerEvent) {
	data, err := dialect.Encode(e)
	if err != nil { // ours have JSON
		k.log.Error("an event cannot be written", "type", e.EventType(), "error", err)
		return
	}
	k.send.put(data)
}

// toolsChanged notes which tools are the client's; k.mu is held.
func (k *Call) toolsChanged() {
	tools := legTools(k.core.session.Tools)
	for _, t := range tools {
		k.clients[t.Name] = true
	}
	if k.session.SetTools != nil {
		k.session.SetTools(tools)
	}
}

func (k *Call) isClients(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.clients[name]
}

// Tools are those that the client runs.
func (k *Call) Tools() []switcher.Tool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return legTools(k.core.session.Tools)
}

// tool is where the output of a call comes; k.mu is held.
func (k *Call) tool(callID string) chan string {
	c := k.tools[callID]
	if c == nil {
		c = make(chan string, 1)
		k.tools[callID] = c
	}
	return c
}

// RunTool is the switcher.ToolRun of the client's tools: the client has been told of the call already.
func (k *Call) RunTool(ctx context.Context, call switcher.ToolCallOut) (output string, isError bool) {
	k.mu.Lock()
	c := k.tool(call.CallID)
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.tools, call.CallID)
		k.mu.Unlock()
	}()
	select {
	case out := <-c:
		return out, false
	case <-ctx.Done():
	}
	answered := false
	k.do(context.WithoutCancel(ctx), func(c *core) { output, answered = c.late(call.CallID) })
	if answered {
		return output, false
	}
	return `{"error":"the client did not answer in time"}`, true
}

// Tell sends the client an event of our own: a JSON object with a type, to which sightline. is put.
func (k *Call) Tell(message any) {
	text := string(raw(message))
	rest, ok := strings.CutPrefix(text, `{"type":"`)
	if !ok {
		return
	}
	k.do(context.Background(), func(c *core) {
		if !c.begun {
			return
		}
		c.send(dialect.Unknown{Raw: []byte(`{"event_id":"` + c.eventID() + `","type":"sightline.` + rest)})
	})
}

// The leg's side.

func (k *Call) legSays(t *tap, o switcher.Output) {
	k.mu.Lock()
	current := k.leg == t
	k.mu.Unlock()
	if !current { // before the floor it is ready, or has something to note
		t.said.put(o)
		return
	}
	k.do(context.Background(), func(c *core) { c.legSays(o) })
}

// floorTaken: a leg has the floor.
func (k *Call) floorTaken(t *tap) {
	k.do(context.Background(), func(c *core) {
		if k.leg != nil && k.leg != t {
			c.legGone()
		}
		k.leg = t
	})
	k.once.Do(func() { close(k.hasLeg) })
}

// legEnded: a leg is no more.
func (k *Call) legEnded(t *tap) {
	k.do(context.Background(), func(c *core) {
		if k.leg == t {
			c.legGone()
			k.leg = nil
		}
	})
}

// typedByOthers: the leg is to answer an item without the client's asking.
func (k *Call) typedByOthers(item chatctx.Item) (yes bool) {
	k.do(context.Background(), func(c *core) {
		if yes = !c.chat.own(item.ItemID()); yes {
			c.answers.auto = true
		}
	})
	return yes
}

func (k *Call) toolEnded(callID string) {
	k.do(context.Background(), func(c *core) { c.toolEnded(callID) })
}

// room waits while the client or the session is behind.
func (k *Call) room(ctx context.Context, said *outputs) error {
	for {
		var more chan struct{}
		switch {
		case said.len() > maxOutputs:
			more = said.more
		case k.send.full():
			more = k.send.more
		default:
			return nil
		}
		select {
		case <-more:
			poke(more) // for others who wait
			if said.len() > maxOutputs || k.send.full() {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(10 * time.Millisecond):
				}
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
