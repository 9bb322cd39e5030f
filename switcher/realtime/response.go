package realtime

import (
	"maps"
	"strings"
	"time"

	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// Bounds of trying again.
const (
	busyWait    = 250 * time.Millisecond // after "there is an active response" when we know of none
	busyMost    = 40
	failWait    = 500 * time.Millisecond // after an answer that failed by the provider's fault
	silentMost  = 2                      // answers in a row that never came: the connection is dead
	textRetries = 1                      // of an answer without sound
	failRetries = 1
	mostAnswers = 64 // remembered
	// owedWait is how long a provider that answers turns by itself may take to begin: some do not answer what was said over
	// another answer, without a word, and a profile may be wrong.
	owedWait = 6 * time.Second
)

// gate lets one answer at a time into the conversation.
type gate struct {
	auto   bool      // the provider answers the caller's turns by itself
	active string    // the answer that is being made, "" none
	asked  time.Time // response.create was sent and not answered yet, zero: no
	wants  bool      // one more is wanted as soon as that is over
	params *dialect.ResponseParams
	wait   time.Time // not before
	owed   time.Time // since when the provider owes an answer to a turn of the caller, zero: it does not
	last   time.Time // the provider's last word of an answer

	busies, silent int
	texts, fails   int // retries in this turn of the caller
	known          map[string]*response
}

// response is one answer of the provider.
type response struct {
	id         string
	suppressed bool // begun before the floor: nothing of it counts
	done       bool
	sound      bool
	items      []string          // messages, in order
	texts      map[string]string // of messages, as text instead of sound
	textOrder  []string
	calls      []*call
	open       int                              // of calls: not answered yet
	arguments  map[string]dialect.ArgumentsDone // calls told of that way only
}

// get finds a response, or makes one for a server that began it without a word.
func (r *run) answer(id string) *response {
	if id == "" {
		id = r.response.active
	}
	a := r.response.known[id]
	if a == nil {
		if len(r.response.known) > mostAnswers { // of a server that ends none
			maps.DeleteFunc(r.response.known, func(id string, old *response) bool { return id != r.response.active && old.open == 0 })
		}
		a = &response{id: id, suppressed: !r.floor, texts: map[string]string{}, arguments: map[string]dialect.ArgumentsDone{}}
		r.response.known[id] = a
	}
	return a
}

// seen keeps the time of the provider's last word.
func (g *gate) seen(e dialect.ServerEvent, now time.Time) {
	if strings.HasPrefix(e.EventType(), "response.") {
		g.last = now
	}
}

// respond asks for an answer: at once, or when the one that is being made is over.
func (r *run) respond(params *dialect.ResponseParams) {
	r.response.wants, r.response.params = true, params
}

// pump sends the answer that is wanted when nothing stands against it any more.
func (r *run) pump(now time.Time) {
	g := &r.response
	if !r.floor || !g.wants || g.active != "" || !g.asked.IsZero() || r.eyes.looking || now.Before(g.wait) {
		return
	}
	g.wants, g.asked = false, now
	r.send(&dialect.ResponseCreate{EventID: r.id("answer"), Response: g.params})
	g.params = nil
}

// busy: the provider is making an answer already; ours waits for its end.
func (g *gate) busy(now time.Time) {
	g.asked = time.Time{}
	if g.active == "" {
		if g.busies++; g.busies > busyMost {
			return
		}
		g.wait = now.Add(busyWait)
	}
	g.wants, g.owed = true, time.Time{}
}

// refused: the answer that was asked for will not be made.
func (g *gate) refused() { g.asked = time.Time{} }

func (r *run) answerBegins(resp dialect.Response, now time.Time) {
	g := &r.response
	a := r.answer(resp.ID)
	if a.suppressed {
		r.counts.earlyAnswers.Add(1)
		r.send(&dialect.ResponseCancel{EventID: r.id("cancel"), ResponseID: resp.ID})
		return
	}
	g.active, g.asked, g.owed, g.last, g.busies = resp.ID, time.Time{}, time.Time{}, now, 0
}

// answerEvent takes the pieces of an answer.
func (r *run) answerEvent(e dialect.ServerEvent) {
	switch e := e.(type) {
	case *dialect.OutputItemAdded:
		if a := r.answer(e.ResponseID); e.Item.Type == dialect.ItemMessage && !a.suppressed {
			r.turn(e.Item.ID, a)
		}
	case *dialect.OutputItemDone:
		r.itemDone(r.answer(e.ResponseID), e.Item)
	case *dialect.OutputTextDelta:
		r.text(r.answer(e.ResponseID), e.ItemID, e.Delta)
	case *dialect.OutputTextDone:
		if a := r.answer(e.ResponseID); a.texts[e.ItemID] == "" {
			r.text(a, e.ItemID, e.Text)
		}
	case *dialect.OutputAudioDelta:
		r.sound(r.answer(e.ResponseID), e)
	case *dialect.OutputTranscriptDelta:
		r.words(r.answer(e.ResponseID), e.ItemID, e.Delta)
	case *dialect.OutputTranscriptDone:
		r.allWords(r.answer(e.ResponseID), e.ItemID, e.Transcript)
	case *dialect.ArgumentsDone:
		if a := r.answer(e.ResponseID); e.CallID != "" {
			a.arguments[e.CallID] = *e
		}
	}
}

func (r *run) itemDone(a *response, item dialect.Item) {
	if a.suppressed || item.Status != dialect.StatusCompleted {
		return // what it is worth, response.done says
	}
	if item.Type == dialect.ItemCall { // a message stays open until response.done: calls may follow that belong to it
		r.call(a, item)
	}
}

// answerDone is the end of an answer, however it went.
func (r *run) answerDone(resp dialect.Response, now time.Time) {
	g := &r.response
	a := r.answer(resp.ID)
	if g.active == a.id {
		g.active = ""
	}
	a.done = true
	if a.suppressed {
		delete(g.known, a.id)
		return
	}
	g.silent = 0
	if !g.owed.IsZero() {
		g.owed = now // it begins with that only now
	}
	switch resp.Status {
	case dialect.StatusCancelled:
		r.closeAll(a, switcher.TurnCancelled)
	case dialect.StatusFailed:
		r.answerFailed(a, resp, now)
	default: // completed, incomplete, or a server that says nothing
		r.lateCalls(a, resp)
		if resp.Status == dialect.StatusIncomplete && resp.StatusDetails != nil {
			r.notice("answer_incomplete", resp.StatusDetails.Reason)
		}
		r.withoutSound(a)
		r.closeAll(a, switcher.TurnCompleted)
	}
	r.continued(a)
}

// lateCalls takes the calls that only response.done, or function_call_arguments.done, tells of.
func (r *run) lateCalls(a *response, resp dialect.Response) {
	for _, item := range resp.Output {
		if item.Type != dialect.ItemCall {
			continue
		}
		delete(a.arguments, item.CallID)
		if item.Status == dialect.StatusCompleted || item.Status == "" && resp.Status == dialect.StatusCompleted {
			r.call(a, item)
		}
	}
	if resp.Status == dialect.StatusCompleted {
		for _, c := range a.arguments {
			if c.Name != "" {
				r.call(a, dialect.Item{ID: c.ItemID, Type: dialect.ItemCall, CallID: c.CallID, Name: c.Name, Arguments: c.Arguments})
			}
		}
	}
}

// answerFailed tries once more where nothing has been said yet and the fault is the provider's.
func (r *run) answerFailed(a *response, resp dialect.Response, now time.Time) {
	var e dialect.ErrorDetail
	if d := resp.StatusDetails; d != nil && d.Error != nil {
		e = dialect.ErrorDetail{Type: d.Error.Type, Code: d.Error.Code, Message: d.Error.Message}
	}
	if err := r.cfg.death(e); err != nil {
		r.fail(err)
		return
	}
	said := r.closeAll(a, switcher.TurnFailed)
	if !said && len(a.calls) == 0 && r.response.fails < failRetries && e.Type != "invalid_request_error" {
		r.response.fails++
		r.response.wait = now.Add(failWait)
		r.notice("answer_retried", e.Code+": "+e.Message)
		r.respond(nil)
		return
	}
	r.notice(NoticeAnswerFailed, e.Code+": "+e.Message)
}

// NoticeAnswerFailed is the code of the notice that the caller waits for an answer that will not come, or not to its end.
const NoticeAnswerFailed = "answer_failed"

// withoutSound handles an answer that is text though sound was wanted: asked for again once, without the text in the
// conversation, which would draw the next one the same way; else given as text, and the session finds a voice.
func (r *run) withoutSound(a *response) {
	if a.sound || len(a.textOrder) == 0 {
		return
	}
	if len(a.calls) == 0 && r.response.texts < textRetries {
		r.response.texts++
		r.notice("text_only", "the provider answered with text in a session of sound; asked again")
		for _, item := range a.textOrder {
			if r.p.Delete {
				r.send(&dialect.ItemDelete{EventID: r.id("cut"), ItemID: item})
			}
		}
		r.respond(&dialect.ResponseParams{OutputModalities: []string{"audio"}})
		return
	}
	r.notice("text_fallback", "the provider answered with text in a session of sound")
	for _, item := range a.textOrder {
		t := r.turn(item, a)
		if t.closed || t.stopped {
			continue
		}
		t.opened = true
		r.say(switcher.TextOut{Item: t.out, Delta: a.texts[item]})
	}
}

// watch gives up answers that do not come.
func (r *run) watch(now time.Time) {
	g := &r.response
	if !g.owed.IsZero() && g.active == "" && g.asked.IsZero() && now.Sub(g.owed) > owedWait {
		g.owed = time.Time{}
		r.notice("answer_owed", "the provider did not answer a turn by itself; it was asked to")
		r.respond(nil)
	}
	switch {
	case !g.asked.IsZero() && now.Sub(g.asked) > r.cfg.ResponseTimeout:
		g.asked = time.Time{}
		r.notice(NoticeAnswerFailed, "timeout: no answer was begun")
	case g.active != "" && now.Sub(g.last) > r.cfg.ResponseTimeout:
		a := r.answer(g.active)
		g.active = ""
		r.send(&dialect.ResponseCancel{EventID: r.id("cancel"), ResponseID: a.id})
		r.closeAll(a, switcher.TurnFailed)
		r.notice(NoticeAnswerFailed, "timeout: the answer was not finished")
		a.suppressed = true
	case g.busies > busyMost:
		g.busies = 0
		r.notice(NoticeAnswerFailed, codeActive)
	default:
		return
	}
	if g.silent++; g.silent >= silentMost {
		r.fail(&switcher.LegError{Code: "connect", Message: r.p.Provider + " does not answer", Retryable: true})
	}
}
