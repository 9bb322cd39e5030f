package switcher

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	chatctx "sightline/context"
	"sightline/context/recorder"
)

// Switcher runs the legs of one session. Its methods are safe for concurrent use; before Run they wait for it, after it they
// are refused with Draining.
type Switcher struct {
	cfg   Config
	box   *mailbox[event]
	ear   *ear
	out   *egress // nil: nobody listens
	rec   *recorder.Recorder
	notes *mailbox[note] // on their way to the recorder
	log   *writer
	ended chan struct{} // closed when no method is served any more

	// For the goroutine of Run.
	core  *core
	legs  map[uint64]*leg
	owed  map[*leg]int // outputs that the core holds
	tools map[string]context.CancelFunc
	work  context.Context // ends after Run's own, when all is written
	live  context.Context // Run's own
	crew  sync.WaitGroup  // legs, tools, voices

	mu         sync.Mutex
	tickets    map[uint64]*ticket
	begun      map[string]begun // by op_id, the newest maxBegun
	begunOrder []string
	ticket     uint64
	infos      []LegInfo
	rates      []int
	counters   Counters
	seeds      []seeded            // newest last
	posts      uint64              // dropped
	sound      uint64              // dropped by inboxes of legs that have ended
	counting   map[uint64]Counting // running legs that count, by epoch
	counted    LegCounters         // of those that have ended
	epoch      atomic.Uint64
	late       atomic.Uint64 // outputs of legs that are stopped
}

// ticket is somebody who waits for a switch.
type ticket struct {
	w     *Switching
	acked chan struct{}
	once  sync.Once
}

type seeded struct {
	epoch uint64
	seed  Seed
}

// keptSeeds is how many seeds can be looked at.
const keptSeeds = 8

// maxPosts bounds the events that wait for the session's goroutine; speech and playback go first, and are counted.
const maxPosts = 1 << 14

// New makes a Switcher; it does nothing before Run.
func New(cfg Config) (*Switcher, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.defaults()
	names := map[string]bool{}
	for _, p := range cfg.Pipelines {
		if err := validPipeline(p); err != nil {
			return nil, err
		}
		if names[p.Name] {
			return nil, fail(InvalidArgument, "pipelines", "two pipelines are called %q", p.Name)
		}
		names[p.Name] = true
	}
	rec, err := recorder.New(recorder.Config{Log: cfg.Log, Times: cfg.Recording, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	s := &Switcher{
		cfg: cfg, box: newMailbox[event](), ear: newEar(cfg.Times.PreRoll, cfg.Times.Replay), rec: rec, notes: newMailbox[note](), ended: make(chan struct{}),
		legs: map[uint64]*leg{}, owed: map[*leg]int{}, tools: map[string]context.CancelFunc{}, tickets: map[uint64]*ticket{}, begun: map[string]begun{}, counting: map[uint64]Counting{},
	}
	s.log = newWriter(cfg.Log, func(err error) { cfg.Logger.Warn("a switch cannot be recorded now", "error", err) })
	if cfg.Speaker != nil {
		s.out = newEgress(cfg.Speaker, cfg.Times.Egress)
	}
	p := policy{bargeIn: cfg.BargeIn, failover: cfg.Failover, times: cfg.Times, maxTools: cfg.MaxToolCalls, speaker: cfg.Speaker != nil, voice: cfg.Voice != nil}
	if cfg.SwitchTool != nil {
		p.switchTool = cfg.SwitchTool.Name
	}
	s.core = newCore(p, cfg.Logger)
	return s, nil
}

// Hear takes the caller's sound: PCM16 mono without gaps, once at each of Rates; at is the time of its first sample. It never
// blocks. pcm is kept and shared: nobody may write to it any more.
func (s *Switcher) Hear(rate int, pcm []int16, at time.Time) {
	if validRate(rate) && len(pcm) > 0 {
		s.ear.hear(rate, pcm, at)
	}
}

// Rates are the Hz at which Hear is to be given the caller's sound, ascending; none while nobody would listen.
func (s *Switcher) Rates() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rates)
}

// CallerSpeech tells what the session's detector found: the caller began to speak (started), paused (neither), or ended a turn
// (final). at is when the sound of it began or ended. It never blocks.
func (s *Switcher) CallerSpeech(started, final bool, at time.Time) {
	in := CallerSpeechIn{Started: started, Final: final && !started, At: at}
	if !started {
		s.ear.ended(at)
	}
	s.post(evSpeech{started: started, final: in.Final, at: at}) // before a leg can say anything about it
	s.ear.speech(in)
}

// post hands an event that may be dropped to the session's goroutine.
func (s *Switcher) post(e event) {
	if s.box.len() < maxPosts {
		s.box.put(e)
		return
	}
	s.mu.Lock()
	s.posts++
	s.mu.Unlock()
}

// Switch asks for a switch and waits for its outcome; see Begin.
func (s *Switcher) Switch(ctx context.Context, r SwitchRequest) (Result, error) {
	w, err := s.Begin(ctx, r)
	if err != nil {
		return Result{}, err
	}
	return w.Wait(ctx)
}

// Begin asks for a switch and returns when its started entry is in the log. Codes: InvalidArgument, NotFound (no such target),
// SwitchInProgress, Conflict (the op_id was used for something else), EngineUnavailable, Draining. A switch to what is active
// already is a no-op that leaves nothing in the log; one to what is being prepared joins it. The outcome's codes: LegFailed,
// PrepareTimeout, SwitchAborted, EngineUnavailable. When ctx ends first it is ctx's error, and the switch goes on.
func (s *Switcher) Begin(ctx context.Context, r SwitchRequest) (*Switching, error) {
	if err := r.complete(s.cfg.Times); err != nil {
		return nil, err
	}
	if w := s.begunBefore(r); w != nil {
		return w, nil
	}
	if w := s.recall(r.OpID); w != nil {
		return w, nil
	}
	t := &ticket{w: &Switching{done: make(chan struct{})}, acked: make(chan struct{})}
	s.mu.Lock()
	s.ticket++
	id := s.ticket
	s.tickets[id] = t
	s.mu.Unlock()
	s.box.put(evSwitch{SwitchRequest: r, ticket: id})
	select {
	case <-t.acked:
	case <-t.w.done:
		select {
		case <-t.acked: // refused only after it had begun
		default:
			if t.w.err != nil {
				return nil, t.w.err
			}
		}
	case <-s.ended:
		return nil, fail(Draining, "", "the session has ended")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.remember(r, t.w)
	return t.w, nil
}

// begun is a switch that this Switcher has begun.
type begun struct {
	target string
	w      *Switching
}

// maxBegun bounds the switches whose whole answer is remembered; of older ones the log knows how they came out.
const maxBegun = 256

// begunBefore finds the first answer to an op_id, with all its figures.
func (s *Switcher) begunBefore(r SwitchRequest) *Switching {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.begun[r.OpID]; ok && b.target == r.Target {
		return b.w
	}
	return nil
}

func (s *Switcher) remember(r SwitchRequest, w *Switching) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.begun[r.OpID]; ok {
		return
	}
	if s.begunOrder = append(s.begunOrder, r.OpID); len(s.begunOrder) > maxBegun {
		delete(s.begun, s.begunOrder[0])
		s.begunOrder = s.begunOrder[1:]
	}
	s.begun[r.OpID] = begun{r.Target, w}
}

// complete fills in the defaults and says what is wrong.
func (r *SwitchRequest) complete(t Times) error {
	switch r.At {
	case "":
		r.At = AtTurnEnd
	case AtTurnEnd, AtNow, AtAfterSpeech:
	default:
		return fail(InvalidArgument, "at", "at %q: allowed are turn_end, now and after_speech", string(r.At))
	}
	if r.Target == "" {
		return fail(InvalidArgument, "target", "target is required: a pipeline's name, cascade or realtime")
	}
	if r.MaxWait < 0 || r.PrepareTimeout < 0 {
		return fail(InvalidArgument, "max_wait_ms", "waits must not be negative")
	}
	if h := r.Handoff; h != nil && h.ToAgent == "" {
		return fail(InvalidArgument, "handoff.to_agent", "a handoff needs to_agent")
	}
	if r.OpID == "" {
		r.OpID = uuid.NewString()
	}
	if r.MaxWait == 0 {
		r.MaxWait = t.MaxWait
	}
	if r.PrepareTimeout == 0 {
		r.PrepareTimeout = t.Prepare
	}
	if r.Author == "" {
		r.Author = "system"
	}
	if r.Reason == "" {
		r.Reason = "switch"
	}
	r.Reason = clipReason(r.Reason)
	return nil
}

// recall finds how a switch of before a restart came out; nil when the log has none with this op_id, or it is under way.
func (s *Switcher) recall(opID string) *Switching {
	snap := s.cfg.Log.Snapshot()
	w := &Switching{Seq: snap.Seq, done: make(chan struct{})}
	for _, it := range snap.Items {
		p, ok := it.(*chatctx.PipelineSwitch)
		if !ok || p.OpID != opID {
			continue
		}
		switch p.State {
		case "committed":
			w.res, w.err = Result{Mode: s.kindOf(p.To), From: p.From, To: p.To, Epoch: p.Epoch}, nil
			defer close(w.done)
			return w
		case "aborted":
			w.err = &Error{Code: Code(p.Reason), Detail: "the switch to " + p.To + " was aborted"}
			defer close(w.done)
			return w
		}
	}
	return nil
}

func (s *Switcher) kindOf(name string) Kind {
	for _, l := range s.Legs() {
		if l.Name == name {
			return l.Kind
		}
	}
	return ""
}

// Abort ends the switch with this op_id, if it is not committed yet; ok is false when there is none.
func (s *Switcher) Abort(opID string) (ok bool) {
	answer := make(chan bool, 1)
	s.box.put(evAbort{opID, answer})
	select {
	case ok = <-answer:
		return ok
	case <-s.ended:
		return false
	}
}

// Register offers a pipeline, a remote leg above all. One of the same name is replaced: legs made of the old one are stopped and
// count as dead. The newest of a kind, or the newest that is Default, is preferred where a switch names only the kind.
func (s *Switcher) Register(p Pipeline) error {
	if err := validPipeline(p); err != nil {
		return err
	}
	s.box.put(evRegister{p})
	return nil
}

// Unregister takes a pipeline back; its legs are stopped and count as dead. An unknown name is no matter.
func (s *Switcher) Unregister(name string) { s.box.put(evUnregister{name}) }

// Interrupt stops what is being played, whoever says it.
func (s *Switcher) Interrupt() { s.box.put(evInterrupt{}) }

// SayRequest is something to say that no leg made.
type SayRequest struct {
	OpID          string // unique in the session, 1–64 of [A-Za-z0-9_-]; it becomes the id of the message. "": one is made
	Agent         string // agent_id of who says it
	Text          string // spoken by Config.Voice when there is no sound; recorded as heard
	Rate          int    // Hz of PCM
	PCM           []int16
	Interruptible bool // by the caller's speech
}

// Say speaks behind what is being played. It returns as soon as it is queued; how much was heard comes as TurnPlayed with
// Item = OpID. An op_id that was used already is not spoken again.
func (s *Switcher) Say(_ context.Context, r SayRequest) error {
	if r.OpID == "" {
		r.OpID = uuid.NewString()
	}
	switch {
	case !chatctx.ValidID(r.OpID):
		return fail(InvalidArgument, "op_id", "the op_id of a say is 1 to 64 of A-Z, a-z, 0-9, _ and -")
	case r.Text == "" && len(r.PCM) == 0:
		return fail(InvalidArgument, "text", "there is nothing to say: give text or sound")
	case len(r.PCM) > 0 && !validRate(r.Rate):
		return fail(InvalidArgument, "rate", "the rate of sound is 8000 to 48000 Hz")
	case len(r.PCM) > maxPCM:
		return fail(InvalidArgument, "audio", "at most %d samples can be said at once", maxPCM)
	}
	select {
	case <-s.ended:
		return fail(Draining, "", "the session has ended")
	default:
	}
	if _, said := s.cfg.Log.Chat().Item(r.OpID); said {
		return nil
	}
	s.box.put(evSay{r})
	return nil
}

// ToolResult answers a call that is in flight from outside of RunTool: after a restart, above all. NotFound: no such call;
// Conflict: it is answered.
func (s *Switcher) ToolResult(callID, output string, isError bool) error {
	answer := make(chan error, 1)
	s.box.put(evLateTool{evToolDone{callID, output, isError}, answer})
	select {
	case err := <-answer:
		return err
	case <-s.ended:
		return fail(Draining, "", "the session has ended")
	}
}

// Legs are the pipelines that are known, with what their legs do.
func (s *Switcher) Legs() []LegInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.infos)
}

// Active is the leg that has the floor; ok is false when none has.
func (s *Switcher) Active() (leg LegInfo, ok bool) {
	for _, l := range s.Legs() {
		if l.State == Active {
			return l, true
		}
	}
	return LegInfo{}, false
}

// Epoch is that of the last commit, 0 before the first: what others write into the log meanwhile carries it.
func (s *Switcher) Epoch() uint64 { return s.epoch.Load() }

// Seed is what the leg of an epoch was given; of the newest 8.
func (s *Switcher) Seed(epoch uint64) (seed Seed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.seeds {
		if x.epoch == epoch {
			return x.seed, true
		}
	}
	return Seed{}, false
}

// LegCounters sum what legs have counted, running ones and those that have ended.
func (s *Switcher) LegCounters() LegCounters {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.counted
	for _, c := range s.counting {
		sum.add(c.Counted())
	}
	return sum
}

// Recorded counts what became of what was said on its way into the log; refused: what somebody else had
// recorded or removed before.
func (s *Switcher) Recorded() (stats recorder.Stats, refused uint64) { return s.rec.Stats() }

// Counters are what has happened so far.
func (s *Switcher) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters
	c.Posts, c.InboxDropped, c.ReplayDropped = s.posts, s.sound, s.ear.lost()
	c.LateOutputs += s.late.Load()
	return c
}
