package realtime

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

// seedState is what the provider has still to acknowledge.
type seedState struct {
	waiting map[string]bool // item ids
	count   int             // of items, where the provider gives ids of its own
	counted map[string]bool // ids that were taken for one of them
	calls   map[string]bool // call ids that the provider knows from the seed
}

// greeted: the provider has spoken, so it listens.
func (r *run) greeted() {
	if r.phase != greeting {
		return
	}
	s, err := r.settings()
	if err != nil {
		r.fail(err)
		return
	}
	r.phase = settling
	r.send(&dialect.SessionUpdate{EventID: r.id("setup"), Session: s})
}

// settings are the whole configuration. What the provider would answer by itself it does not before the floor.
func (r *run) settings() (dialect.Session, error) {
	if r.start.InRate != 0 && r.start.InRate != r.p.Rate {
		return dialect.Session{}, &switcher.LegError{Code: "invalid", Message: fmt.Sprintf("the leg is given sound of %d Hz, its Capability asks for %d", r.start.InRate, r.p.Rate)}
	}
	instructions := r.start.Seed.Instructions
	if most := r.p.MaxInstructions; most > 0 && len(instructions) > most {
		return dialect.Session{}, &switcher.LegError{Code: CodeSeed, Message: fmt.Sprintf("the instructions have %d bytes, %s takes %d", len(instructions), r.p.Provider, most)}
	}
	format := &dialect.Format{Type: "audio/pcm", Rate: r.p.Rate}
	in := &dialect.AudioInput{Format: format, TurnDetection: r.turnDetection(false)}
	if r.p.Transcribes {
		in.Transcription = dialect.Some(dialect.Transcription{Model: r.cfg.Transcription, Language: r.cfg.Language})
	}
	s := dialect.Session{Type: "realtime", Instructions: &instructions, OutputModalities: []string{"audio"},
		Audio: &dialect.Audio{Input: in, Output: &dialect.AudioOutput{Format: format}}}
	if r.cfg.Voice != "" {
		s.Audio.Output.Voice, _ = json.Marshal(r.cfg.Voice)
	}
	s.Tools = make([]dialect.Tool, 0, len(r.start.Tools))
	for _, t := range r.start.Tools {
		parameters := json.RawMessage(t.Parameters)
		if len(parameters) == 0 {
			parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		} else if !json.Valid(parameters) {
			return dialect.Session{}, &switcher.LegError{Code: "invalid", Message: fmt.Sprintf("the parameters of the tool %q are no JSON", t.Name)}
		}
		s.Tools = append(s.Tools, dialect.Tool{Type: "function", Name: t.Name, Description: t.Description, Parameters: parameters})
	}
	if len(s.Tools) > 0 {
		s.ToolChoice = json.RawMessage(`"auto"`)
	}
	return s, nil
}

// turnDetection: the session, not the provider, decides whether speech interrupts, so interrupt_response is off.
func (r *run) turnDetection(answer bool) dialect.Opt[dialect.TurnDetection] {
	if !r.cfg.ownTurns() {
		return dialect.Null[dialect.TurnDetection]()
	}
	t := dialect.TurnDetection{Type: "server_vad"}
	if r.p.Answers != AnswersAlways {
		no := false
		t.CreateResponse, t.InterruptResponse = &answer, &no
	}
	if r.cfg.Silence > 0 {
		ms := dialect.Millis(r.cfg.Silence.Milliseconds())
		t.SilenceDurationMs = &ms
	}
	return dialect.Some(t)
}

// settled: the settings are in force; now the seed.
func (r *run) settled(ctx context.Context, s dialect.Session) {
	if r.phase != settling {
		return
	}
	if a := s.Audio; a != nil && a.Output != nil && a.Output.Format != nil && a.Output.Format.Rate >= 8000 && a.Output.Format.Rate <= 48000 {
		r.outRate = a.Output.Format.Rate
	}
	r.ear.padding = defaultPadding
	if a := s.Audio; a != nil && a.Input != nil {
		if t, ok := a.Input.TurnDetection.Get(); ok && t.PrefixPaddingMs != nil {
			r.ear.padding = *t.PrefixPaddingMs
		}
	}
	r.phase = seeding
	r.seed = seedState{waiting: map[string]bool{}, counted: map[string]bool{}, calls: map[string]bool{}}
	conversation, losses := project.OpenAIRealtime(r.start.Seed.Items, r.options(ctx, unanswered(r.start.Seed.Items)))
	r.lost(losses)
	for _, item := range r.start.Seed.Items {
		if c, ok := item.(*chatctx.FunctionCall); ok {
			r.seed.calls[c.CallID] = true
		}
	}
	r.create(conversation, "seed", true)
	r.seeded()
}

// unanswered are the calls that are still being worked on: the log leaves no other without an output.
func unanswered(items chatctx.Items) map[string]bool {
	open := map[string]bool{}
	for _, item := range items {
		switch it := item.(type) {
		case *chatctx.FunctionCall:
			open[it.CallID] = true
		case *chatctx.FunctionCallOutput:
			delete(open, it.CallID)
		}
	}
	return open
}

func (r *run) options(ctx context.Context, running map[string]bool) project.Options {
	o := project.Options{HideTools: r.cfg.HideTools, Running: running, KeepImages: -1}
	if r.p.Images > 0 {
		o.KeepImages, o.MaxImageBytes = r.p.Images, r.p.ImageBytes
	}
	if get := r.start.Image; get != nil {
		o.Images = func(sha256 string) (string, []byte, error) {
			ctx, cancel := context.WithTimeout(ctx, lookTimeout)
			defer cancel()
			return get(ctx, chatctx.BlobPrefix+sha256)
		}
	}
	return o
}

// lost tells of images that did not go with an item.
func (r *run) lost(losses []project.Loss) {
	for _, l := range losses {
		if l.Kind == project.LostImage {
			r.notice(NoticeImageDropped, l.ItemID+": "+l.Detail)
		}
	}
}

// create puts items in at the end of the conversation. chained: each names the one before it, so that a refused one is noticed.
func (r *run) create(c project.RealtimeConversation, purpose string, chained bool) {
	before := ""
	for i := range c.Items {
		e := &dialect.ItemCreate{EventID: r.id(purpose), Item: realtimeItem(c.Items[i])}
		id := e.Item.ID
		if r.p.ClientIDs {
			if chained {
				e.PreviousItemID = before
			}
			before = id
		} else {
			e.Item.ID = ""
		}
		if purpose == "seed" && r.p.Acks {
			if r.p.ClientIDs {
				r.seed.waiting[id] = true
			} else {
				r.seed.count++
			}
		}
		r.send(e)
	}
}

func realtimeItem(i project.RealtimeItem) dialect.Item {
	item := dialect.Item{ID: i.ID, Type: i.Type, Role: i.Role, CallID: i.CallID, Name: i.Name, Arguments: i.Arguments, Output: i.Output}
	for _, p := range i.Content {
		item.Content = append(item.Content, dialect.Part{Type: p.Type, Text: p.Text, ImageURL: p.ImageURL, Detail: p.Detail})
	}
	return item
}

// acknowledged: an item is in the conversation; some servers say it two or three times.
func (r *run) acknowledged(item dialect.Item) {
	if r.phase != seeding {
		return
	}
	delete(r.seed.waiting, item.ID)
	if r.seed.count > 0 && !r.seed.counted[item.ID] {
		r.seed.counted[item.ID] = true
		r.seed.count--
	}
	r.seeded()
}

func (r *run) seeded() {
	if len(r.seed.waiting) > 0 || r.seed.count > 0 {
		return
	}
	r.phase = serving
	r.log.Debug("realtime leg ready", "provider", r.p.Provider, "mode", r.start.Seed.Mode, "items", len(r.start.Seed.Items))
	r.say(switcher.ReadyOut{})
	r.session.Feed()
}

// item puts in what somebody else added to the conversation.
func (r *run) item(ctx context.Context, in switcher.ItemIn) {
	items := chatctx.Items{in.Item}
	switch it := in.Item.(type) {
	case *chatctx.FunctionCall: // a call alone would count as interrupted: it goes with its output
		r.tools.others = append(r.tools.others, it)
		if len(r.tools.others) > mostCalls {
			r.tools.others = r.tools.others[1:]
		}
		return
	case *chatctx.FunctionCallOutput:
		c := r.otherCall(it.CallID)
		if c == nil {
			return
		}
		items = chatctx.Items{c, it}
	}
	conversation, losses := project.OpenAIRealtime(items, r.options(ctx, nil))
	r.lost(losses)
	if text := strings.TrimSpace(conversation.Instructions); text != "" {
		// The session's instructions hold the record of the call: they stay, and these stand where they were given.
		id := r.id("instruct")
		conversation.Items = append([]project.RealtimeItem{{ID: id, Type: dialect.ItemMessage, Role: "system", Content: []project.RealtimePart{{Type: "input_text", Text: text}}}}, conversation.Items...)
	}
	r.create(conversation, "item", false)
	if in.Respond {
		r.newTurn()
		r.respond(nil)
	}
}
