package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	chatctx "sightline/context"
	"sightline/context/window"
	"sightline/frames"
	"sightline/gateway"
	gatewayrealtime "sightline/gateway/realtime"
	"sightline/switcher"
	"sightline/switcher/cascade"
	"sightline/switcher/local"
)

// pipelineSettings are serve's flags about what sessions talk with.
type pipelineSettings struct {
	stills       *frames.Stills // makes images smaller
	first        string
	instructions string
	noTools      bool
	switchTool   bool
	bargeIn      string
	bargeInWords int
	bargeInAfter time.Duration
	endOfTurn    time.Duration
	maxTokens    int
	maxItems     int
	keepTurns    int
	llm          engineSettings
	stt          engineSettings
	tts          engineSettings
	ttsVoice     string
	realtime     engineSettings
	realtimeRole string // its voice
}

// The names of the built-in pipelines.
const (
	localCascade   = "local"
	localRealtime  = "local-realtime"
	hostedCascade  = "hosted"
	hostedRealtime = "hosted-realtime"

	pipelineAuto = "auto"
	pipelineNone = "none"
)

func (s *pipelineSettings) flags(f *flag.FlagSet) {
	f.StringVar(&s.first, "pipeline", pipelineAuto, "`name` or kind of the pipeline that sessions begin with: local, local-realtime, hosted, hosted-realtime, cascade, realtime, none; auto: the first that is set up")
	f.StringVar(&s.instructions, "instructions", "", "`text` that tells the model what to do, or @FILE")
	f.BoolVar(&s.noTools, "no-tools", false, "do not offer the built-in demo tools (lookup_order, current_time, read_text)")
	f.BoolVar(&s.switchTool, "switch-tool", false, "let models switch between pipelines by a tool")
	f.StringVar(&s.bargeIn, "barge-in", "on", "on or off: whether the caller's speech stops the agent's")
	f.IntVar(&s.bargeInWords, "barge-in-words", 0, "stop the agent only when so many `words` of the caller are understood")
	f.DurationVar(&s.bargeInAfter, "barge-in-after", 0, "stop the agent only when the caller has spoken for so long")
	f.DurationVar(&s.endOfTurn, "end-of-turn", 600*time.Millisecond, "silence after which the caller's turn is over")
	f.IntVar(&s.maxTokens, "max-context-tokens", 0, "`tokens` of a conversation above which its oldest part is summed up by --llm-model, or removed where there is none; 0 = it grows")
	f.IntVar(&s.maxItems, "max-context-items", 0, "the same in `items`")
	f.IntVar(&s.keepTurns, "keep-recent-turns", window.DefaultKeepRecentTurns, "newest `turns` of the caller that stay word for word")
	for _, e := range []struct {
		name, what string
		to         *engineSettings
	}{
		{"llm", "a server with an OpenAI-compatible chat/completions", &s.llm},
		{"stt", "a server with an OpenAI-compatible audio/transcriptions; without it the local engine hears", &s.stt},
		{"tts", "a server with an OpenAI-compatible audio/speech; without it the local engine speaks", &s.tts},
		{"realtime", "a server of the OpenAI Realtime dialect; the profile's own where it has one", &s.realtime},
	} {
		f.StringVar(&e.to.url, e.name+"-url", "", "base `URL` of "+e.what+", up to and with the version"+more(e.name))
		f.StringVar(&e.to.model, e.name+"-model", "", "`model` there")
		f.StringVar(&e.to.key, e.name+"-key", "", "`key` for it, or @FILE; better in the environment than on the command line")
	}
	f.StringVar(&s.llm.profile, "llm-profile", "", "`server` behind --llm-url: openai, llamacpp, vllm, ollama, localai; default: found out")
	f.StringVar(&s.ttsVoice, "tts-voice", "alloy", "`voice` of the server behind --tts-url")
	f.StringVar(&s.realtime.profile, "realtime-profile", "", "`provider` of realtime speech: "+strings.Join(realtimeProfiles, ", "))
	f.StringVar(&s.realtimeRole, "realtime-voice", "", "`voice` of that provider; default: its own")
}

// more tells of the lists that engines of a cascade may be.
func more(name string) string {
	if name == "realtime" {
		return ""
	}
	return "; with commas, also of those that are asked when it fails, in this order"
}

func (s *pipelineSettings) check() error {
	if s.bargeIn != "on" && s.bargeIn != "off" {
		return fmt.Errorf("--barge-in %q: allowed are on and off", s.bargeIn)
	}
	if s.bargeInWords < 0 || s.bargeInAfter < 0 || s.bargeInAfter > 10*time.Second || s.endOfTurn < 250*time.Millisecond || s.endOfTurn > 10*time.Second {
		return fmt.Errorf("--barge-in-words is 0 or more, --barge-in-after 0 to 10s, --end-of-turn 250ms to 10s")
	}
	if s.maxTokens < 0 || s.maxItems < 0 || s.keepTurns < 0 {
		return fmt.Errorf("--max-context-tokens, --max-context-items and --keep-recent-turns are 0 or more")
	}
	for _, e := range []struct {
		name string
		engineSettings
	}{{"llm", s.llm}, {"stt", s.stt}, {"tts", s.tts}} {
		if _, err := e.each(e.name); err != nil {
			return err
		}
	}
	if s.realtime.url != "" && s.realtime.profile == "" {
		return fmt.Errorf("--realtime-url needs --realtime-profile: %s", strings.Join(realtimeProfiles, ", "))
	}
	for _, v := range []*string{&s.instructions, &s.realtime.key} {
		if err := fromFile(v); err != nil {
			return err
		}
	}
	return nil
}

// fromFile puts a file's content in the place of its name.
func fromFile(v *string) error {
	name, ok := strings.CutPrefix(*v, "@")
	if !ok {
		return nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	*v = strings.TrimSpace(string(data))
	return nil
}

// talk is what sessions talk with, and what has to run for that.
type talk struct {
	gateway.PipelineConfig
	local    *local.Engines            // nil: not installed
	loopback *gatewayrealtime.Loopback // serves the local engines as a realtime model; nil without them
	notes    []string                  // for the operator
}

// pipelines makes what sessions talk with.
func (s *pipelineSettings) pipelines(log *slog.Logger) (*talk, error) {
	t := &talk{PipelineConfig: gateway.PipelineConfig{
		Instructions: s.instructions, SwitchTool: s.switchTool,
		BargeIn:  switcher.BargeIn{Off: s.bargeIn == "off", MinWords: s.bargeInWords, MinSpeech: s.bargeInAfter},
		Failover: switcher.Failover{Phrase: "One moment, please.", Apology: "Sorry, I cannot answer that at the moment. Please try again."},
	}}
	t.Turns.EndOfTurn = s.endOfTurn
	t.Window.KeepRecentTurns = &s.keepTurns
	if s.maxTokens > 0 {
		t.Window.MaxTokens = &s.maxTokens
	}
	if s.maxItems > 0 {
		t.Window.MaxContextItems = &s.maxItems
	}
	if s.first == pipelineNone && s.llm.url == "" && s.realtime.profile == "" {
		return t, nil // nothing is wanted: no engine is looked for either
	}
	e, err := s.hostedEngines(log)
	if err != nil {
		return nil, err
	}
	if err := t.findLocal(s, &e, log); err != nil {
		return nil, err
	}
	if err := s.addHosted(&t.PipelineConfig, e, log); err != nil {
		return nil, err
	}
	t.addLocal(e, log)
	if len(e.voices) > 0 {
		t.Voice = speaker(e.voices)
	}
	switch s.first {
	case pipelineNone:
	case pipelineAuto:
		if len(t.Builtin) > 0 {
			t.First = t.Builtin[0].Name
		}
	default:
		t.First = s.first
	}
	return t, checkFirst(t.PipelineConfig)
}

// findLocal adds the engines of this machine behind the hosted ones, and says what is missing.
func (t *talk) findLocal(s *pipelineSettings, e *engines, log *slog.Logger) error {
	missing := map[string]bool{}
	for _, m := range local.Check() {
		missing[m.Engine] = true
		t.notes = append(t.notes, m.Sentence)
	}
	made, err := local.New(local.Config{Log: log})
	if err != nil {
		return err
	}
	if !missing["pocketsphinx"] {
		e.recognizers = append(e.recognizers, made.Recognizer)
	}
	if !missing["flite"] {
		e.voices = append(e.voices, made.Voice)
	}
	if !missing["pocketsphinx"] && !missing["flite"] {
		t.local = made
	}
	if s.noTools {
		return nil
	}
	tools := local.Tools{}
	if !missing["tesseract"] {
		tools.Read = made.Reader
		tools.Look = func(context.Context, time.Duration) []switcher.Sight { return nil } // each call has the session's own
	}
	for _, tool := range tools.List() {
		t.Tools = append(t.Tools, gateway.BuiltinTool{Tool: tool, Run: func(ctx context.Context, arguments string, look func(context.Context, time.Duration) []switcher.Sight) (string, bool) {
			mine := tools
			mine.Look = look
			return mine.Run(ctx, switcher.ToolCallOut{Name: tool.Name, Arguments: arguments})
		}})
	}
	return nil
}

func checkFirst(c gateway.PipelineConfig) error {
	var names []string
	for _, p := range c.Builtin {
		if p.Name == c.First || string(p.Kind) == c.First {
			return nil
		}
		names = append(names, p.Name)
	}
	if c.First == "" {
		return nil
	}
	if len(names) == 0 {
		return fmt.Errorf("--pipeline %s: none is set up; install the local engines, or name servers with --llm-url or --realtime-profile", c.First)
	}
	return fmt.Errorf("--pipeline %s: set up are %s", c.First, strings.Join(names, ", "))
}

func (s *pipelineSettings) addHosted(c *gateway.PipelineConfig, e engines, log *slog.Logger) error {
	models, err := s.hostedModels(log)
	if err != nil {
		return err
	}
	if len(models) > 0 {
		c.Window.SummaryLLM = summarizer{models[0]}
		c.Builtin = append(c.Builtin, cascadePipeline(hostedCascade, "openai-compatible", e, models, log))
	}
	if s.realtime.profile != "" {
		p, err := s.realtimePipeline()
		if err != nil {
			return err
		}
		c.Builtin = append(c.Builtin, p)
	}
	return nil
}

// summarizer asks the model of the cascade for summaries.
type summarizer struct{ model cascade.Model }

// Summarize implements window.Summarizer.
func (s summarizer) Summarize(ctx context.Context, r window.Request) (string, error) {
	var text strings.Builder
	ask := cascade.Request{At: time.Now(), Instructions: r.Instructions, Items: chatctx.Items{
		&chatctx.Message{ID: "summary-request", Role: chatctx.RoleUser, Content: chatctx.TextContent(r.Conversation)},
	}}
	_, err := s.model.Answer(ctx, ask, func(d cascade.Delta) error { text.WriteString(d.Text); return nil })
	return text.String(), err
}

// cascadePipeline offers a cascade of these engines.
func cascadePipeline(name, provider string, e engines, models []cascade.Model, log *slog.Logger) switcher.Pipeline {
	cfg := cascade.Config{Recognizers: e.recognizers, Models: models, Voices: e.voices, Log: log}
	return switcher.Pipeline{
		Name: name, Kind: switcher.Cascade, Provider: provider, Can: cfg.Capability(), New: func() switcher.Leg { return cascade.New(cfg) },
	}
}

// speaker is the voice of what no leg says: the first that works.
func speaker(voices []cascade.Voice) func(context.Context, string, func(int, []int16) error) error {
	return func(ctx context.Context, text string, yield func(rate int, pcm []int16) error) error {
		var errs []error
		for _, v := range voices {
			said := false
			err := v.Speak(ctx, text, func(pcm []int16) error {
				said = true
				return yield(v.Rate(), pcm)
			})
			if err == nil || said || ctx.Err() != nil {
				return err
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}
