package switcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	chatctx "sightline/context"
)

const (
	packet   = 20 * time.Millisecond
	testRate = 8000
	wordLong = 100 * time.Millisecond // sound of one word of a fake leg
)

// frame is 20 ms of the caller's sound: a number in its first sample says which utterance it belongs to and which frame of it
// this is; 0 is silence.
func frame(utterance, index int) []int16 {
	pcm := make([]int16, testRate/50)
	if utterance > 0 {
		pcm[0] = int16(utterance*100 + index)
	}
	return pcm
}

// happening is one line of the record of a call: a packet that was heard, or an event of the switcher.
type happening struct {
	at    time.Time
	turn  TurnID // of a packet
	event *Event
}

// record is what happened, in order.
type record struct {
	mu   sync.Mutex
	list []happening
}

func (r *record) add(h happening) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.at = time.Now()
	r.list = append(r.list, h)
}

func (r *record) all() []happening {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

func (r *record) events(kind EventKind) (out []Event) {
	for _, h := range r.all() {
		if h.event != nil && h.event.Kind == kind {
			out = append(out, *h.event)
		}
	}
	return out
}

// fakeSpeaker plays on a 20 ms clock, as the contract says.
type fakeSpeaker struct {
	rec   *record
	bound time.Duration // of what waits
	heard chan HeardTurn

	mu      sync.Mutex
	queue   []*fakeTurn
	stopped map[TurnID]bool
	room    chan struct{}
	waiting time.Duration
}

type fakeTurn struct {
	id      TurnID
	left    time.Duration
	ended   bool
	played  time.Duration
	started time.Time
	told    time.Time
}

func newFakeSpeaker(r *record) *fakeSpeaker {
	return &fakeSpeaker{rec: r, bound: 500 * time.Millisecond, heard: make(chan HeardTurn, 4096), stopped: map[TurnID]bool{}, room: make(chan struct{})}
}

func (s *fakeSpeaker) run(ctx context.Context) {
	tick := time.NewTicker(packet)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.tick()
		}
	}
}

func (s *fakeSpeaker) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 && s.queue[0].left <= 0 && s.queue[0].ended {
		t := s.queue[0]
		s.queue = s.queue[1:]
		s.heard <- HeardTurn{TurnID: t.id, Played: t.played, Started: t.started, Done: true}
	}
	if len(s.queue) == 0 || s.queue[0].left <= 0 {
		return
	}
	t := s.queue[0]
	d := min(t.left, packet)
	t.left -= d
	t.played += d
	s.waiting -= d
	s.rec.add(happening{turn: t.id})
	close(s.room)
	s.room = make(chan struct{})
	if t.started.IsZero() {
		t.started = time.Now()
	} else if time.Since(t.told) < 100*time.Millisecond {
		return
	}
	t.told = time.Now()
	select {
	case s.heard <- HeardTurn{TurnID: t.id, Played: t.played, Started: t.started}:
	default:
	}
}

func (s *fakeSpeaker) Play(ctx context.Context, turn TurnID, rate int, pcm []int16) error {
	for {
		s.mu.Lock()
		if s.stopped[turn] {
			s.mu.Unlock()
			return nil
		}
		if s.waiting < s.bound {
			break
		}
		room := s.room
		s.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer s.mu.Unlock()
	t := s.turn(turn)
	d := time.Duration(len(pcm)) * time.Second / time.Duration(rate)
	t.left += d
	s.waiting += d
	return nil
}

func (s *fakeSpeaker) turn(id TurnID) *fakeTurn {
	for _, t := range s.queue {
		if t.id == id {
			return t
		}
	}
	t := &fakeTurn{id: id}
	s.queue = append(s.queue, t)
	return t
}

func (s *fakeSpeaker) EndTurn(id TurnID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped[id] {
		s.turn(id).ended = true
	}
}

func (s *fakeSpeaker) Stop() (out []HeardTurn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.queue {
		out = append(out, HeardTurn{TurnID: t.id, Played: t.played, Started: t.started, Stopped: true})
		s.stopped[t.id] = true
	}
	s.queue, s.waiting = nil, 0
	return out
}

func (s *fakeSpeaker) Heard() <-chan HeardTurn { return s.heard }

// fakeLeg is a leg that obeys the contract. It understands the caller exactly: what it writes says which frames of which
// utterance it has heard.
type fakeLeg struct {
	name    string
	plan    plan
	start   Start
	out     Emit
	inputs  *inputs
	crew    sync.WaitGroup
	kill    context.CancelCauseFunc
	mu      sync.Mutex
	frames  map[int][]int // by utterance
	known   map[int]bool  // transcribed
	items   int
	stop    context.CancelFunc // of the answer under way
	saying  string
	results map[string]chan ToolResultIn
	before  chan struct{} // closed when the transcript before is out
	own     string        // utterance that it hears, by its own detector
	silent  int
	asked   map[string]bool
}

// plan is how a fake leg behaves.
type plan struct {
	connect    time.Duration
	fail       error         // instead of being ready
	hang       bool          // never ready
	think      time.Duration // before an answer
	late       time.Duration // between the end of speech and its transcript
	words      int           // of an answer; 0: 5
	textOnly   bool
	tool       string        // called before each answer
	repeat     int           // how often the call is repeated
	die        time.Duration // after the floor
	dieErr     error
	chatty     bool // says things when it must not: before the floor, and after its end
	transcript func(l *fakeLeg, text string) bool
	own        bool // finds the turns of the caller itself
}

// inputs is what a fake leg was given.
type inputs struct {
	mu   sync.Mutex
	list []Input
}

func (i *inputs) add(in Input) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = append(i.list, in)
}

func (i *inputs) all() []Input {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.list)
}

func inputsOf[T Input](i *inputs) (out []T) {
	for _, in := range i.all() {
		if v, ok := in.(T); ok {
			out = append(out, v)
		}
	}
	return out
}

func (l *fakeLeg) Run(ctx context.Context, start Start, in *Inbox, out Emit) error {
	parent := ctx
	ctx, kill := context.WithCancelCause(ctx)
	defer l.crew.Wait()
	defer kill(nil)
	l.mu.Lock()
	l.start, l.out, l.kill = start, out, kill
	l.frames, l.known, l.results, l.asked = map[int][]int{}, map[int]bool{}, map[string]chan ToolResultIn{}, map[string]bool{}
	l.mu.Unlock()
	if l.plan.chatty {
		_ = out(ctx, TextOut{Item: "early", Delta: "nobody asked"})
		defer func() { // and it goes on when it is stopped
			if parent.Err() == nil {
				return
			}
			_ = out(context.WithoutCancel(ctx), SoundOut{Item: "ghost", Rate: testRate, PCM: make([]int16, 800)})
			_ = out(context.WithoutCancel(ctx), TranscriptOut{Item: "ghost", Text: "ghost", Final: true})
		}()
	}
	if err := pause(ctx, l.plan.connect); err != nil {
		return nil
	}
	switch {
	case l.plan.fail != nil:
		return l.plan.fail
	case l.plan.hang:
		<-ctx.Done()
		return nil
	}
	if err := out(ctx, ReadyOut{}); err != nil {
		return nil
	}
	for {
		input, err := in.Next(ctx)
		if err != nil {
			if cause := context.Cause(ctx); parent.Err() == nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		}
		l.handle(ctx, input)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *fakeLeg) handle(ctx context.Context, in Input) {
	if _, sound := in.(SoundIn); !sound {
		l.inputs.add(in)
	}
	switch in := in.(type) {
	case SoundIn:
		if l.plan.own {
			l.detect(ctx, in)
		}
		if v := int(in.PCM[0]); v > 0 {
			l.mu.Lock()
			l.frames[v/100] = append(l.frames[v/100], v%100)
			l.mu.Unlock()
		}
	case CallerSpeechIn:
		if in.Started {
			l.cancel()
		}
		if in.Started && l.own == "" {
			l.own = l.id("u")
			if l.plan.late > 200*time.Millisecond {
				_ = l.out(ctx, CallerSpeechOut{Item: l.own, Started: true})
			}
		}
		if in.Final {
			item := l.own
			if l.own = ""; item == "" {
				item = l.id("u")
			}
			l.understand(ctx, item)
		}
	case FloorIn:
		if l.plan.die > 0 {
			l.crew.Go(func() {
				if pause(ctx, l.plan.die) == nil {
					l.kill(l.plan.dieErr)
				}
			})
		}
		if in.Respond {
			l.answer(ctx)
		}
	case ItemIn:
		if in.Respond {
			l.answer(ctx)
		}
	case InterruptedIn:
		l.mu.Lock()
		mine := l.saying == in.Item
		l.mu.Unlock()
		if mine {
			l.cancel()
		}
	case ToolResultIn:
		l.mu.Lock()
		ch := l.results[in.CallID]
		delete(l.results, in.CallID)
		l.mu.Unlock()
		if ch != nil {
			ch <- in
		} else {
			l.answer(ctx) // a call of the leg before
		}
	}
}

// detect finds the turns of the caller.
func (l *fakeLeg) detect(ctx context.Context, in SoundIn) {
	switch {
	case in.PCM[0] > 0 && l.own == "":
		l.own, l.silent = l.id("u"), 0
		l.cancel()
		_ = l.out(ctx, CallerSpeechOut{Item: l.own, Started: true, At: in.At})
	case in.PCM[0] > 0:
		l.silent = 0
	case l.own != "":
		if l.silent++; l.silent == 10 {
			item := l.own
			l.own = ""
			_ = l.out(ctx, CallerSpeechOut{Item: item, At: in.At})
			l.understand(ctx, item)
		}
	}
}

func (l *fakeLeg) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// heardFrames writes which frames of utterances were heard that are not written yet.
func (l *fakeLeg) heardFrames() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []string
	for u, f := range l.frames {
		if l.known[u] {
			continue
		}
		l.known[u] = true
		whole := true
		for i, n := range f {
			whole = whole && n == f[0]+i
		}
		if whole {
			words = append(words, fmt.Sprintf("u%d:%d-%d", u, f[0], f[len(f)-1]))
		} else {
			words = append(words, fmt.Sprintf("u%d:%v", u, f))
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func (l *fakeLeg) id(prefix string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items++
	return fmt.Sprintf("%s%d", prefix, l.items)
}

// understand writes what the caller said, and answers.
func (l *fakeLeg) understand(ctx context.Context, item string) {
	text := l.heardFrames()
	before, done := l.before, make(chan struct{})
	l.before = done
	l.crew.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		if pause(ctx, l.plan.late) != nil {
			return
		}
		if text == "" {
			_ = l.out(ctx, TranscriptOut{Item: item, Failed: true})
			return
		}
		if l.out(ctx, TranscriptOut{Item: item, Text: text, Final: true, At: time.Time{}}) != nil {
			return
		}
		if l.plan.transcript != nil && l.plan.transcript(l, text) {
			return
		}
		l.answer(ctx)
	})
}

// answer says a few words, with a tool first where the plan says so.
func (l *fakeLeg) answer(ctx context.Context) {
	l.mu.Lock()
	if l.stop != nil {
		l.stop()
	}
	ctx2, stop := context.WithCancel(ctx)
	l.stop = stop
	l.mu.Unlock()
	l.crew.Go(func() {
		defer stop()
		if pause(ctx2, l.plan.think) != nil {
			return
		}
		if l.plan.tool != "" && !l.callTool(ctx, ctx2) {
			return
		}
		l.say(ctx, ctx2)
	})
}

func (l *fakeLeg) callTool(ctx, ctx2 context.Context) bool {
	id := l.id(fmt.Sprintf("call-%d-", l.start.Epoch))
	ch := make(chan ToolResultIn, 4)
	l.mu.Lock()
	l.results[id] = ch
	l.asked[id] = true
	l.mu.Unlock()
	for range 1 + l.plan.repeat {
		if l.out(ctx, ToolCallOut{CallID: id, Name: l.plan.tool, Arguments: `{"n":"456"}`}) != nil {
			return false
		}
	}
	select {
	case <-ch:
		return ctx2.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (l *fakeLeg) say(ctx, ctx2 context.Context) {
	item := l.id("a")
	l.mu.Lock()
	l.saying = item
	l.mu.Unlock()
	words := l.plan.words
	if words == 0 {
		words = 5
	}
	status := TurnCompleted
	for i := range words {
		if ctx2.Err() != nil {
			status = TurnCancelled
			break
		}
		w := fmt.Sprintf("%s-%s-%d-w%d ", l.name, item, l.start.Epoch, i)
		if l.out(ctx, TextOut{Item: item, Delta: w}) != nil {
			return
		}
		if l.plan.textOnly {
			continue
		}
		if l.out(ctx, SoundOut{Item: item, Rate: testRate, PCM: make([]int16, int(wordLong*testRate/time.Second)), Text: w}) != nil {
			return
		}
	}
	_ = l.out(ctx, TurnDoneOut{Item: item, Status: status})
}

// call is a session with fakes around it.
type testCall struct {
	t       *testing.T
	store   chatctx.Store
	log     *chatctx.Log
	rec     *record
	speaker *fakeSpeaker
	sw      *Switcher
	cfg     Config
	ctx     context.Context
	quit    context.CancelFunc
	ended   chan error
	helpers sync.WaitGroup

	mu    sync.Mutex
	tools map[string]int // by call id: how often it ran
	legs  map[string]*inputs
	made  []*fakeLeg
	utter int
}

// pipeline makes a Pipeline of fake legs; each leg made takes the next of plans, and the last again.
func (c *testCall) pipeline(name string, kind Kind, plans ...plan) Pipeline {
	n := 0
	return Pipeline{
		Name: name, Kind: kind, Provider: "fake", Can: Capability{InRate: testRate, OutRate: testRate, Seeds: []SeedMode{SeedItems}},
		New: func() Leg {
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(plans) == 0 {
				plans = []plan{{}}
			}
			p := plans[min(n, len(plans)-1)]
			n++
			l := &fakeLeg{name: name, plan: p, inputs: &inputs{}}
			c.made = append(c.made, l)
			return l
		},
	}
}

// leg gives the newest leg of a pipeline.
func (c *testCall) leg(name string) *fakeLeg {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range slices.Backward(c.made) {
		if l.name == name {
			return l
		}
	}
	c.t.Fatalf("no leg of %s was made", name)
	return nil
}

// newCall makes a call; edit changes its configuration.
func newCall(t *testing.T, store chatctx.Store, edit func(c *testCall, cfg *Config)) *testCall {
	t.Helper()
	c := &testCall{t: t, store: store, rec: &record{}, tools: map[string]int{}}
	c.speaker = newFakeSpeaker(c.rec)
	c.cfg = Config{
		Session: "s", Speaker: c.speaker, Failover: Failover{MinBackoff: 50 * time.Millisecond},
		Tools: func() []Tool { return []Tool{{Name: "lookup", Parameters: []byte(`{}`)}} },
		RunTool: func(ctx context.Context, call ToolCallOut) (string, bool) {
			c.mu.Lock()
			c.tools[call.CallID]++
			c.mu.Unlock()
			if pause(ctx, 300*time.Millisecond) != nil {
				return "cut off", true
			}
			return "result of " + call.CallID, false
		},
		Voice: func(ctx context.Context, text string, yield func(int, []int16) error) error {
			return yield(testRate, make([]int16, testRate/2))
		},
		Observe: func(e Event) { c.rec.add(happening{event: &e}) },
	}
	if edit != nil {
		edit(c, &c.cfg)
	}
	c.begin()
	return c
}

func (c *testCall) begin() {
	c.t.Helper()
	log, err := chatctx.OpenLog(context.Background(), chatctx.LogConfig{Store: c.store, Session: "s"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.cfg.Log = log
	sw, err := New(c.cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.sw, c.log = sw, log
	c.mu.Unlock()
	c.ctx, c.quit = context.WithCancel(context.Background())
	c.ended = make(chan error, 1)
	ctx := c.ctx
	go func() { c.ended <- sw.Run(ctx) }()
	c.helpers.Go(func() { c.speaker.run(ctx) })
}

// end stops the session and waits for it.
func (c *testCall) end() {
	c.t.Helper()
	c.quit()
	if err := <-c.ended; !errors.Is(err, context.Canceled) {
		c.t.Errorf("Run returned %v", err)
	}
	c.helpers.Wait()
}

// now is the session of now.
func (c *testCall) now() *Switcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sw
}

// hear sends frames of an utterance, or silence, in their time.
func (c *testCall) hear(utterance, frames int) {
	for i := range frames {
		at := time.Now()
		time.Sleep(packet)
		sw := c.now()
		for _, r := range sw.Rates() {
			sw.Hear(r, frame(utterance, i), at)
		}
	}
}

// onset is how late the detector hears a beginning, hangover how late an end.
const (
	onset    = 60 * time.Millisecond
	hangover = 200 * time.Millisecond
)

// speak is the caller saying something of so many frames (at most 99); it returns its number after the hangover.
func (c *testCall) speak(frames int) int {
	c.mu.Lock()
	c.utter++
	u := c.utter
	c.mu.Unlock()
	start, in := time.Now(), c.now()
	for i := range frames {
		at := time.Now()
		time.Sleep(packet)
		sw := c.now()
		if sw != in { // it was restarted: its detector begins anew
			in, start = sw, at
		}
		for _, r := range sw.Rates() {
			sw.Hear(r, frame(u, i), at)
		}
		if time.Since(start) == onset {
			sw.CallerSpeech(true, false, start)
		}
	}
	end, heard := time.Now(), time.Since(start) >= onset
	c.hear(0, int(hangover/packet))
	if sw := c.now(); sw == in && heard {
		sw.CallerSpeech(false, true, end)
	}
	return u
}

// items are the conversation, each as one line.
func (c *testCall) lines() (out []string) {
	for _, it := range c.log.Snapshot().Items {
		out = append(out, line(it))
	}
	return out
}

func line(it chatctx.Item) string {
	switch it := it.(type) {
	case *chatctx.Message:
		s := fmt.Sprintf("%s: %s", it.Role, strings.TrimSpace(it.Content.Text()))
		if it.Interrupted {
			s += " (interrupted)"
		}
		return s
	case *chatctx.FunctionCall:
		return fmt.Sprintf("call %s %s", it.CallID, it.Name)
	case *chatctx.FunctionCallOutput:
		return fmt.Sprintf("output %s %s", it.CallID, it.Output)
	case *chatctx.PipelineSwitch:
		return fmt.Sprintf("%s %s>%s %d", it.State, it.From, it.To, it.Epoch)
	case *chatctx.AgentHandoff:
		return fmt.Sprintf("handoff %s>%s", it.FromAgent, it.ToAgent)
	case *chatctx.ConfigUpdate:
		return "config " + it.Instructions
	}
	return string(it.Kind())
}

func (c *testCall) want(lines ...string) {
	c.t.Helper()
	if got := c.lines(); !slices.Equal(got, lines) {
		c.t.Errorf("the conversation is\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
	}
}
