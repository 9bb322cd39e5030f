package cascade

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
)

// box is a loudspeaker with a clock of 20 ms.
type box struct {
	heard chan switcher.HeardTurn

	mu    sync.Mutex
	queue []*boxTurn
	gone  map[switcher.TurnID]bool
}

type boxTurn struct {
	switcher.HeardTurn
	left  time.Duration
	ended bool
}

func (b *box) run(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.tick()
		}
	}
}

func (b *box) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return
	}
	t := b.queue[0]
	if t.left <= 0 {
		if t.ended {
			b.queue = b.queue[1:]
			t.Done = true
			b.heard <- t.HeardTurn
		}
		return
	}
	if t.Started.IsZero() {
		t.Started = time.Now()
	}
	t.left -= 20 * time.Millisecond
	t.Played += 20 * time.Millisecond
	b.heard <- t.HeardTurn
}

func (b *box) Play(_ context.Context, id switcher.TurnID, rate int, pcm []int16) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gone[id] {
		b.turn(id).left += length(len(pcm), rate)
	}
	return nil
}

func (b *box) turn(id switcher.TurnID) *boxTurn {
	i := slices.IndexFunc(b.queue, func(t *boxTurn) bool { return t.TurnID == id })
	if i < 0 {
		b.queue = append(b.queue, &boxTurn{HeardTurn: switcher.HeardTurn{TurnID: id}})
		i = len(b.queue) - 1
	}
	return b.queue[i]
}

func (b *box) EndTurn(id switcher.TurnID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gone[id] {
		b.turn(id).ended = true
	}
}

func (b *box) Stop() (out []switcher.HeardTurn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.queue {
		t.Stopped = true
		b.gone[t.TurnID] = true
		out = append(out, t.HeardTurn)
	}
	b.queue = nil
	return out
}

func (b *box) Heard() <-chan switcher.HeardTurn { return b.heard }

// TestInASession: the cascade under the real switcher, recorder and log: what the caller said, what was heard of the answer, the
// tool's call and result stand in the log once and in order, and the model is asked with all of it.
func TestInASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log, err := chatctx.OpenLog(ctx, chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "s"})
		if err != nil {
			t.Fatal(err)
		}
		b := &brain{script: script{
			both("Let me look. ", calls(Call{ID: "k1", Name: "get", Arguments: `{"a":1}`})),
			says(0, "It has been shipped."),
			says(0, "One two three four five six seven eight nine ten eleven twelve thirteen fourteen."),
			says(0, "Fine."),
		}}
		ears := &ear{texts: []string{"where is my order", "count for me", "stop"}, lag: 50 * time.Millisecond, partial: []string{"where is"}}
		cfg := Config{Recognizers: []Recognizer{ears}, Models: models(b), Voices: []Voice{&mouth{}}}
		speaker := &box{heard: make(chan switcher.HeardTurn, 10000), gone: map[switcher.TurnID]bool{}}
		sw, err := switcher.New(switcher.Config{
			Session: "s", Log: log, Speaker: speaker, First: "chain", Instructions: "Be brief.",
			Pipelines: []switcher.Pipeline{{Name: "chain", Kind: switcher.Cascade, Provider: "test", Can: cfg.Capability(), New: func() switcher.Leg { return New(cfg) }}},
			Tools:     func() []switcher.Tool { return []switcher.Tool{{Name: "get", Parameters: []byte(`{"type":"object"}`)}} },
			RunTool: func(ctx context.Context, _ switcher.ToolCallOut) (string, bool) {
				return "shipped", !sleep(ctx, time.Second)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var work sync.WaitGroup
		work.Go(func() { speaker.run(ctx) })
		work.Go(func() { _ = sw.Run(ctx) })
		time.Sleep(time.Second)

		speak := func() {
			at := time.Now()
			for i := range 50 {
				sw.Hear(rate, make([]int16, rate/50), at.Add(time.Duration(i)*20*time.Millisecond))
				if i == 10 {
					sw.CallerSpeech(true, false, at.Add(100*time.Millisecond))
				}
				time.Sleep(20 * time.Millisecond)
			}
			sw.CallerSpeech(false, true, time.Now())
		}
		speak()
		time.Sleep(10 * time.Second)
		speak() // "count for me"
		time.Sleep(time.Second)
		speak() // a barge-in: "stop"
		time.Sleep(10 * time.Second)
		cancel()
		work.Wait()

		want := "user:where is my order | call:get{\"a\":1} | out:shipped | assistant:Let me look. It has been shipped. | user:count for me | assistant:One two … | user:stop | assistant:Fine."
		var items chatctx.Items
		for _, item := range log.Chat().Items() {
			if item.Kind() != chatctx.KindPipelineSwitch && item.Kind() != chatctx.KindConfigUpdate && !instructs(item) {
				items = append(items, item)
			}
		}
		got := tail(Request{Items: items}, 20)
		if head, _, ok := strings.Cut(got, "assistant:One two"); !ok || strings.Contains(got, "fourteen") || !strings.HasSuffix(got, "| user:stop | assistant:Fine.") ||
			!strings.Contains(head, `call:get{"a":1} | out:shipped`) || strings.Count(got, "where is my order") != 1 || !strings.Contains(head, "It has been shipped.") {
			t.Errorf("the log holds %s\nwant something like %s", got, want)
		}
		last := b.requests()[3]
		if s := tail(last, 3); !strings.HasPrefix(s, "user:count for me | assistant:One two") || !strings.HasSuffix(s, " | user:stop") || strings.Contains(s, "fourteen") {
			t.Errorf("the last request ends with %s", s)
		}
		if last.Instructions != "Be brief." {
			t.Errorf("instructions %q", last.Instructions)
		}
		if s := tail(b.requests()[1], 9); s != `user:where is my order | assistant:Let me look. | call:get{"a":1} | out:shipped` {
			t.Errorf("the second request ends with %s", s)
		}
		t.Logf("log: %s", got)
	})
}
