package gemini

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"sightline/switcher"
	"sightline/switcher/gemini/live"
	"sightline/switcher/internal/socket"
)

// phase of a connection.
type phase int

const (
	opening phase = iota // the setup is sent
	seeding              // what was said before is sent
	serving              // ReadyOut is out
)

// run is the state of a leg, touched by the loop only.
type run struct {
	cfg     *Config
	p       *Profile
	counts  *counts
	start   switcher.Start
	log     *slog.Logger
	session *socket.Session
	sock    *socket.Socket // the newest

	err      error
	phase    phase
	begun    time.Time // of the connection
	seeded   time.Time // the history was sent
	seed     seedForm
	history  bool // was sent
	proven   bool // the provider has said something since
	ready    bool // ReadyOut is out
	floor    bool
	early    []switcher.Input // sound and speech from before the floor
	earlyPCM int              // samples in it
	number   int              // of our ids

	ear   ear
	heard heard
	words words
	gate  gate
	turns turns
	tools tools
	eyes  eyes
}

func newRun(l *Leg, start switcher.Start, session *socket.Session, now time.Time) *run {
	r := &run{cfg: &l.cfg, p: &l.cfg.Profile, counts: &l.counts, start: start, log: start.Log, session: session, begun: now}
	r.turns.known = map[string]*turn{}
	r.tools.calls, r.tools.same = map[string]*call{}, map[string]*call{}
	r.eyes.last, r.eyes.turn = map[string]time.Time{}, map[string]time.Time{}
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
func (r *run) send(c live.Client) {
	data, err := live.Encode(c)
	if err != nil { // a tool's schema that is no JSON
		r.fail(&switcher.LegError{Code: "invalid", Message: "a message cannot be written", Err: err})
		return
	}
	r.put(socket.Message{Data: data})
}

func (r *run) realtime(i live.RealtimeInput) { r.send(live.Client{RealtimeInput: &i}) }

func (r *run) put(m socket.Message) {
	r.sock.Send.Put(m)
	words, samples := r.sock.Send.Load()
	if words > socket.MostWords {
		r.fail(&switcher.LegError{Code: "overloaded", Message: r.p.Provider + " does not read what it is sent", Retryable: true})
	}
	for ; samples > span(socket.MostUnsent); _, samples = r.sock.Send.Load() {
		dropped := r.sock.Send.Remove(1, func(m socket.Message) bool { return m.Samples > 0 })
		r.counts.unsentSound.Add(uint64(dropped))
	}
}

// frame takes a message of the provider, which may come as text or as binary.
func (r *run) frame(f socket.Frame, now time.Time) {
	m, known, err := live.DecodeServer(f.Data)
	switch {
	case err != nil:
		r.counts.malformed.Add(1)
		return
	case !known:
		r.counts.unknown.Add(1)
		return
	}
	if m.SetupComplete != nil {
		r.settled(now)
	}
	if m.ServerContent != nil || m.ToolCall != nil {
		r.proven, r.gate.last = true, now
	}
	if m.ServerContent != nil {
		r.content(m.ServerContent, now)
	}
	if m.ToolCall != nil {
		r.called(m.ToolCall.FunctionCalls, now)
	}
	if m.ToolCallCancellation != nil {
		r.cancelled(m.ToolCallCancellation.IDs)
	}
	if m.GoAway != nil {
		r.notice(NoticeExpires, now.Add(m.GoAway.Left()).UTC().Format(time.RFC3339))
	}
	if v := m.VoiceActivity; v != nil && r.cfg.TheirTurns {
		r.activity(v.Type, now)
	}
}

// NoticeExpires is the code of the notice that comes well before the provider ends the connection; its message is that time
// (RFC 3339). The session then rolls over to a fresh leg.
const NoticeExpires = "expires"

// input takes what the session says.
func (r *run) input(i switcher.Input, now time.Time) {
	switch i := i.(type) {
	case switcher.SoundIn, switcher.CallerSpeechIn:
		if r.floor && r.phase == serving {
			r.caller(i, now)
		} else {
			r.hold(i)
		}
	case switcher.FloorIn:
		if !r.floor {
			r.floor = true
			if i.Respond {
				r.newTurn()
				r.gate.wants = true
			}
			r.release(now)
		}
	case switcher.ItemIn:
		r.item(i)
	case switcher.ToolResultIn:
		r.result(i, now)
	case switcher.InterruptedIn:
		r.interrupted(i)
	case switcher.PlayedIn:
		r.turns.forget(i.Item)
	}
}

// release gives the provider what the caller said before.
func (r *run) release(now time.Time) {
	if !r.floor || r.phase != serving {
		return
	}
	early := r.early
	r.early, r.earlyPCM = nil, 0
	for _, i := range early {
		r.caller(i, now)
	}
}

// tick looks at what is due.
func (r *run) tick(now time.Time) {
	switch {
	case r.phase == opening && now.Sub(r.begun) > r.cfg.SetupTimeout:
		r.fail(&switcher.LegError{Code: "connect", Message: r.p.Provider + " did not send setupComplete", Retryable: true})
	case r.phase == seeding && now.Sub(r.seeded) >= r.cfg.SeedGrace:
		r.serve(now)
	}
	r.listen(now)
	r.settleDue(now)
	r.endDue(now)
	r.watch(now)
}

// pump does what waits as soon as nothing stands against it any more.
func (r *run) pump(ctx context.Context, now time.Time) {
	if !r.floor || r.phase != serving || r.err != nil {
		return
	}
	if r.ear.state == waiting && !r.busy() {
		r.openActivity(ctx, now)
	}
	heard := r.ear.state == open || r.cfg.TheirTurns && r.ear.speaking // a frame outside of a turn belongs to none
	if heard && r.frameDue(now) {
		r.sendFrame(now)
	}
	if r.cfg.TheirTurns && r.ear.speaking && len(r.words.waiting) > 0 && !r.busy() {
		r.tell(ctx)
	}
	if r.gate.wants && !r.busy() && r.tools.open == 0 && r.ear.state == idle && !r.ear.speaking && !r.eyes.looking {
		r.ask(ctx, now)
	}
}
