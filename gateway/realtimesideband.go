package gateway

import (
	"context"
	"net/http"

	chatctx "sightline/context"
	"sightline/gateway/realtime"
	"sightline/switcher"
)

// openSideband serves a client that watches and steers a session which is there; an error comes before the upgrade.
func (s *Server) openSideband(w http.ResponseWriter, r *http.Request, id string) error {
	session, err := s.sessions.get(r.Context(), id)
	if err != nil {
		return err
	}
	model := ""
	if _, active, _ := session.legs(); active != nil {
		model = *active
	}
	call := realtime.New(realtime.Config{
		ID: session.id, Model: model, Instructions: session.talksWith().Instructions, Turns: session.talksWith().Turns,
		Speech: session.shared.speech, Watch: true, Log: session.logger,
	})
	ctx, cancel := context.WithCancelCause(context.Background()) // ended by the session, whose task it is
	defer cancel(nil)
	d := &dialectSocket{call: call, cancel: cancel}
	if err := session.addDialect(d); err != nil {
		return err
	}
	defer session.removeDialect(d)
	defer s.untilExpiry(r.Context(), d.expire)()
	conn, err := realtime.Upgrade(w, r)
	if err != nil { // answered
		return nil
	}
	session.logger.Info("a sideband attached")
	err = call.Serve(ctx, conn, session.asWatched(call))
	session.tools.leaveClient(call.ID())
	session.logger.Info("a sideband left", keyReason, err.Error())
	return nil
}

// asWatched is the session as a sideband sees it.
func (s *Session) asWatched(call *realtime.Call) realtime.Session {
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
			return s.appendAsClient(ctx, "sideband", op)
		},
		SetTools: func(tools []switcher.Tool) { s.tools.serveClient(call.ID(), tools, call.RunTool) },
	}
}
