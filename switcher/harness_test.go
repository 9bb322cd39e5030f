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
	made  []*fakeLeg
	utter int
}

// pipeline makes a Pipeline of fake legs; each leg made takes the next of plans, and the last again.
func (c *testCall) pipeline(name string, kind Kind, plans ...plan) Pipeline {
	n := 0
	return Pipeline{
		Name: name, Kind: kind, Provider: "fake", Can: Capability{InRate: testRate, OutRate: testRate, Seeds: []SeedMode{SeedItems, SeedInstructions}},
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

// ran is how often a tool call was executed, and how many calls were.
func (c *testCall) ran(id string) (times, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tools[id], len(c.tools)
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
			for range strings.Fields(text) {
				if err := yield(testRate, make([]int16, int(wordLong*testRate/time.Second))); err != nil {
					return err
				}
			}
			return nil
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
