package trace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"sightline/switcher"
)

// stage gives a recorder events at whole seconds, and tells the spans that came of them.
type stageOf struct {
	t     *testing.T
	r     *Recorder
	spans *tracetest.SpanRecorder
	at    int
}

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newStage(t *testing.T) *stageOf {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = provider.Shutdown(t.Context()) })
	return &stageOf{t: t, r: New(provider.Tracer("test"), "s"), spans: spans}
}

func second(n int) time.Time { return t0.Add(time.Duration(n) * time.Second) }

// event is one second after the one before.
func (s *stageOf) event(e switcher.Event) {
	s.at++
	if e.At.IsZero() {
		e.At = second(s.at)
	}
	if e.Epoch == 0 {
		e.Epoch = 1
	}
	s.r.Event(e)
}

func (s *stageOf) caller(begins bool) {
	kind := switcher.SpeechStopped
	if begins {
		kind = switcher.SpeechStarted
	}
	s.event(switcher.Event{Kind: kind, Who: "caller", Final: !begins})
}

func (s *stageOf) says(item string) {
	s.event(switcher.Event{Kind: switcher.TranscriptSaid, Who: "agent", Item: item, Text: "words"})
}

func (s *stageOf) sounds(item string) {
	s.event(switcher.Event{Kind: switcher.SpeechStarted, Who: "agent", Item: item})
}

func (s *stageOf) over(item string, interrupted bool) {
	s.event(switcher.Event{Kind: switcher.TurnPlayed, Item: item, Final: true, Interrupted: interrupted, Played: time.Second})
	s.event(switcher.Event{Kind: switcher.SpeechStopped, Who: "agent", Item: item})
}

func (s *stageOf) stage(kind, item, code string, from, to int) {
	s.event(switcher.Event{Kind: switcher.StageEnded, Stage: &switcher.StageOut{Stage: kind, Engine: "e", Item: item, Code: code, Began: second(from), Ended: second(to)}})
}

func (s *stageOf) tool(kind switcher.EventKind) {
	s.event(switcher.Event{Kind: kind, Call: &switcher.ToolCallOut{CallID: "c", Name: "t", Arguments: "words"}, Text: "words"})
}

// told is each root with its outcome, its times and what is below it, in the order in which they ended.
func (s *stageOf) told() string {
	s.t.Helper()
	all := s.spans.Ended()
	var roots []string
	for _, root := range all {
		if root.Parent().IsValid() {
			continue
		}
		var below []string
		for _, x := range all {
			if x.Parent().SpanID() == root.SpanContext().SpanID() {
				below = append(below, fmt.Sprintf("%s %d-%d", x.Name(), x.StartTime().Sub(t0)/time.Second, x.EndTime().Sub(t0)/time.Second))
			}
		}
		slices.Sort(below)
		outcome := ""
		for _, a := range root.Attributes() {
			if a.Key == keyOutcome {
				outcome = a.Value.AsString()
			}
		}
		roots = append(roots, fmt.Sprintf("%s %s %d-%d: %s", root.Name(), outcome, root.StartTime().Sub(t0)/time.Second, root.EndTime().Sub(t0)/time.Second, strings.Join(below, ", ")))
	}
	return strings.Join(roots, "\n")
}

func (s *stageOf) want(want string) {
	s.t.Helper()
	if got := s.told(); got != want {
		s.t.Errorf("spans\n%s\nwant\n%s", got, want)
	}
}

func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		play func(s *stageOf)
		want string
	}{
		"an interrupted answer, whose voice says so late": {func(s *stageOf) {
			s.caller(true)                          // 1
			s.caller(false)                         // 2
			s.says("a1")                            // 3
			s.stage("tts", "a1", "", 3, 4)          // 4
			s.sounds("a1")                          // 5
			s.caller(true)                          // 6, another turn
			s.over("a1", true)                      // 7, 8
			s.stage("tts", "a1", "cancelled", 5, 7) // 9
			s.caller(false)                         // 10
			s.says("a2")                            // 11
			s.sounds("a2")                          // 12
			s.over("a2", false)                     // 13, 14
		}, "turn interrupted 1-7: playback 5-7, speech 1-2, tts 3-4, tts 5-7\nturn answered 6-13: playback 12-13, speech 6-10"},
		"an interrupted answer, of which a phrase begins after the interruption": {func(s *stageOf) {
			s.caller(true)                          // 1
			s.caller(false)                         // 2
			s.says("a1")                            // 3
			s.sounds("a1")                          // 4
			s.caller(true)                          // 5, another turn
			s.over("a1", true)                      // 6, 7
			s.stage("tts", "a1", "cancelled", 6, 7) // 8: a1's, though it began in the other one
			s.caller(false)                         // 9
			s.r.Close(second(10))
		}, "turn interrupted 1-6: playback 4-6, speech 1-2, tts 6-7\nturn unanswered 5-9: speech 5-9"},
		"a caller who goes on before there is an answer": {func(s *stageOf) {
			s.caller(true)                          // 1
			s.caller(false)                         // 2
			s.stage("llm", "a1", "cancelled", 2, 3) // 3: the leg took it back
			s.caller(true)                          // 4
			s.caller(false)                         // 5
			s.says("a2")                            // 6
			s.sounds("a2")                          // 7
			s.over("a2", false)                     // 8
		}, "turn answered 1-8: llm 2-3, playback 7-8, speech 1-2, speech 4-5"},
		"words before a tool and after it": {func(s *stageOf) {
			s.caller(true)                // 1
			s.caller(false)               // 2
			s.says("a1")                  // 3
			s.tool(switcher.ToolCalled)   // 4
			s.sounds("a1")                // 5
			s.over("a1", false)           // 6, 7: the tool runs
			s.tool(switcher.ToolAnswered) // 8: an answer is owed
			s.says("a2")                  // 9
			s.sounds("a2")                // 10
			s.over("a2", false)           // 11
		}, "turn answered 1-11: playback 10-11, playback 5-6, speech 1-2, tool 4-8"},
		"a model that finds the turns itself": {func(s *stageOf) {
			s.event(switcher.Event{Kind: switcher.SpeechStarted, Who: "caller", Item: "u"}) // 1
			s.says("a1")                                                                    // 2: nobody has said that the caller had ended
			s.sounds("a1")                                                                  // 3
			s.over("a1", false)                                                             // 4
		}, "turn answered 1-4: playback 3-4, speech 1-2"},
		"nobody answers": {func(s *stageOf) {
			s.caller(true)  // 1
			s.caller(false) // 2
			s.r.Close(second(9))
		}, "turn unanswered 1-2: speech 1-2"},
		"the end comes in the middle of everything": {func(s *stageOf) {
			s.caller(true)              // 1
			s.caller(false)             // 2
			s.says("a1")                // 3
			s.sounds("a1")              // 4
			s.tool(switcher.ToolCalled) // 5
			s.caller(true)              // 6
			s.r.Close(second(7))
		}, "turn interrupted 1-7: playback 4-7, speech 1-2, tool 5-7\nturn unanswered 6-7: speech 6-7"},
		"typed, with a model that only calls a tool first": {func(s *stageOf) {
			s.at = 3
			s.stage("llm", "a1", "", 1, 2) // 4
			s.tool(switcher.ToolCalled)    // 5
			s.tool(switcher.ToolAnswered)  // 6
			s.says("a1")                   // 7
			s.stage("llm", "a1", "", 6, 8) // 8
			s.event(switcher.Event{Kind: switcher.TurnPlayed, Item: "a1", Final: true})
		}, "turn answered 1-9: llm 1-2, llm 6-8, tool 5-6"},
		"long after a question that nobody answered": {func(s *stageOf) {
			s.caller(true)  // 1
			s.caller(false) // 2
			s.at = 200
			s.says("a1")        // 201
			s.sounds("a1")      // 202
			s.over("a1", false) // 203
		}, "turn unanswered 1-2: speech 1-2\nturn answered 201-203: playback 202-203"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c.play(s)
			s.want(c.want)
		})
	}
}

// TestWhatIsKeptIsBounded: a turn, and a session, may go on for ever.
func TestWhatIsKeptIsBounded(t *testing.T) {
	s := newStage(t)
	s.caller(true)
	for i := range 3 * maxParts {
		s.says(fmt.Sprint("a", i))
		s.stage("llm", "x", "", s.at, s.at)
		s.tool(switcher.ToolCalled)
		s.event(switcher.Event{Kind: switcher.PipelinePreparing, Epoch: uint64(i), To: "p"})
	}
	turn := s.r.current()
	if len(turn.pieces) != maxParts || len(turn.stages) != maxParts || len(turn.tools) != maxParts || len(s.r.legs) > maxLegs+1 {
		t.Errorf("%d pieces, %d stages, %d tools, %d legs", len(turn.pieces), len(turn.stages), len(turn.tools), len(s.r.legs))
	}
	for range 50 {
		s.caller(true)
		s.caller(false)
		s.says(fmt.Sprint("b", s.at))
	}
	if len(s.r.open) > maxOpen || len(s.r.over) > maxOver {
		t.Errorf("%d open turns, %d over", len(s.r.open), len(s.r.over))
	}
}

// TestAnyOrderOfEventsMakesSoundSpans: nothing ends before it begins, what is below a turn lies in it unless it came late, and at the end
// nothing is open.
func TestAnyOrderOfEventsMakesSoundSpans(t *testing.T) {
	kinds := []switcher.EventKind{switcher.SpeechStarted, switcher.SpeechStopped, switcher.TranscriptSaid, switcher.TurnPlayed, switcher.StageEnded,
		switcher.ToolCalled, switcher.ToolAnswered, switcher.ToolCancelled, switcher.PipelinePreparing, switcher.PipelineCommitted, switcher.PipelineAborted, switcher.Noticed}
	for seed := range uint64(100) {
		s, r := newStage(t), rand.New(rand.NewPCG(seed, 1))
		for range 60 {
			began := second(max(0, s.at-r.IntN(4)))
			e := switcher.Event{
				Kind: kinds[r.IntN(len(kinds))], Who: []string{"caller", "agent"}[r.IntN(2)], Item: fmt.Sprint("a", r.IntN(4)), Final: r.IntN(2) == 0, Interrupted: r.IntN(3) == 0,
				Epoch: uint64(1 + r.IntN(2)), Call: &switcher.ToolCallOut{CallID: fmt.Sprint("c", r.IntN(3)), Name: "t"},
				Stage: &switcher.StageOut{Stage: []string{"stt", "llm", "tts"}[r.IntN(3)], Item: fmt.Sprint("a", r.IntN(4)), Began: began, Ended: began.Add(time.Second)},
				Steps: &switcher.Steps{Asked: began, Ready: began.Add(time.Second)},
			}
			if r.IntN(10) == 0 {
				s.at += 100
			}
			s.event(e)
		}
		s.r.Close(second(s.at + 1))
		if len(s.r.open) > 0 {
			t.Fatalf("seed %d: %d turns are open", seed, len(s.r.open))
		}
		for _, x := range s.spans.Ended() {
			if x.EndTime().Before(x.StartTime()) {
				t.Errorf("seed %d: %s ends %v before it begins", seed, x.Name(), x.StartTime().Sub(x.EndTime()))
			}
			for _, e := range x.Events() {
				if e.Time.Before(x.StartTime()) || e.Time.After(x.EndTime()) {
					t.Errorf("seed %d: %s lies outside of %s", seed, e.Name, x.Name())
				}
			}
		}
		ended := s.spans.Ended()
		for i, root := range ended {
			for _, x := range ended[:i] { // what ended before its root was made with it
				if x.Parent().SpanID() == root.SpanContext().SpanID() && (x.StartTime().Before(root.StartTime()) || x.EndTime().After(root.EndTime())) {
					t.Errorf("seed %d: %s is not within its %s", seed, x.Name(), root.Name())
				}
			}
		}
		if len(s.spans.Started()) != len(s.spans.Ended()) {
			t.Errorf("seed %d: %d spans began, %d ended", seed, len(s.spans.Started()), len(s.spans.Ended()))
		}
	}
}
