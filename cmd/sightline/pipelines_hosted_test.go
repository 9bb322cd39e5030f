package main

import (
	"strings"
	"testing"

	"sightline/switcher"
)

// TestEachRealtimeProfileMakesAPipeline, and says what it still needs.
func TestEachRealtimeProfileMakesAPipeline(t *testing.T) {
	own := map[string]bool{"azure": true, "localai": true, "vllm": true, "vertex": true} // a host of one's own
	for _, name := range realtimeProfiles {
		s := pipelineSettings{realtime: engineSettings{profile: name, model: "m", url: "https://host"}}
		p, err := s.realtimePipeline()
		if err != nil || p.Name != hostedRealtime || p.Kind != switcher.Realtime || p.Provider != strings.TrimSuffix(name, "-2.5") || p.Can.InRate == 0 || p.Can.OutRate == 0 || p.New() == nil {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		s.realtime.url = ""
		if _, err := s.realtimePipeline(); (err != nil) != own[name] {
			t.Errorf("%s without a URL: %v", name, err)
		}
		s.realtime.model = ""
		if _, err := s.realtimePipeline(); err == nil || !strings.Contains(err.Error(), "--realtime-model") {
			t.Errorf("%s without a model: %v", name, err)
		}
	}
	s := pipelineSettings{realtime: engineSettings{profile: "siri", model: "m"}}
	if _, err := s.realtimePipeline(); err == nil || !strings.Contains(err.Error(), "ultravox") {
		t.Errorf("an unknown one: %v", err)
	}
}
