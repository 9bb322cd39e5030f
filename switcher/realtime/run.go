package realtime

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"sightline/switcher"
	"sightline/switcher/internal/socket"
	"sightline/switcher/realtime/dialect"
)

// phase of a connection.
type phase int

const (
	greeting phase = iota // the provider has said nothing yet
	settling              // session.update is sent
	seeding               // the seed's items are sent
	serving               // ReadyOut is out
)

// run is the state of one connection, touched by the loop only.
type run struct {
	cfg     *Config
	p       *Profile
	counts  *counts
	start   switcher.Start
	log     *slog.Logger
	session *socket.Session
	sock    *socket.Socket

	err      error
	phase    phase
	begun    time.Time
	expires  time.Time // of the provider's session, zero: unknown
	warned   bool      // of it
	outRate  int       // Hz of the model's sound
	floor    bool
	early    []switcher.Input // sound and speech from before the floor
	earlyPCM int              // samples in it
	number   int              // of our events

	seed     seedState
	ear      ear
	heard    utterances
	response gate
	turns    turns
	tools    tools
	eyes     eyes
}

func newRun(l *Leg, start switcher.Start, session *socket.Session, sock *socket.Socket, now time.Time) *run {
	r := &run{cfg: &l.cfg, p: &l.cfg.Profile, counts: &l.counts, start: start, log: start.Log, session: session, sock: sock, begun: now, outRate: l.cfg.Profile.Rate}
	r.ear.rate = r.p.Rate
	r.heard.known = map[string]*utterance{}
	r.turns.byItem, r.turns.byOut = map[string]*turn{}, map[string]*turn{}
	r.tools.calls, r.tools.same = map[string]*call{}, map[string]*call{}
	r.response.known = map[string]*response{}
	r.eyes.last = map[string]time.Time{}
	return r
}

// say gives an output to the session, behind what waits.
func (r *run) say(o switcher.Output) { r.session.Out.Put(o) }

func (r *run) notice(code, message string) {
	r.say(switcher.NoticeOut{Code: code, Message: r.cfg.shown(message)})
}

// id makes an id of ours for an event or an item; what it is for stands in front: an error names it.
func (r *run) id(purpose string) string {
	r.number++
	return purpose + "_" + strconv.Itoa(r.number)
}

// send gives an event to the writer.
func (r *run) send(e dialect.ClientEvent) {
	data, err := dialect.Encode(e)
	if err != nil { // a tool's schema that is no JSON
		r.fail(&switcher.LegError{Code: "invalid", Message: "an event cannot be written", Err: err})
		return
	}
	r.put(socket.Message{Data: data})
}

func (r *run) put(m socket.Message) {
	r.sock.Send.Put(m)
	words, samples := r.sock.Send.Load()
	if words > socket.MostWords {
		r.fail(&switcher.LegError{Code: "overloaded", Message: r.p.Provider + " does not read what it is sent", Retryable: true})
	}
	bound := int(socket.MostUnsent.Seconds() * float64(r.p.Rate))
	for ; samples > bound; _, samples = r.sock.Send.Load() {
		dropped := r.sock.Send.Remove(1, func(m socket.Message) bool { return m.Samples > 0 })
		r.counts.unsentSound.Add(uint64(dropped))
	}
}

// tick looks at what is due.
func (r *run) tick(now time.Time) {
	if r.phase != serving && now.Sub(r.begun) > r.cfg.SetupTimeout {
		what := map[phase]string{greeting: "session.created", settling: "session.updated", seeding: "the seed's acknowledgement"}[r.phase]
		r.fail(&switcher.LegError{Code: "connect", Message: r.p.Provider + " did not send " + what, Retryable: true})
	}
	if left := r.expires.Sub(now); r.phase == serving && !r.expires.IsZero() && !r.warned && left < r.warning() {
		r.warned = true
		r.notice(NoticeExpires, r.expires.UTC().Format(time.RFC3339))
	}
	r.watch(now)
}

// NoticeExpires is the code of the notice that comes well before the provider ends the session; its message is that time
// (RFC 3339).
const NoticeExpires = "expires"

// warning is how long before the end the session is told: a quarter of the life, at most five minutes.
func (r *run) warning() time.Duration { return min(r.expires.Sub(r.begun)/4, 5*time.Minute) }

func (r *run) expiry(s dialect.Session) {
	if s.ExpiresAt > 0 {
		r.expires = time.Unix(s.ExpiresAt, 0)
	}
}

// event takes what the provider says.
func (r *run) event(ctx context.Context, e dialect.ServerEvent, now time.Time) {
	r.response.seen(e, now)
	switch e := e.(type) {
	case *dialect.SessionCreated:
		r.expiry(e.Session)
		r.greeted()
	case *dialect.ConversationCreated:
		r.greeted()
	case *dialect.SessionUpdated:
		r.expiry(e.Session)
		r.settled(ctx, e.Session)
	case *dialect.ItemAdded:
		r.acknowledged(e.Item)
	case *dialect.ItemCreated:
		r.acknowledged(e.Item)
	case *dialect.ItemDone:
		r.acknowledged(e.Item)
	case *dialect.Error:
		r.trouble(e.Error, now)
	case *dialect.SpeechStarted, *dialect.SpeechStopped, *dialect.InputAudioCommitted, *dialect.TranscriptionDelta, *dialect.TranscriptionCompleted, *dialect.TranscriptionFailed:
		r.callerEvent(e, now)
	case *dialect.ResponseCreated:
		r.answerBegins(e.Response, now)
	case *dialect.ResponseDone:
		r.answerDone(e.Response, now)
	case dialect.Unknown:
		r.counts.unknown.Add(1)
	default:
		r.answerEvent(e)
	}
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
		r.takeFloor(i)
	case switcher.ItemIn:
		r.item(ctx, i)
	case switcher.ToolResultIn:
		r.result(i)
	case switcher.InterruptedIn:
		r.interrupted(i)
	case switcher.PlayedIn:
		if t := r.turns.byOut[i.Item]; t != nil {
			t.heard = true
		}
	}
}

// takeFloor: from here on the provider hears the caller, and answers.
func (r *run) takeFloor(f switcher.FloorIn) {
	if r.floor {
		if f.Respond { // again
			r.newTurn()
			r.respond(nil)
		}
		return
	}
	r.floor = true
	r.response.auto = r.cfg.ownTurns() && (r.p.Answers == AnswersTold || r.p.Answers == AnswersAlways)
	if r.response.auto && r.p.Answers == AnswersTold {
		r.send(&dialect.SessionUpdate{EventID: r.id("floor"), Session: dialect.Session{Type: "realtime",
			Audio: &dialect.Audio{Input: &dialect.AudioInput{TurnDetection: r.turnDetection(true)}}}})
	}
	if f.Respond {
		r.newTurn()
		r.respond(nil)
	}
	early := r.early
	r.early, r.earlyPCM = nil, 0
	for _, i := range early {
		r.caller(i)
	}
}

// trouble takes an error event: most mean nothing, or one request; few end the session.
func (r *run) trouble(e dialect.ErrorDetail, now time.Time) {
	if err := r.cfg.death(e); err != nil {
		r.fail(err)
		return
	}
	purpose, _, _ := strings.Cut(e.EventID, "_")
	switch {
	case e.Code == codeActive:
		r.counts.benign.Add(1)
		r.response.busy(now)
	case benign[e.Code] || purpose == "cut" || purpose == "cancel":
		r.counts.benign.Add(1)
	case purpose == "setup":
		r.fail(&switcher.LegError{Code: "protocol", Message: r.p.Provider + " refuses the session's settings: " + r.cfg.shown(e.Message)})
	case purpose == "seed" && r.phase != serving:
		r.fail(&switcher.LegError{Code: CodeSeed, Message: r.p.Provider + " refuses an item of the seed: " + r.cfg.shown(e.Message), Retryable: true})
	case purpose == "floor":
		r.response.auto = false // we ask for every answer then
		r.notice("settings_refused", e.Message)
	case purpose == "answer":
		r.response.refused()
		r.notice(NoticeAnswerFailed, e.Code+": "+e.Message)
	case purpose == "image":
		r.notice(NoticeImageDropped, e.Message)
	default:
		r.notice("provider_error", e.Code+": "+e.Message)
	}
}
