package legtest

import (
	"context"

	chatctx "sightline/context"
	"sightline/switcher"
)

// emit takes an output as a session would, and says what is wrong with it.
func (s *session) emit(ctx context.Context, o switcher.Output) error {
	s.mu.Lock()
	if s.over {
		s.t.Errorf("%T after Run has returned", o)
	}
	if s.holding {
		s.blocked = true
		s.tell()
		s.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if _, isReady := o.(switcher.ReadyOut); !isReady && !s.ready {
		if _, isNotice := o.(switcher.NoticeOut); !isNotice {
			s.t.Errorf("%T before ReadyOut", o)
		}
	}
	s.check(o)
	s.tell()
	return nil
}

func (s *session) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *session) check(o switcher.Output) {
	switch out := o.(type) {
	case switcher.ReadyOut:
		if s.ready {
			s.t.Error("ready twice")
		}
		s.ready = true
	case switcher.TextOut:
		if t := s.open(out.Item, "text"); t != nil {
			t.text += out.Delta
		}
	case switcher.SoundOut:
		s.checkSound(out)
	case switcher.TranscriptOut:
		s.checkTranscript(out)
	case switcher.CallerSpeechOut:
		if !s.subject.Can.OwnTurns && !out.Started {
			s.t.Error("an end of caller speech of a pipeline without OwnTurns")
		}
		if !s.hasFloor {
			s.t.Error("caller speech before the floor: the leg that has it says so too")
		}
	case switcher.ToolCallOut:
		if !chatctx.ValidID(out.CallID) {
			s.t.Errorf("call id %q is not 1 to 64 of [A-Za-z0-9_-]", out.CallID)
		}
		for _, c := range s.calls {
			if c.CallID == out.CallID {
				s.t.Errorf("two calls are called %q", out.CallID)
			}
		}
		if out.Item != "" {
			s.open(out.Item, "a tool call")
		}
		s.calls = append(s.calls, out)
	case switcher.TurnDoneOut:
		s.checkDone(out)
	case switcher.NoticeOut:
		if out.Code == "" {
			s.t.Error("a notice without a code")
		}
	}
}

func (s *session) checkSound(out switcher.SoundOut) {
	if out.Rate < 8000 || out.Rate > 48000 {
		s.t.Errorf("sound of %d Hz", out.Rate)
	}
	if len(out.PCM) == 0 {
		s.t.Error("a piece of sound without sound")
	}
	if s.subject.Can.OutRate == 0 {
		s.t.Error("sound of a pipeline that has none")
	}
	if t := s.open(out.Item, "sound"); t != nil {
		t.sound += len(out.PCM)
	}
}

func (s *session) checkTranscript(out switcher.TranscriptOut) {
	if out.Agent {
		if t := s.open(out.Item, "a transcript"); t != nil {
			t.text = out.Text
		}
		return
	}
	if !chatctx.ValidID(out.Item) || s.byID[out.Item] != nil {
		s.t.Errorf("utterance id %q is taken by a turn, or is not 1 to 64 of [A-Za-z0-9_-]", out.Item)
	}
	if !s.hasFloor {
		s.t.Error("a transcript of the caller before the floor: the leg that has it gives one too")
	}
	if s.finals[out.Item] {
		s.t.Errorf("utterance %q goes on after its final transcript", out.Item)
	}
	if out.Final || out.Failed {
		s.finals[out.Item] = true
		s.callerFinal++
	}
}

func (s *session) checkDone(out switcher.TurnDoneOut) {
	switch out.Status {
	case switcher.TurnCompleted, switcher.TurnCancelled, switcher.TurnFailed:
	default:
		s.t.Errorf("turn status %q", out.Status)
	}
	t := s.byID[out.Item]
	switch {
	case t == nil:
		s.t.Errorf("turn %q ends and never began", out.Item)
	case t.done:
		s.t.Errorf("turn %q ends twice", out.Item)
	default:
		t.done, t.status = true, out.Status
		s.items = append(s.items, &chatctx.Message{ID: t.id, Role: chatctx.RoleAssistant, Content: chatctx.TextContent(t.text)})
	}
}

// open finds the turn that an output goes on with, or begins it.
func (s *session) open(id, what string) *turn {
	t := s.byID[id]
	switch {
	case !chatctx.ValidID(id):
		s.t.Errorf("%s of a turn %q: its id is not 1 to 64 of [A-Za-z0-9_-]", what, id)
		return nil
	case t == nil && !s.hasFloor:
		s.t.Errorf("%s before the floor", what)
		return nil
	case t == nil:
		t = &turn{id: id}
		s.byID[id] = t
		s.order = append(s.order, t)
	case t.done:
		s.t.Errorf("%s of turn %q after its end", what, id)
		return nil
	}
	return t
}
