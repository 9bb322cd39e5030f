package trace

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"sightline/switcher"
)

// The attributes of spans. None of them holds words of a conversation, arguments of tools or what they gave.
const (
	keySession   = attribute.Key("sightline.session")
	keyEpoch     = attribute.Key("sightline.epoch")
	keyLeg       = attribute.Key("sightline.leg")
	keyOutcome   = attribute.Key("sightline.outcome")
	keyTrigger   = attribute.Key("sightline.trigger")
	keyResponse  = attribute.Key("sightline.response_ms")
	keyEngine    = attribute.Key("sightline.engine")
	keyItem      = attribute.Key("sightline.item")
	keyPlayed    = attribute.Key("sightline.played_ms")
	keyFrom      = attribute.Key("sightline.from")
	keyTo        = attribute.Key("sightline.to")
	keyWhy       = attribute.Key("sightline.reason")
	keySeeded    = attribute.Key("sightline.seeded_items")
	keyDropped   = attribute.Key("sightline.dropped_items")
	keyTool      = attribute.Key("gen_ai.tool.name")
	keyCall      = attribute.Key("gen_ai.tool.call.id")
	keyTokensIn  = attribute.Key("gen_ai.usage.input_tokens")
	keyTokensOut = attribute.Key("gen_ai.usage.output_tokens")
	keyError     = attribute.Key("error.type")
)

// Bounds of what is kept.
const (
	maxParts = 256              // of one turn: stages, tools and pieces of the answer each
	maxOpen  = 4                // turns
	maxOver  = 4                // turns of which late spans are taken
	maxLegs  = 16               // names of legs, by epoch
	idle     = 30 * time.Second // after which what comes is another turn
)

// Recorder makes the spans of one session. A nil one makes none, at no cost. Event and Close are for one goroutine at a time.
type Recorder struct {
	tracer  trace.Tracer
	session string
	parent  atomic.Pointer[trace.SpanContext]
	legs    map[uint64]string
	open    []*turn // oldest first
	over    []*turn
}

// New makes a Recorder of a session's spans; nil without a tracer.
func New(tracer trace.Tracer, session string) *Recorder {
	if tracer == nil {
		return nil
	}
	return &Recorder{tracer: tracer, session: session, legs: map[uint64]string{}}
}

// Below puts the spans that are made from now on below a span of somebody else's. It may be called from any goroutine.
func (r *Recorder) Below(parent trace.SpanContext) {
	if r != nil && parent.IsValid() {
		r.parent.Store(&parent)
	}
}

// BelowIfFree is Below unless there is a parent already: that of the publisher goes before an agent's.
func (r *Recorder) BelowIfFree(parent trace.SpanContext) {
	if r != nil && parent.IsValid() {
		r.parent.CompareAndSwap(nil, &parent)
	}
}

// Event takes in what the session's switcher tells, in its order.
func (r *Recorder) Event(e switcher.Event) {
	if r == nil {
		return
	}
	switch e.Kind {
	case switcher.PipelinePreparing:
		if len(r.legs) >= maxLegs {
			for epoch := range r.legs {
				if epoch+maxLegs <= e.Epoch {
					delete(r.legs, epoch)
				}
			}
		}
		r.legs[e.Epoch] = e.To
	case switcher.PipelineCommitted, switcher.PipelineAborted:
		r.switched(e)
	case switcher.SpeechStarted, switcher.SpeechStopped:
		if e.Who == "caller" {
			r.callerSpeech(e)
		} else {
			r.agentSpeech(e)
		}
	case switcher.TranscriptSaid:
		if e.Who == "agent" {
			r.turnOf(e)
		}
	case switcher.TurnPlayed:
		if e.Final {
			r.played(e)
		}
	case switcher.StageEnded:
		r.stage(e)
	case switcher.ToolCalled, switcher.ToolAnswered, switcher.ToolCancelled:
		r.tool(e)
	default:
		return
	}
	r.closeWhatIsOver(e.At)
}

// Close makes the spans of what is still open.
func (r *Recorder) Close(now time.Time) {
	if r == nil {
		return
	}
	for len(r.open) > 0 {
		r.finish(r.open[0], now)
	}
}

// root is the context of a trace, or of a subtree where there is a parent.
func (r *Recorder) root() context.Context {
	ctx := context.Background()
	if p := r.parent.Load(); p != nil {
		ctx = trace.ContextWithRemoteSpanContext(ctx, *p)
	}
	return ctx
}

// part is a whole span.
type part struct {
	name     string
	from, to time.Time
	code     string    // why it failed, "" when it did not
	event    string    // something in it
	at       time.Time // of event; zero: there was none
	attrs    []attribute.KeyValue
}

// span makes a span below that of ctx.
func (r *Recorder) span(ctx context.Context, p part) {
	_, s := r.tracer.Start(ctx, p.name, trace.WithTimestamp(p.from), trace.WithAttributes(p.attrs...), trace.WithAttributes(keySession.String(r.session)))
	if !p.at.IsZero() {
		s.AddEvent(p.event, trace.WithTimestamp(p.at))
	}
	fails(s, p.code)
	s.End(trace.WithTimestamp(p.to))
}

func fails(s trace.Span, code string) {
	switch code {
	case "":
	case "cancelled": // it was not wanted any more, which is no fault
		s.SetAttributes(keyOutcome.String(code))
	default:
		s.SetAttributes(keyError.String(code))
		s.SetStatus(codes.Error, code)
	}
}

// leg is what is known of the leg of an epoch.
func (r *Recorder) leg(epoch uint64) []attribute.KeyValue {
	attrs := []attribute.KeyValue{keyEpoch.Int64(int64(epoch))}
	if name := r.legs[epoch]; name != "" {
		attrs = append(attrs, keyLeg.String(name))
	}
	return attrs
}

// switched makes the trace of a switch.
func (r *Recorder) switched(e switcher.Event) {
	st := e.Steps
	if st == nil || st.Asked.IsZero() { // a no-op takes no time
		return
	}
	outcome, code := "committed", ""
	if e.Kind == switcher.PipelineAborted {
		outcome, code = "aborted", string(switcher.SwitchAborted)
		if e.Err != nil {
			code = string(e.Err.Code)
		}
	}
	attrs := append(r.leg(e.Epoch), keySession.String(r.session), keyFrom.String(e.From), keyTo.String(e.To), keyWhy.String(st.Why), keyOutcome.String(outcome))
	if e.Result != nil {
		attrs = append(attrs, keySeeded.Int(e.Result.SeededItems), keyDropped.Int(e.Result.DroppedItems))
	}
	ctx, root := r.tracer.Start(r.root(), "switch", trace.WithTimestamp(st.Asked), trace.WithAttributes(attrs...))
	until := func(t time.Time) time.Time { // the step that it broke off in lasts to its end
		if t.IsZero() {
			return e.At
		}
		return t
	}
	prepare, p := r.tracer.Start(ctx, "prepare", trace.WithTimestamp(st.Asked), trace.WithAttributes(keySession.String(r.session)))
	if !st.Seeded.IsZero() {
		r.span(prepare, part{name: "seed", from: st.Asked, to: st.Seeded})
	}
	p.End(trace.WithTimestamp(until(st.Ready)))
	for _, step := range []part{
		{name: "wait", from: st.Ready, to: until(st.Boundary)},
		{name: "commit", from: st.Boundary, to: until(st.Written), event: "flushed", at: st.Flushed},
		{name: "release", from: st.Written, to: until(st.Released)},
	} {
		if !step.from.IsZero() {
			r.span(ctx, step)
		}
	}
	fails(root, code)
	root.End(trace.WithTimestamp(e.At))
}
