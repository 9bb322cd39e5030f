package gemini

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/gemini/live"
)

// seedForm is how what was said before is told.
type seedForm int

const (
	asGiven    seedForm = iota
	instructed          // all in the instructions: the provider has refused the other form
)

const lookTimeout = time.Second // to look, or to fetch a stored image

// setup is the first message, and the only one of its kind: nothing of it can be changed later.
func (r *run) setup(ctx context.Context, now time.Time) {
	r.phase, r.begun, r.history, r.proven = opening, now, false, false
	turns := r.turnsOfSeed(ctx)
	s := &live.Setup{Model: r.cfg.Model, GenerationConfig: live.GenerationConfig{ResponseModalities: []string{"AUDIO"}},
		InputAudioTranscription: &live.Empty{}, OutputAudioTranscription: &live.Empty{}, RealtimeInputConfig: &live.RealtimeInputConfig{}}
	if !strings.Contains(s.Model, "/") {
		s.Model = r.p.ModelPrefix + s.Model
	}
	if r.cfg.Voice != "" || r.cfg.Language != "" {
		s.GenerationConfig.SpeechConfig = &live.SpeechConfig{LanguageCode: r.cfg.Language}
		if r.cfg.Voice != "" {
			s.GenerationConfig.SpeechConfig.VoiceConfig = &live.VoiceConfig{PrebuiltVoiceConfig: live.PrebuiltVoice{VoiceName: r.cfg.Voice}}
		}
	}
	if text := r.instructions(); text != "" {
		s.SystemInstruction = &project.GeminiContent{Parts: []project.GeminiPart{{Text: text}}}
	}
	if r.cfg.TheirTurns {
		s.RealtimeInputConfig.AutomaticActivityDetection = &live.ActivityDetection{SilenceDurationMs: int(r.cfg.Silence.Milliseconds())}
	} else {
		s.RealtimeInputConfig.AutomaticActivityDetection = &live.ActivityDetection{Disabled: true}
	}
	s.RealtimeInputConfig.ActivityHandling = "START_OF_ACTIVITY_INTERRUPTS"
	if r.p.Compression && r.sees() {
		s.ContextWindowCompression = &live.Compression{} // without it video ends the session after two minutes
	}
	if len(turns) > 0 && r.p.History == HistoryInitial {
		s.HistoryConfig = &live.HistoryConfig{InitialHistoryInClientContent: true}
	}
	functions, err := functions(r.start.Tools)
	if err != nil {
		r.fail(err)
		return
	}
	if len(functions) > 0 {
		s.Tools = []live.Tool{{FunctionDeclarations: functions}}
	}
	r.words.history = turns
	r.send(live.Client{Setup: s})
}

func functions(tools []switcher.Tool) (all []live.Function, err error) {
	for _, t := range tools {
		if len(t.Parameters) > 0 && !json.Valid(t.Parameters) {
			return nil, &switcher.LegError{Code: "invalid", Message: fmt.Sprintf("the parameters of the tool %q are no JSON", t.Name)}
		}
		all = append(all, live.Function{Name: t.Name, Description: t.Description, ParametersJSONSchema: t.Parameters})
	}
	return all, nil
}

// instructions are those of the seed, with the record of everything where nothing is told as turns.
func (r *run) instructions() string {
	if r.seed == asGiven && r.p.History != HistoryNone {
		return r.start.Seed.Instructions
	}
	items := append(r.start.Seed.Items[:len(r.start.Seed.Items):len(r.start.Seed.Items)], r.words.told...)
	if len(items) == 0 {
		return r.start.Seed.Instructions
	}
	most := r.p.MaxInstructions
	o := project.SeedOptions{Mode: project.SeedInstructions, Base: r.start.Seed.Instructions, MaxChars: most}
	o.HideTools, o.Running = r.cfg.HideTools, running(items)
	made, _ := project.Seed(items, o)
	for range 4 { // the bound is in bytes, the projector's in code points
		if most <= 0 || len(made.Instructions) <= most {
			break
		}
		o.MaxChars = o.MaxChars * most / len(made.Instructions) * 19 / 20
		made, _ = project.Seed(items, o)
	}
	return made.Instructions
}

// turnsOfSeed are what was said before, as turns.
func (r *run) turnsOfSeed(ctx context.Context) []project.GeminiContent {
	if r.seed != asGiven || r.p.History == HistoryNone || len(r.start.Seed.Items) == 0 {
		return nil
	}
	o := r.options(ctx, running(r.start.Seed.Items))
	o.AllowLastAssistant = r.p.History == HistoryInitial
	made, losses := project.Gemini(r.start.Seed.Items, o)
	r.lost(losses)
	return made.Contents
}

// running are the calls that are still being worked on: the log leaves no other without an output.
func running(items chatctx.Items) map[string]bool {
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
	o := project.Options{HideTools: r.cfg.HideTools, Running: running, KeepImages: -1, GeminiSignature: r.p.Signature}
	if r.p.Video {
		o.KeepImages, o.MaxImageBytes = 0, r.p.FrameBytes
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

// settled: the setup is taken; now what was said before, and no sound or image until that is done.
func (r *run) settled(now time.Time) {
	if r.phase != opening {
		return
	}
	turns := r.words.history
	r.words.history = nil
	if len(turns) == 0 {
		r.serve(now)
		return
	}
	r.phase, r.seeded, r.history = seeding, now, true
	// Announced history ends with turnComplete, which asks for nothing; other turns are not to be answered yet.
	r.send(live.Client{ClientContent: &live.ClientContent{Turns: turns, TurnComplete: r.p.History == HistoryInitial}})
}

func (r *run) serve(now time.Time) {
	r.phase = serving
	if !r.ready {
		r.ready = true
		r.log.Debug("gemini leg ready", "provider", r.p.Provider, "mode", r.start.Seed.Mode, "items", len(r.start.Seed.Items), "instructed", r.seed == instructed)
		r.say(switcher.ReadyOut{})
		r.session.Feed()
	}
	r.release(now)
}

// fallBack begins anew with all in the instructions. What the provider was asked meanwhile is asked again.
func (r *run) fallBack() {
	r.err, r.phase, r.seed = nil, opening, instructed
	r.notice(NoticeSeedFallback, r.p.Provider+" refuses what was said before as turns: it is told in the instructions")
	if !r.gate.asked.IsZero() {
		r.gate.asked, r.gate.wants = time.Time{}, true
	}
	if r.ear.state == open {
		r.ear.state, r.ear.final = waiting, false
	}
	r.ear.pending = r.ear.pending[:0]
}

// NoticeSeedFallback is the code of the notice that what was said before is told in another form than the seed's mode.
const NoticeSeedFallback = "seed_fallback"
