package legtest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

// patience bounds every wait for something that must come; the suite's own tests shorten it.
var patience = 20 * time.Second

// session stands in for the one that runs a leg: it keeps the conversation, and holds every output against the contract.
type session struct {
	t       *testing.T
	subject Subject
	in      *switcher.Inbox
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan error
	started bool

	mu          sync.Mutex
	changed     chan struct{} // closed and made anew with each output
	items       chatctx.Items
	typed       int
	ready       bool
	hasFloor    bool
	over        bool // Run has returned
	holding     bool
	blocked     bool
	order       []*turn
	byID        map[string]*turn
	calls       []switcher.ToolCallOut
	finals      map[string]bool
	callerFinal int
}

type turn struct {
	id, text, status string
	sound            int // samples
	done             bool
}

func begin(t *testing.T, s Subject) *session {
	ctx, cancel := context.WithCancel(context.Background())
	return &session{t: t, subject: s, in: switcher.NewInbox(max(s.Can.InRate, 1), 0), ctx: ctx, cancel: cancel, ended: make(chan error, 1),
		changed: make(chan struct{}), byID: map[string]*turn{}, finals: map[string]bool{}}
}

// start runs the leg; history: there has been a conversation.
func (s *session) start(history bool) {
	s.started = true
	if history {
		s.items = append(chatctx.Items{
			&chatctx.Message{ID: "h1", Role: chatctx.RoleUser, Content: chatctx.TextContent("My order is 456.")},
			&chatctx.FunctionCall{ID: "h2", CallID: "h2", Name: "lookup_order", Arguments: `{"id":456}`},
			&chatctx.FunctionCallOutput{ID: "h3", CallID: "h2", Name: "lookup_order", Output: "shipped"},
			&chatctx.Message{ID: "h4", Role: chatctx.RoleAssistant, Content: chatctx.TextContent("It has been shipped.")},
		}, s.items...)
	}
	seed := switcher.Seed{Mode: switcher.SeedInstructions, Instructions: "You are on a call. Be brief."}
	if len(s.subject.Can.Seeds) > 0 {
		seed.Mode = s.subject.Can.Seeds[0]
	}
	if seed.Mode != switcher.SeedInstructions {
		seed.Items = append(seed.Items, s.items...)
	}
	start := switcher.Start{Session: "legtest", Epoch: 1, Reason: "first", Seed: seed, InRate: s.subject.Can.InRate, OutRate: s.subject.Can.OutRate,
		Items: s.log, Look: func(context.Context, time.Duration) []switcher.Sight { return nil },
		Image: func(context.Context, string) (string, []byte, error) { return "", nil, fmt.Errorf("no image") }}
	if s.subject.Tool != "" {
		start.Tools = []switcher.Tool{{Name: s.subject.Tool, Description: "Answers.", Parameters: []byte(`{"type":"object","properties":{}}`)}}
	}
	go func() {
		err := s.subject.Leg.Run(s.ctx, start, s.in, s.emit)
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
		s.ended <- err
	}()
}

func (s *session) stop() {
	s.t.Helper()
	s.cancel()
	if !s.started {
		return
	}
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("Run returned %v when its context ended", err)
		}
	case <-time.After(patience):
		s.t.Fatal("Run does not return when its context ends")
	}
}

func (s *session) log() chatctx.Items {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(chatctx.Items(nil), s.items...)
}

func (s *session) record(item chatctx.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, item)
}

func (s *session) put(in switcher.Input) {
	s.t.Helper()
	if err := s.in.Put(in); err != nil {
		s.t.Fatal(err)
	}
}

func (s *session) floor() {
	s.t.Helper()
	s.start(false)
	s.wait("ready", func() bool { return s.ready })
	s.give(switcher.FloorIn{})
}

func (s *session) give(floor switcher.FloorIn) {
	s.t.Helper()
	s.mu.Lock()
	s.hasFloor = true
	s.mu.Unlock()
	s.put(floor)
}

func (s *session) types(text string, respond bool) {
	s.t.Helper()
	s.mu.Lock()
	s.typed++
	m := &chatctx.Message{ID: fmt.Sprintf("typed-%d", s.typed), Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}
	s.items = append(s.items, m)
	seq := uint64(len(s.items))
	s.mu.Unlock()
	s.put(switcher.ItemIn{Seq: seq, Item: m, Respond: respond})
}

// speak gives the subject's speech in pieces of 20 ms, with a little silence around it, faster than it was spoken.
func (s *session) speak() {
	s.t.Helper()
	rate := s.subject.Can.InRate
	at := time.Now().Add(-10 * time.Second)
	send := func(pcm []int16) {
		for len(pcm) > 0 {
			n := min(len(pcm), rate/50)
			s.put(switcher.SoundIn{PCM: pcm[:n], At: at})
			at = at.Add(time.Duration(n) * time.Second / time.Duration(rate))
			pcm = pcm[n:]
		}
	}
	send(make([]int16, rate/2))
	began := at
	send(s.subject.Speech[:min(len(s.subject.Speech), rate/5)])
	if !s.subject.Can.OwnTurns {
		s.put(switcher.CallerSpeechIn{Started: true, At: began})
	}
	send(s.subject.Speech[min(len(s.subject.Speech), rate/5):])
	ended := at
	send(make([]int16, rate))
	if !s.subject.Can.OwnTurns {
		s.put(switcher.CallerSpeechIn{Final: true, At: ended})
	}
}

func (s *session) block() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = true
}

// wait returns when ok does, which is asked under the lock with every output.
func (s *session) wait(what string, ok func() bool) {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		s.mu.Lock()
		done, changed := ok(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case err := <-s.ended:
			s.t.Fatalf("the leg died waiting for %s: %v", what, err)
		case <-timeout:
			s.t.Fatalf("no %s within %s", what, patience)
		}
	}
}

// settle waits until nothing has come for d.
func (s *session) settle(d time.Duration) {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(d):
			return
		}
	}
}

func (s *session) turns() []turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]turn, len(s.order))
	for i, t := range s.order {
		out[i] = *t
	}
	return out
}

// turnDone waits for the nth turn to end.
func (s *session) turnDone(n int) turn {
	s.t.Helper()
	s.wait(fmt.Sprintf("end of turn %d", n), func() bool { return len(s.order) >= n && s.order[n-1].done })
	return s.turns()[n-1]
}

func (s *session) allText() string {
	var b strings.Builder
	for _, t := range s.order {
		b.WriteString(t.text + "\n")
	}
	return b.String()
}

func (s *session) openTurns() int {
	n := 0
	for _, t := range s.order {
		if !t.done {
			n++
		}
	}
	return n
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
