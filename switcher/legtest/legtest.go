// Package legtest puts any leg through what a session expects of every leg; it is for tests and knows no pipeline.
package legtest

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	chatctx "sightline/context"
	"sightline/switcher"
)

// Subject is a leg to be tested, against a provider that is scripted by the test. Run asks for a new one in each case.
type Subject struct {
	Leg switcher.Leg
	Can switcher.Capability

	// What the caller types, and what the pipeline does then.
	Ask     string // answers in a few words
	AskLong string // answers at such length that a second passes, or that the answer waits for somebody to take it
	AskTool string // calls Tool once, and answers with what the tool gave; "" = the pipeline has no tools
	Tool    string // its name

	Speech []int16 // PCM at Can.InRate that the pipeline understands as something to answer; nil = it is not spoken to

	Close func() // ends what stands behind the leg; nil = nothing does
}

// Run puts the legs that open gives through the suite, each case with its own.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s *session)
	}{
		{"ready before floor, seed accepted", readyFirst},
		{"silent before floor", silentBeforeFloor},
		{"a typed turn is answered", typedTurn},
		{"a floor that asks for an answer gets one", floorAnswers},
		{"a spoken turn is answered", spokenTurn},
		{"an interruption stops the turn, not the leg", interruption},
		{"an interruption of an unknown turn is nothing", unknownInterruption},
		{"a tool goes there and back", toolRoundTrip},
		{"the end in mid-answer is no failure", endInAnswer},
		{"the end before ready is no failure", endAtOnce},
		{"the end while nobody takes output", endWhileBlocked},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			s := begin(t, open(t))
			c.run(t, s)
			s.stop()
			if s.subject.Close != nil {
				s.subject.Close()
			}
			goleak.VerifyNone(t, before)
		})
	}
}

func readyFirst(t *testing.T, s *session) {
	s.start(true)
	s.wait("ready", func() bool { return s.ready })
}

// quiet is how long a leg is watched that has no reason to speak.
const quiet = 150 * time.Millisecond

func silentBeforeFloor(t *testing.T, s *session) {
	s.start(true)
	s.wait("ready", func() bool { return s.ready })
	s.types("Somebody wrote this to the pipeline before.", false)
	if s.subject.Speech != nil {
		s.speak()
	}
	s.settle(quiet)
	if n := len(s.turns()); n > 0 {
		t.Errorf("%d turns before the floor", n)
	}
}

func typedTurn(t *testing.T, s *session) {
	s.floor()
	s.types(s.subject.Ask, true)
	turn := s.turnDone(1)
	if turn.text == "" || turn.status != switcher.TurnCompleted {
		t.Errorf("the turn says %q and ends %q", turn.text, turn.status)
	}
	if s.subject.Can.OutRate > 0 && turn.sound == 0 {
		t.Error("a pipeline with sound gave none")
	}
	s.settle(quiet)
	if n := len(s.turns()); n != 1 {
		t.Errorf("one question got %d turns", n)
	}
	s.types(s.subject.Ask, true)
	if again := s.turnDone(2); again.id == turn.id {
		t.Errorf("two turns are called %q", turn.id)
	}
}

func floorAnswers(t *testing.T, s *session) {
	s.record(&chatctx.Message{ID: "waiting", Role: chatctx.RoleUser, Content: chatctx.TextContent(s.subject.Ask)})
	s.start(true)
	s.wait("ready", func() bool { return s.ready })
	s.give(switcher.FloorIn{Respond: true})
	if turn := s.turnDone(1); turn.text == "" {
		t.Error("what stood last in the conversation was not answered")
	}
}

func spokenTurn(t *testing.T, s *session) {
	if s.subject.Speech == nil {
		return
	}
	s.floor()
	s.speak()
	s.wait("the final transcript of the caller", func() bool { return s.callerFinal > 0 })
	if turn := s.turnDone(1); turn.text == "" {
		t.Error("the spoken turn was not answered")
	}
	if s.callerFinal != 1 {
		t.Errorf("%d final transcripts of one utterance", s.callerFinal)
	}
}

func interruption(t *testing.T, s *session) {
	s.floor()
	s.types(s.subject.AskLong, true)
	s.wait("the beginning of a long answer", func() bool { return len(s.order) > 0 })
	id := s.turns()[0].id
	s.put(switcher.InterruptedIn{Item: id, Played: 20 * time.Millisecond})
	if turn := s.turnDone(1); turn.status == switcher.TurnCompleted {
		t.Errorf("the interrupted turn ended %q", turn.status)
	}
	s.types(s.subject.Ask, true)
	if next := s.turnDone(2); next.status != switcher.TurnCompleted {
		t.Errorf("the turn after it ended %q", next.status)
	}
}

func unknownInterruption(t *testing.T, s *session) {
	s.floor()
	s.put(switcher.InterruptedIn{Item: "nobody-knows-it"})
	s.put(switcher.PlayedIn{Item: "nobody-knows-it"})
	s.types(s.subject.Ask, true)
	if turn := s.turnDone(1); turn.status != switcher.TurnCompleted {
		t.Errorf("the turn ended %q", turn.status)
	}
}

func toolRoundTrip(t *testing.T, s *session) {
	if s.subject.AskTool == "" {
		return
	}
	s.floor()
	s.types(s.subject.AskTool, true)
	s.wait("a tool call", func() bool { return len(s.calls) > 0 })
	call := s.calls[0]
	if call.Name != s.subject.Tool || call.CallID == "" || call.Arguments == "" {
		t.Errorf("called %+v", call)
	}
	const answer = "the answer is forty-two"
	s.record(&chatctx.FunctionCall{ID: call.CallID, CallID: call.CallID, Name: call.Name, Arguments: call.Arguments})
	s.record(&chatctx.FunctionCallOutput{ID: call.CallID + "-out", CallID: call.CallID, Name: call.Name, Output: answer})
	s.put(switcher.ToolResultIn{CallID: call.CallID, Name: call.Name, Output: answer})
	s.wait("an answer with the tool's result", func() bool { return contains(s.allText(), answer) })
	s.wait("the end of the turn", func() bool { return s.openTurns() == 0 })
	if len(s.calls) != 1 {
		t.Errorf("%d calls were made, want one", len(s.calls))
	}
}

func endInAnswer(t *testing.T, s *session) {
	s.floor()
	s.types(s.subject.AskLong, true)
	s.wait("the beginning of a long answer", func() bool { return len(s.order) > 0 })
}

func endAtOnce(_ *testing.T, s *session) { s.start(false) }

func endWhileBlocked(_ *testing.T, s *session) {
	s.floor()
	s.block()
	s.types(s.subject.AskLong, true)
	s.wait("an output that nobody takes", func() bool { return s.blocked })
}
