package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	chatctx "sightline/context"
	"sightline/gateway/problem"
	"sightline/gateway/realtime"
	"sightline/switcher"
)

// maxDialects bounds the sockets of /v1/realtime that one session has.
const maxDialects = 8

// dialectSocket is a client of /v1/realtime: the caller of a session, or one who watches it.
type dialectSocket struct {
	call   *realtime.Call
	cancel context.CancelCauseFunc
}

// leave asks the socket to close; it does not wait.
func (d *dialectSocket) leave(reason string) {
	d.cancel(&realtime.CloseReason{Code: websocket.CloseGoingAway, Text: reason})
}

// expire closes the socket, since its token is no longer taken; it does not wait.
func (d *dialectSocket) expire() {
	d.cancel(&realtime.CloseReason{Code: websocket.ClosePolicyViolation, Text: "the token has expired"})
}

// talksWith is what the session talks with.
func (s *Session) talksWith() PipelineConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.talksWithLocked()
}

func (s *Session) talksWithLocked() PipelineConfig {
	if s.pipelines != nil {
		return *s.pipelines
	}
	return s.cfg.Pipelines
}

// tellDialects tells the clients of /v1/realtime what happened; message is what agents are told of it, nil nothing.
func (s *Session) tellDialects(e switcher.Event, message any) {
	s.mu.Lock()
	var all []*dialectSocket
	for d := range s.dialects {
		all = append(all, d)
	}
	s.mu.Unlock()
	for _, d := range all {
		d.call.Event(e)
		if message != nil {
			d.call.Tell(message)
		}
	}
}

// addDialect counts a socket in, as a task of the session.
func (s *Session) addDialect(d *dialectSocket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dialects) >= maxDialects {
		return problem.New(problem.Overloaded, "session %s has %d sockets of /v1/realtime, the limit", s.id, len(s.dialects)).WithRetryAfter(5 * time.Second)
	}
	if !s.beginLocked() {
		return endedProblem(s.id)
	}
	s.dialects[d], s.used = struct{}{}, true
	s.touchLocked(time.Now())
	return nil
}

func (s *Session) removeDialect(d *dialectSocket) {
	s.mu.Lock()
	delete(s.dialects, d)
	s.touchLocked(time.Now())
	s.mu.Unlock()
	s.tasks.Done()
}

// openRealtime upgrades GET /v1/realtime: with model to a session whose caller is the socket, with call_id to a sideband of one that
// is there.
func (s *Server) openRealtime(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var err error
	switch model, callID := q.Get("model"), q.Get("call_id"); {
	case q.Get("intent") != "":
		err = problem.New(problem.InvalidArgument, "intent: transcription sessions are not served; a session with model gives transcripts").WithField("intent")
	case (model == "") == (callID == ""):
		err = problem.New(problem.InvalidArgument, "say either /v1/realtime?model=PROFILE or /v1/realtime?call_id=SESSION").WithField("model")
	case model != "":
		err = s.openCall(w, r, model)
	default:
		err = s.openSideband(w, r, callID)
	}
	if err != nil {
		problem.Write(w, err)
	}
}

// openCall makes a session and serves its caller until it leaves; an error comes before the upgrade.
func (s *Server) openCall(w http.ResponseWriter, r *http.Request, model string) error {
	profile, err := s.profile(model)
	if err != nil {
		return err
	}
	session, _, err := s.obtain(r.Context(), "")
	if err != nil {
		return err
	}
	call := realtime.New(realtime.Config{
		ID: session.id, Model: model, Instructions: s.cfg.Pipelines.Instructions, Turns: s.cfg.Pipelines.Turns, Speech: session.shared.speech, Log: session.logger,
	})
	ctx, cancel := context.WithCancelCause(context.Background()) // ended by the session, whose task it is
	defer cancel(nil)
	d := &dialectSocket{call: call, cancel: cancel}
	session.isCall(call, profile)
	if err := session.addDialect(d); err != nil {
		return err
	}
	defer session.removeDialect(d)
	defer s.untilExpiry(r.Context(), d.expire)()
	defer session.End("its caller has left")
	conn, err := realtime.Upgrade(w, r)
	if err != nil { // answered
		return nil
	}
	session.logger.Info("a caller came over /v1/realtime", "model", model)
	err = call.Serve(ctx, conn, session.asCall(call))
	session.logger.Info("the caller over /v1/realtime left", keyReason, err.Error())
	return nil
}

// profile finds the pipelines of a session whose caller asks for a model: the model's own first. Only cascades can be behind the
// dialect: what is behind it has to answer when the client asks.
func (s *Server) profile(model string) (PipelineConfig, error) {
	c := s.cfg.Pipelines
	var names []string
	c.Builtin = slices.DeleteFunc(slices.Clone(c.Builtin), func(p switcher.Pipeline) bool { return p.Kind != switcher.Cascade })
	for _, p := range c.Builtin {
		if p.Name == model {
			c.First = model
			return c, nil
		}
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return c, problem.New(problem.EngineUnavailable, "model %q: no pipeline is set up that could be behind it; install the local engines, or name a server with --llm-url", model).WithField("model")
	}
	return c, problem.New(problem.NotFound, "there is no model %q: there is %s", model, strings.Join(names, ", ")).WithField("model")
}

// isCall makes the client of a call the session's caller, before anybody else knows of the session.
func (s *Session) isCall(call *realtime.Call, c PipelineConfig) {
	for i, p := range c.Builtin {
		c.Builtin[i] = call.Tap(p)
	}
	c.BargeIn = switcher.BargeIn{Off: true} // the client says whether speech interrupts
	c.Voice, c.Failover.Phrase, c.SwitchTool = nil, "", false
	s.mu.Lock()
	s.pipelines = &c
	s.mu.Unlock()
	s.tools.serveClient("", nil, call.RunTool) // the gateway's own tools are not the client's wish
}

// asCall is the session as its call sees it.
func (s *Session) asCall(call *realtime.Call) realtime.Session {
	return realtime.Session{
		Log: s.log,
		Switcher: func() (*switcher.Switcher, error) {
			v, err := s.speak()
			if err != nil {
				return nil, err
			}
			return v.switcher, nil
		},
		Append: func(ctx context.Context, op chatctx.Op) (chatctx.Ack, error) {
			return s.appendAsClient(ctx, "caller", op)
		},
		SetTools: func(tools []switcher.Tool) { s.tools.serveClient("", tools, call.RunTool) },
		Sound: func(rate int, pcm []int16, at time.Time) {
			v := s.currentVoice()
			if v == nil {
				return
			}
			for _, a := range s.allAgents() {
				if a.soundRate() == rate {
					a.hearCaller(pcm, rate, v.switcher.Epoch(), s.soundTime(at))
				}
			}
		},
		Rates: func() []int {
			if v := s.currentVoice(); v != nil {
				return v.soundRates()
			}
			return nil
		},
	}
}

// appendAsClient puts an operation of a client's into the conversation. Errors are *chatctx.Error.
func (s *Session) appendAsClient(ctx context.Context, author string, op chatctx.Op) (chatctx.Ack, error) {
	ack, err := s.append(ctx, author, op)
	var p *problem.Error
	if errors.As(err, &p) {
		err = &chatctx.Error{Kind: chatctx.ErrorKind(p.Code), Detail: p.Detail, Field: p.Field, Cause: p.Cause}
	}
	return ack, err
}

// serveClient sets the tools that a client of /v1/realtime runs, in the place of those before. name is "" of a session's caller,
// where the gateway's own tools are not offered.
func (b *toolbox) serveClient(name string, tools []switcher.Tool, run switcher.ToolRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name == "" {
		b.builtin = nil
	}
	agentID := "realtime/" + name // no agent_id can have a slash
	b.offers = slices.DeleteFunc(b.offers, func(o toolOffer) bool { return o.agentID == agentID })
	for _, t := range tools {
		b.offers = append(b.offers, toolOffer{agentID, t})
	}
	if b.clients == nil {
		b.clients = map[string]switcher.ToolRun{}
	}
	b.clients[agentID] = run
}

// leaveClient takes a client's tools back.
func (b *toolbox) leaveClient(name string) {
	b.serveClient(name, nil, nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.clients, "realtime/"+name)
}
