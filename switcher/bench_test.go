package switcher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
)

// echoLeg is ready at once; whatever is typed to it, it repeats. failing, it fails instead of being ready.
func echoLeg(failing bool) Leg {
	return legFunc(func(ctx context.Context, start Start, in *Inbox, out Emit) error {
		if failing {
			return &LegError{Code: "connect", Message: "refused"}
		}
		if err := out(ctx, ReadyOut{}); err != nil {
			return nil
		}
		for n := 0; ; {
			i, err := in.Next(ctx)
			if err != nil {
				return nil
			}
			if item, ok := i.(ItemIn); ok && item.Respond {
				n++
				id := fmt.Sprint("a", n)
				_ = out(ctx, TextOut{Item: id, Delta: "re " + item.Item.(*chatctx.Message).Content.Text()})
				_ = out(ctx, TurnDoneOut{Item: id, Status: TurnCompleted})
			}
		}
	})
}

func benchCall(b *testing.B, items int) (*Switcher, *chatctx.Log, func()) {
	log, err := chatctx.OpenLog(b.Context(), chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "s"})
	if err != nil {
		b.Fatal(err)
	}
	for i := range items {
		role := []chatctx.Role{chatctx.RoleUser, chatctx.RoleAssistant}[i%2]
		if _, err := log.Append(b.Context(), chatctx.Origin{Author: "a", At: time.Now()}, chatctx.Op{ID: fmt.Sprint(i), Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: role, Content: chatctx.TextContent("It has shipped.")}}); err != nil {
			b.Fatal(err)
		}
	}
	pipe := func(name string, kind Kind, failing bool) Pipeline {
		return Pipeline{Name: name, Kind: kind, Can: Capability{Seeds: []SeedMode{SeedItems}}, New: func() Leg { return echoLeg(failing) }}
	}
	sw, err := New(Config{Session: "s", Log: log, Pipelines: []Pipeline{pipe("a", Cascade, false), pipe("b", Realtime, false), pipe("broken", Cascade, true)}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, quit := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- sw.Run(ctx) }()
	if _, err := sw.Switch(ctx, SwitchRequest{Target: "a"}); err != nil {
		b.Fatal(err)
	}
	return sw, log, func() { quit(); <-ended }
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkSwitch is a whole switch to a leg that is ready at once, in a conversation of 500 items: seed, two appends, a flush, the
// hand-over.
func BenchmarkSwitch(b *testing.B) { benchSwitch(b, 500) }

// BenchmarkSwitchLong is BenchmarkSwitch in a very long conversation.
func BenchmarkSwitchLong(b *testing.B) { benchSwitch(b, 30_000) }

func benchSwitch(b *testing.B, items int) {
	sw, _, end := benchCall(b, items)
	defer end()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		begin := time.Now()
		if _, err := sw.Switch(b.Context(), SwitchRequest{Target: []string{"b", "a"}[i%2], At: AtNow}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	report(b, took)
}

// BenchmarkAbort is from the request to the answer that the leg has failed; the old one was never held.
func BenchmarkAbort(b *testing.B) {
	sw, _, end := benchCall(b, 0)
	defer end()
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := sw.Switch(b.Context(), SwitchRequest{Target: "broken", At: AtNow}); err == nil {
			b.Fatal("it did not fail")
		}
		took = append(took, time.Since(begin))
	}
	report(b, took)
}

// BenchmarkSwitchesKeepAll switches after each typed message while the answer to it is on its way; nothing may be lost, doubled or out
// of order. With -benchtime 10000x it is the design's figure.
func BenchmarkSwitchesKeepAll(b *testing.B) {
	sw, log, end := benchCall(b, 0)
	n := 0
	for ; b.Loop(); n++ {
		text := fmt.Sprint("m", n)
		if _, err := log.Append(b.Context(), chatctx.Origin{Author: "agent", At: time.Now()}, chatctx.Op{ID: text, Kind: chatctx.OpAppend, Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}}); err != nil {
			b.Fatal(err)
		}
		if _, err := sw.Switch(b.Context(), SwitchRequest{Target: []string{"b", "a"}[n%2]}); err != nil {
			b.Fatal(err)
		}
	}
	end()
	lost, doubled, reordered, last := 0, 0, 0, -1
	seen := map[string]int{}
	for _, it := range log.Snapshot().Items {
		m, ok := it.(*chatctx.Message)
		if !ok {
			continue
		}
		text := m.Content.Text()
		if seen[text]++; seen[text] > 1 {
			doubled++
		}
		var k int
		if _, err := fmt.Sscanf(strings.TrimPrefix(text, "re "), "m%d", &k); err != nil {
			b.Fatal(err)
		}
		if m.Role == chatctx.RoleUser {
			if k != last+1 {
				reordered++
			}
			last = k
		}
	}
	for k := range n {
		if seen[fmt.Sprint("m", k)] == 0 {
			lost++
		}
	}
	b.ReportMetric(float64(lost), "lost")
	b.ReportMetric(float64(doubled), "doubled")
	b.ReportMetric(float64(reordered), "reordered")
	if lost+doubled+reordered > 0 {
		b.Fatalf("%d lost, %d doubled, %d out of order", lost, doubled, reordered)
	}
}

// BenchmarkSeed500 is our own time for seeding a leg with a conversation of 500 items.
func BenchmarkSeed500(b *testing.B) {
	chat := chatctx.New()
	for i := range 125 {
		for k, it := range []chatctx.Item{
			&chatctx.Message{ID: fmt.Sprint("u", i), Role: chatctx.RoleUser, Content: chatctx.TextContent("Could you look up the order with the number four five six for me, please?")},
			&chatctx.FunctionCall{ID: fmt.Sprint("c", i), CallID: fmt.Sprint("call", i), Name: "lookup_order", Arguments: `{"order":"456"}`},
			&chatctx.FunctionCallOutput{ID: fmt.Sprint("o", i), CallID: fmt.Sprint("call", i), Name: "lookup_order", Output: `{"status":"shipped","carrier":"post","days":2}`},
			&chatctx.Message{ID: fmt.Sprint("a", i), Role: chatctx.RoleAssistant, Content: chatctx.TextContent("It has shipped and will be with you in two days.")},
		} {
			seq := uint64(4*i + k + 1)
			if err := chat.Apply(chatctx.Entry{Seq: seq, OpID: fmt.Sprint(seq), Op: chatctx.OpAppend, Item: it, At: chatctx.At(time.Now())}); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, mode := range []SeedMode{SeedInstructions, SeedItems, SeedHybrid} {
		b.Run(string(mode), func(b *testing.B) {
			for b.Loop() {
				s := makeSeed(chat.Snapshot(), nil, Pipeline{Can: Capability{Seeds: []SeedMode{mode}}}, project.SeedOptions{Base: "You are helpful."}, DefaultSwitchTool)
				if s.seeded == 0 {
					b.Fatal("nothing was seeded")
				}
			}
		})
	}
}
