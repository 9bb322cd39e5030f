package main

import (
	"errors"
	"fmt"
	"strings"

	"sightline/switcher"
	"sightline/switcher/gemini"
	"sightline/switcher/realtime"
	"sightline/switcher/ultravox"
)

// realtimeProfiles are the providers of one model that hears and speaks.
var realtimeProfiles = []string{"openai", "azure", "xai", "localai", "vllm", "gemini", "gemini-2.5", "vertex", "ultravox"}

// realtimePipeline is the one that --realtime-profile names.
func (s *pipelineSettings) realtimePipeline() (switcher.Pipeline, error) {
	e := s.realtime
	dialects := map[string]func() realtime.Profile{
		"openai": realtime.OpenAI, "azure": realtime.Azure, "xai": realtime.XAI, "localai": realtime.LocalAI, "vllm": realtime.VLLM,
	}
	geminis := map[string]func() gemini.Profile{
		"gemini": gemini.Gemini31, "gemini-2.5": gemini.Gemini25, "vertex": func() gemini.Profile { return gemini.Vertex(gemini.Gemini31()) },
	}
	var p switcher.Pipeline
	base := "" // of the provider, where it has one
	switch {
	case dialects[e.profile] != nil:
		cfg := realtime.Config{Profile: dialects[e.profile](), URL: e.url, Model: e.model, Key: e.key, Voice: s.realtimeRole}
		p, base = cfg.Pipeline(hostedRealtime), cfg.Profile.BaseURL
	case geminis[e.profile] != nil:
		cfg := gemini.Config{Profile: geminis[e.profile](), URL: e.url, Model: e.model, Key: e.key, Voice: s.realtimeRole}
		p, base = cfg.Pipeline(hostedRealtime), cfg.Profile.BaseURL
	case e.profile == ultravox.Provider:
		p, base = ultravox.Config{URL: e.url, Model: e.model, Key: e.key, Voice: s.realtimeRole}.Pipeline(hostedRealtime), ultravox.BaseURL
	default:
		return p, fmt.Errorf("--realtime-profile %q: allowed are %s", e.profile, strings.Join(realtimeProfiles, ", "))
	}
	switch {
	case e.model == "":
		return p, errors.New("--realtime-profile needs --realtime-model")
	case e.url == "" && base == "":
		return p, fmt.Errorf("--realtime-profile %s needs --realtime-url", e.profile)
	}
	return p, nil
}
