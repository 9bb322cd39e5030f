package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	chatctx "sightline/context"
	"sightline/context/window"
	"sightline/gateway/problem"
	"sightline/gateway/sound"
	"sightline/gateway/wire"
	"sightline/switcher"
)

// PipelineConfig is what sessions talk with.
type PipelineConfig struct {
	// Builtin are the pipelines of every session, in order of preference.
	Builtin []switcher.Pipeline
	// First is the kind or name of the one that has the floor at the beginning; "": none until somebody asks.
	First        string
	Instructions string
	Tools        []BuiltinTool // that the gateway runs itself
	SwitchTool   bool          // offer the switch to models
	// Voice makes sound of text for say and for apologies; nil: such texts are written only.
	Voice   func(ctx context.Context, text string, yield func(rate int, pcm []int16) error) error
	BargeIn switcher.BargeIn
	Turns   sound.TurnPolicy // when the caller's speech begins and ends
	// Window bounds the conversation of a session that talks; zero: it grows. Its summaries are made beside the call.
	Window   window.ContextWindow
	Failover switcher.Failover
	Times    switcher.Times
}

func (c PipelineConfig) prepareTimeout() time.Duration {
	if c.Times.Prepare > 0 {
		return c.Times.Prepare
	}
	return 10 * time.Second
}

// voice is the talking side of a session: sound both ways and the switcher between its pipelines. A session has one from the
// moment that somebody's sound, a pipeline or a tool is needed.
type voice struct {
	session  *Session
	switcher *switcher.Switcher
	egress   *sound.Egress
	listener *listener
	window   *window.Manager // nil: the conversation grows
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the switcher has returned
	began    time.Time
	speaking atomic.Bool   // the caller has a turn
	level    atomic.Uint64 // bits of a float64: the microphone's loudness of late, dBFS
	times    voiceTimes    // the switcher's goroutine only

	mu    sync.Mutex
	mic   *sound.Ingress    // of the present microphone
	heard sound.Counts      // of those before
	rates []int             // that the switcher wants
	legs  map[string]string // pipeline → agent_id, of remote ones
}

// speak gives the session's voice, which begins now if there was none.
func (s *Session) speak() (*voice, error) {
	v, publisher, mic, err := s.beginVoice()
	if err != nil || publisher == nil && mic == nil {
		return v, err
	}
	if publisher != nil {
		publisher.giveVoice(v)
	}
	if mic != nil {
		mic.serve(v)
	}
	return v, nil
}

// beginVoice makes the voice where there is none; publisher and microphone are given then, to be told of it.
func (s *Session) beginVoice() (*voice, *publication, *microphone, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voice != nil {
		return s.voice, nil, nil, nil
	}
	if s.ended {
		return nil, nil, nil, endedProblem(s.id)
	}
	v, err := s.newVoice()
	if err != nil {
		return nil, nil, nil, problem.New(problem.Internal, "the session's voice could not be made").WithCause(err)
	}
	s.voice, s.used = v, true
	s.shared.metrics.sound.begin(v)
	ctx, cancel := context.WithCancel(context.Background()) // ended by the session's end, while its agents are still there
	v.cancel = cancel
	s.tasks.Add(3)
	go v.task(func() error {
		defer close(v.ended)
		return v.switcher.Run(ctx)
	})
	go v.task(func() error { return v.egress.Run(ctx) })
	go v.task(func() error { return v.listener.run(ctx) })
	return v, s.publisher, s.microphone, nil
}

// wakeVoice begins the voice of a session in which somebody typed, where a built-in pipeline is there to answer.
func (s *Session) wakeVoice(op chatctx.Op) {
	m, ok := op.Item.(*chatctx.Message)
	if op.Kind != chatctx.OpAppend || !ok || m.Role != chatctx.RoleUser || s.talksWith().First == "" {
		return
	}
	if _, err := s.speak(); err != nil {
		s.logger.Error("a message cannot be answered", keyError, err)
	}
}

// currentVoice is the voice, nil while nobody needed one.
func (s *Session) currentVoice() *voice {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.voice
}

func (v *voice) task(run func() error) {
	defer v.session.tasks.Done()
	if err := run(); err != nil && !errors.Is(err, context.Canceled) && !chatctx.IsClosed(err) {
		v.session.logger.Error("a part of the voice ended", keyError, err)
	}
}

// rejoinTime is how long, after a restart, agents have to come back for what they were: the leg that had the floor, and the
// tools whose calls were open.
const rejoinTime = 10 * time.Second

func (s *Session) newVoice() (*voice, error) {
	v := &voice{session: s, began: time.Now(), ended: make(chan struct{}), legs: map[string]string{}}
	egress, err := sound.NewEgress(sound.EgressConfig{})
	if err != nil {
		return nil, err
	}
	v.egress, v.listener = egress, newListener(egress)
	c := s.talksWithLocked()
	cfg := switcher.Config{
		Session: s.id, Log: s.log, Speaker: v.listener, Pipelines: c.Builtin, First: c.First, Instructions: c.Instructions,
		Tools: s.tools.list, RunTool: s.tools.run, Voice: c.Voice, Look: s.look, Image: s.storedImage, Sized: Downscale(s.cfg.Stills),
		BargeIn: c.BargeIn, Failover: c.Failover, Times: c.Times,
		Observe: v.observe, RatesChanged: v.ratesChanged, Logger: s.logger,
	}
	if cfg.Times.Rejoin == 0 {
		cfg.Times.Rejoin = rejoinTime
	}
	if c.Window.MaxTokens != nil || c.Window.MaxContextItems != nil {
		if cfg.Window, err = window.New(window.Config{Log: s.log, Window: c.Window, Logger: s.logger}); err != nil {
			return nil, err
		}
		v.window = cfg.Window
	}
	if c.SwitchTool {
		cfg.SwitchTool = &switcher.SwitchTool{}
	}
	v.switcher, err = switcher.New(cfg)
	return v, err
}

// register offers an agent's pipeline under its name.
func (v *voice) register(a *agent, p switcher.Pipeline) error {
	v.mu.Lock()
	owner, taken := v.legs[p.Name]
	mine := 0
	for _, id := range v.legs {
		if id == a.id {
			mine++
		}
	}
	builtin := slices.ContainsFunc(v.session.talksWith().Builtin, func(b switcher.Pipeline) bool { return b.Name == p.Name })
	switch {
	case builtin || taken && owner != a.id:
		v.mu.Unlock()
		return problem.New(problem.DuplicateID, "there is a leg %s already: choose another name", p.Name).WithField("name")
	case !taken && mine >= maxLegs:
		v.mu.Unlock()
		return problem.New(problem.RateLimited, "%d legs are registered by this agent, the limit", mine)
	}
	v.legs[p.Name] = a.id
	v.mu.Unlock()
	if err := v.switcher.Register(p); err != nil {
		return switchProblem(err)
	}
	return nil
}

// unregister takes an agent's pipelines back, unless a newer socket of the same agent holds them.
func (v *voice) unregister(a *agent) {
	if v.session.agent(a.id) != nil {
		return
	}
	v.mu.Lock()
	var gone []string
	for name, id := range v.legs {
		if id == a.id {
			gone = append(gone, name)
			delete(v.legs, name)
		}
	}
	v.mu.Unlock()
	for _, name := range gone {
		v.switcher.Unregister(name)
	}
}

// say queues words or sound.
func (v *voice) say(ctx context.Context, r switcher.SayRequest) error {
	if err := v.switcher.Say(ctx, r); err != nil {
		return switchProblem(err)
	}
	return nil
}

// observe is told by the switcher what happens; it must not wait.
func (v *voice) observe(e switcher.Event) {
	v.session.shared.metrics.voice.event(e, &v.times)
	v.session.spans.Event(e)
	m, everybody, missable := eventMessage(e)
	v.session.tellDialects(e, m)
	if m == nil {
		return
	}
	message := textMessage(m, missable)
	speech := e.Who == "caller" && (e.Kind == switcher.SpeechStarted || e.Kind == switcher.SpeechStopped)
	for _, a := range v.session.allAgents() {
		if everybody || a.wantsTranscripts() && !(speech && a.isLeg()) { // a leg is told as one
			a.tellRaw(message)
		}
	}
}

// eventMessage is an event on the wire: nil where agents are not told; everybody: without a wish.
func eventMessage(e switcher.Event) (message any, everybody, missable bool) {
	switch e.Kind {
	case switcher.PipelinePreparing:
		return wire.PipelinePreparing{Type: wire.TypePipelinePreparing, OpID: e.OpID, Epoch: e.Epoch, From: e.From, To: e.To, Reason: e.Reason}, true, false
	case switcher.PipelineCommitted:
		m := wire.PipelineCommitted{Type: wire.TypePipelineCommitted, OpID: e.OpID, Reason: e.Reason, SwitchResult: wire.SwitchResult{Epoch: e.Epoch, From: e.From, To: e.To}}
		if e.Result != nil {
			m.SwitchResult = switchResult(*e.Result)
		}
		return m, true, false
	case switcher.PipelineAborted:
		m := wire.PipelineAborted{Type: wire.TypePipelineAborted, OpID: e.OpID, Epoch: e.Epoch, From: e.From, To: e.To, Reason: e.Reason, Joined: e.Joined, Code: string(switcher.SwitchAborted)}
		if e.Err != nil {
			m.Code, m.Message = string(e.Err.Code), switchDetail(e.Err)
		}
		return m, true, false
	case switcher.SpeechStarted, switcher.SpeechStopped:
		return speechMessage(e.Kind == switcher.SpeechStarted, e.Final, e.Who, e.At), false, false
	case switcher.TranscriptSaid:
		return wire.Transcript{Type: wire.TypeTranscript, Who: e.Who, At: chatctx.At(e.At), ItemID: e.Item, Text: e.Text, Final: e.Final, Epoch: e.Epoch}, false, !e.Final
	case switcher.TurnPlayed:
		if !e.Final { // progress
			return nil, false, false
		}
		return wire.Played{Type: wire.TypePlayed, ItemID: e.Item, PlayedMS: e.Played.Milliseconds(), TextHeard: e.Text, Interrupted: e.Interrupted, Epoch: e.Epoch}, false, false
	}
	return nil, false, false
}

func switchResult(r switcher.Result) wire.SwitchResult {
	return wire.SwitchResult{
		Mode: string(r.Mode), From: r.From, To: r.To, Epoch: r.Epoch, SeededItems: r.SeededItems, DroppedItems: r.DroppedItems,
		SwitchMS: r.SwitchMS, PrepareMS: r.PrepareMS, CommitMS: r.CommitMS, Noop: r.Noop, Joined: r.Joined,
	}
}

// lostAfter is how long a turn waits for a caller who has lost his connection; he may be back.
const lostAfter = 10 * time.Second

// lose is told when the publisher has gone. What is being said waits for another for a while, and counts as interrupted then.
func (v *voice) lose() {
	v.listener.setWriter(nil)
	time.AfterFunc(lostAfter, func() {
		if !v.listener.hearing() {
			v.switcher.Interrupt()
		}
	})
}
