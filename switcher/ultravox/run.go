package ultravox

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/internal/socket"
	"sightline/switcher/internal/spell"
)

// run is the state of a leg, touched by the loop only.
type run struct {
	cfg     *Config
	counts  *counts
	start   switcher.Start
	log     *slog.Logger
	session *socket.Session
	sock    *socket.Socket

	err    error
	begun  time.Time
	ready  bool
	floor  bool
	number int // of our ids

	ear    ear
	heard  heard
	turns  turns
	tools  tools
	asked  time.Time // zero: nothing was, or it has begun to answer
	silent int       // answers in a row that never came
}

const silentMost = 2 // then the connection is dead

func newRun(l *Leg, start switcher.Start, session *socket.Session, sock *socket.Socket, now time.Time) *run {
	r := &run{cfg: &l.cfg, counts: &l.counts, start: start, log: start.Log, session: session, sock: sock, begun: now}
	r.heard.byOrdinal, r.turns.known, r.turns.byOrdinal = map[int]*utterance{}, map[string]*turn{}, map[int]*turn{}
	r.tools.calls, r.tools.same = map[string]*call{}, map[string]*call{}
	return r
}

// say gives an output to the session, behind what waits.
func (r *run) say(o switcher.Output) { r.session.Out.Put(o) }

func (r *run) notice(code, message string) {
	r.say(switcher.NoticeOut{Code: code, Message: socket.Secret(r.cfg.Key).Hide(socket.Clip(message))})
}

// id makes an id of ours.
func (r *run) id(what string) string {
	r.number++
	return what + "_" + strconv.Itoa(r.number)
}

// send gives a message to the writer.
func (r *run) send(m any) {
	data, err := json.Marshal(m)
	if err != nil {
		r.fail(invalid("a message cannot be written: %v", err))
		return
	}
	r.put(socket.Message{Data: data})
}

func (r *run) put(m socket.Message) {
	r.sock.Send.Put(m)
	words, samples := r.sock.Send.Load()
	if words > socket.MostWords {
		r.fail(&switcher.LegError{Code: "overloaded", Message: Provider + " does not read what it is sent", Retryable: true})
	}
	for ; samples > span(socket.MostUnsent); _, samples = r.sock.Send.Load() {
		dropped := r.sock.Send.Remove(1, func(m socket.Message) bool { return m.Samples > 0 })
		r.counts.unsentSound.Add(uint64(dropped))
	}
}

// tell says something to the model that it is not to answer.
func (r *run) tell(text, urgency string) {
	r.send(userText{Type: typeText, Text: text, Urgency: urgency, DeferResponse: true})
}

func (r *run) ask(text string, now time.Time) {
	r.send(userText{Type: typeText, Text: text, Urgency: "soon"})
	r.asked = now
}

// frame takes a message of the provider: sound if it is binary.
func (r *run) frame(f socket.Frame, now time.Time) {
	if f.Binary {
		r.sound(f.Data, now)
		return
	}
	var m server
	if err := json.Unmarshal(f.Data, &m); err != nil {
		r.counts.malformed.Add(1)
		return
	}
	switch m.Type {
	case typeStarted:
		r.isReady()
	case typeState:
		r.isReady()
		r.state(m.State, now)
	case typeTranscript:
		if m.Role == "agent" {
			r.words(m, now)
		} else if m.Medium != "text" { // what we typed comes back
			r.transcribed(m, now)
		}
	case typeInvocation:
		r.call(m, now)
	case typeClear:
		r.cleared()
	case typePong, typeDebug:
	default:
		r.counts.unknown.Add(1)
	}
}

func (r *run) isReady() {
	if r.ready {
		return
	}
	r.ready = true
	r.log.Debug("ultravox leg ready")
	r.say(switcher.ReadyOut{})
	r.session.Feed()
}

// input takes what the session says.
func (r *run) input(ctx context.Context, i switcher.Input, now time.Time) {
	switch i := i.(type) {
	case switcher.SoundIn, switcher.CallerSpeechIn:
		if r.floor {
			r.caller(i)
		} else {
			r.hold(i)
		}
	case switcher.FloorIn:
		r.takeFloor(i, now)
	case switcher.ItemIn:
		r.item(ctx, i, now)
	case switcher.ToolResultIn:
		r.result(i, now)
	case switcher.InterruptedIn:
		r.interrupted(i)
	case switcher.PlayedIn:
		r.turns.forget(i.Item)
	}
}

func (r *run) takeFloor(f switcher.FloorIn, now time.Time) {
	if r.floor {
		return
	}
	r.floor = true
	if f.Respond {
		r.newTurn()
		r.ask(spell.Marked(spell.AnswerNow), now)
	}
	early := r.ear.early
	r.ear.early, r.ear.earlyPCM = nil, 0
	for _, i := range early {
		r.caller(i)
	}
}

// item tells what somebody else put into the conversation.
func (r *run) item(_ context.Context, in switcher.ItemIn, now time.Time) {
	items := chatctx.Items{in.Item}
	switch it := in.Item.(type) {
	case *chatctx.FunctionCall: // a call alone would count as interrupted: it goes with its output
		r.tools.keep(it)
		return
	case *chatctx.FunctionCallOutput:
		c := r.otherCall(it.CallID)
		if c == nil {
			return
		}
		items = chatctx.Items{c, it}
	}
	text := r.spelt(items)
	if in.Respond {
		r.newTurn()
		if m, ok := in.Item.(*chatctx.Message); !ok || m.Role != chatctx.RoleUser || text == "" {
			text = strings.TrimSpace(text + "\n" + spell.Marked(spell.AnswerNow))
		}
		r.ask(text, now)
	} else if text != "" {
		r.tell(text, "later")
	}
}

// spelt is items as text. The model sees no images: the caller's are named.
func (r *run) spelt(items chatctx.Items) string {
	turns, losses := spell.Others(items, project.Options{HideTools: r.cfg.HideTools, KeepImages: -1})
	for _, l := range losses {
		if l.Kind == project.LostImage {
			r.notice(NoticeImageDropped, l.ItemID+": the provider takes none")
		}
	}
	return spell.Turns(turns, nil)
}

// NoticeImageDropped is the code of the notice that an image was not given to the model.
const NoticeImageDropped = "image_dropped"

// NoticeAnswerFailed is the code of the notice that the caller waits for an answer that will not come, or not to its end.
const NoticeAnswerFailed = "answer_failed"

// tick looks at what is due.
func (r *run) tick(now time.Time) {
	if !r.ready && now.Sub(r.begun) > r.cfg.SetupTimeout {
		r.fail(&switcher.LegError{Code: "connect", Message: Provider + " did not say that the call has begun", Retryable: true})
	}
	r.settleDue(now)
	r.endDue(now)
	if !r.asked.IsZero() && now.Sub(r.asked) > r.cfg.ResponseTimeout {
		r.asked = time.Time{}
		r.notice(NoticeAnswerFailed, "timeout: no answer was begun")
		if r.silent++; r.silent >= silentMost {
			r.fail(&switcher.LegError{Code: "connect", Message: Provider + " does not answer", Retryable: true})
		}
	}
}
