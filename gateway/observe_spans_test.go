package gateway

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"sightline/gateway/trace"
	"sightline/switcher"
)

// spanTree looks at spans by their place.
type spanTree struct {
	t   *testing.T
	all []*otlp.Span
}

func (s spanTree) below(parent *otlp.Span, name string) (found []*otlp.Span) {
	for _, x := range s.all {
		if x.Name == name && (parent == nil || string(x.ParentSpanId) == string(parent.SpanId) && string(x.TraceId) == string(parent.TraceId)) {
			found = append(found, x)
		}
	}
	slices.SortFunc(found, func(a, b *otlp.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return found
}

// only is the one span of a name below another; it lies within it.
func (s spanTree) only(parent *otlp.Span, name string) *otlp.Span {
	s.t.Helper()
	found := s.below(parent, name)
	if len(found) != 1 {
		s.t.Fatalf("%d spans %q below %q, want 1", len(found), name, parent.GetName())
	}
	return found[0]
}

func attr(x *otlp.Span, key string) string {
	for _, a := range x.Attributes {
		if a.Key == key {
			if n := a.Value.GetIntValue(); n != 0 {
				return strconv.FormatInt(n, 10)
			}
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func eventAt(t *testing.T, x *otlp.Span, name string) uint64 {
	t.Helper()
	for _, e := range x.Events {
		if e.Name == name {
			if e.TimeUnixNano < x.StartTimeUnixNano || e.TimeUnixNano > x.EndTimeUnixNano {
				t.Errorf("%s of %s lies outside of it", name, x.Name)
			}
			return e.TimeUnixNano
		}
	}
	t.Errorf("%s has no event %s", x.Name, name)
	return 0
}

func checkSpans(t *testing.T, c *spanReceiver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bad) > 0 {
		t.Errorf("not OTLP: %v", c.bad)
	}
	s := spanTree{t, c.spans}
	for _, x := range c.spans {
		if x.EndTimeUnixNano < x.StartTimeUnixNano {
			t.Errorf("%s ends before it begins", x.Name)
		}
		if attr(x, "sightline.session") != "demo" {
			t.Errorf("%s has no session: %v", x.Name, x.Attributes)
		}
	}
	checkTurn(t, s)
	checkSwitches(t, s)
}

func checkTurn(t *testing.T, s spanTree) {
	turns := s.below(nil, "turn")
	if len(turns) != 2 {
		t.Fatalf("%d turns, want a spoken one and a typed one", len(turns))
	}
	turn, typed := turns[0], turns[1]
	if attr(typed, "sightline.trigger") != "other" || attr(typed, "sightline.leg") != "second" || len(s.below(typed, "speech")) != 0 || len(s.below(typed, "tts")) != 1 {
		t.Errorf("the typed turn: %v", typed)
	}
	if hex.EncodeToString(turn.TraceId) != parentTrace || hex.EncodeToString(turn.ParentSpanId) != parentSpan {
		t.Errorf("the turn is not below the agent's span: %x %x", turn.TraceId, turn.ParentSpanId)
	}
	if attr(turn, "sightline.leg") != "first" || attr(turn, "sightline.outcome") != "answered" || attr(turn, "sightline.trigger") != "speech" {
		t.Errorf("the turn: %v", turn.Attributes)
	}
	stt, llm := s.below(turn, "stt"), s.below(turn, "llm")
	if len(stt) != 2 || len(llm) != 2 {
		t.Fatalf("%d tries to hear and %d to think, want 2 of each", len(stt), len(llm))
	}
	if stt[0].Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || attr(stt[0], "error.type") != "overloaded" || stt[1].Status.GetCode() == otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("the recogniser that fails once: %v, %v", stt[0], stt[1])
	}
	speech, tool, tts, playback := s.only(turn, "speech"), s.only(turn, "tool"), s.only(turn, "tts"), s.only(turn, "playback")
	if attr(tool, "gen_ai.tool.name") != "look_up" || attr(llm[1], "gen_ai.usage.input_tokens") != "7" || attr(tts, "sightline.engine") != "speaking" {
		t.Errorf("attributes: %v, %v, %v", tool.Attributes, llm[1].Attributes, tts.Attributes)
	}
	order := []struct {
		what string
		at   uint64
	}{
		{"the caller speaks", speech.StartTimeUnixNano}, {"is listened to", stt[0].StartTimeUnixNano}, {"all of it was heard", eventAt(t, stt[1], "end_of_sound")},
		{"is understood", stt[1].EndTimeUnixNano}, {"the model is asked", llm[0].StartTimeUnixNano}, {"wants a tool", eventAt(t, llm[0], "first_token")},
		{"which runs", tool.StartTimeUnixNano}, {"and answers", tool.EndTimeUnixNano}, {"the model is asked again", llm[1].StartTimeUnixNano},
		{"answers", eventAt(t, llm[1], "first_token")}, {"is spoken", tts.StartTimeUnixNano}, {"has sound", eventAt(t, tts, "first_sound")},
		{"which is sent", eventAt(t, turn, "first_audio_sent")}, {"to its end", playback.EndTimeUnixNano}, {"which ends the turn", turn.EndTimeUnixNano},
	}
	for i := 1; i < len(order); i++ {
		if order[i].at < order[i-1].at {
			t.Errorf("%q is %v before %q", order[i].what, time.Duration(order[i-1].at-order[i].at), order[i-1].what)
		}
	}
	for _, x := range s.all {
		if string(x.ParentSpanId) == string(turn.SpanId) && (x.StartTimeUnixNano < turn.StartTimeUnixNano || x.EndTimeUnixNano > turn.EndTimeUnixNano) {
			t.Errorf("%s is not within its turn", x.Name)
		}
	}
}

func checkSwitches(t *testing.T, s spanTree) {
	switches := s.below(nil, "switch")
	var told []string
	for _, x := range switches {
		told = append(told, strings.Join([]string{attr(x, "sightline.from"), attr(x, "sightline.to"), attr(x, "sightline.reason"), attr(x, "sightline.outcome"), attr(x, "error.type")}, " "))
	}
	if got, want := strings.Join(told, "; "), " first first committed ; first second switch committed ; second broken switch aborted leg_failed"; got != want {
		t.Fatalf("switches %q, want %q", got, want)
	}
	for _, x := range switches[:2] {
		prepare, commit, release := s.only(x, "prepare"), s.only(x, "commit"), s.only(x, "release")
		seed, wait := s.only(prepare, "seed"), s.only(x, "wait")
		at := []uint64{x.StartTimeUnixNano, prepare.StartTimeUnixNano, seed.EndTimeUnixNano, prepare.EndTimeUnixNano, wait.StartTimeUnixNano, wait.EndTimeUnixNano,
			commit.StartTimeUnixNano, eventAt(t, commit, "flushed"), commit.EndTimeUnixNano, release.StartTimeUnixNano, release.EndTimeUnixNano, x.EndTimeUnixNano}
		if !slices.IsSorted(at) {
			t.Errorf("the steps of the switch to %s are not in order: %v", attr(x, "sightline.to"), at)
		}
	}
	aborted := switches[2]
	if s.only(aborted, "prepare"); len(s.below(aborted, "commit")) != 0 || aborted.Status.GetCode() != otlp.Status_STATUS_CODE_ERROR {
		t.Errorf("an aborted switch: %v", aborted)
	}
	if hex.EncodeToString(aborted.TraceId) != parentTrace {
		t.Errorf("a switch is not below the agent's span: %x", aborted.TraceId)
	}
}

// TestNoTracerCostsNothing: what a session does per event without traces makes no garbage.
func TestNoTracerCostsNothing(t *testing.T) {
	spans := trace.New(nil, "s")
	e := switcher.Event{Kind: switcher.StageEnded, Stage: &switcher.StageOut{Stage: switcher.StageLLM}}
	if n := testing.AllocsPerRun(100, func() { spans.Event(e); spans.Close(e.At) }); n != 0 {
		t.Errorf("%v allocations without a tracer", n)
	}
}
