package main

import (
	"os"
	"path/filepath"
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

// TestFailOverLists: addresses, models, keys and profiles with commas between them are engines in the order in which they are asked.
func TestFailOverLists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("k2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		e    engineSettings
		want string // url model key profile, or what the error says
	}{
		{engineSettings{}, ""},
		{engineSettings{url: "http://a", model: "m"}, "http://a m  "},
		{engineSettings{url: "http://a, http://b", model: "m", key: "k1,@" + file}, "http://a m k1 |http://b m k2 "},
		{engineSettings{url: "http://a,http://b", model: "m1,m2", profile: "ollama"}, "http://a m1  ollama|http://b m2  ollama"},
		{engineSettings{url: "http://a,http://b,http://c", model: "m1,m2"}, "--llm-model has 2 values for 3 addresses"},
		{engineSettings{url: "http://a", model: "m1,m2"}, "--llm-model has 2 values for 1 addresses"},
		{engineSettings{url: "http://a,,http://c", model: "m"}, "one of the addresses between its commas is empty"},
		{engineSettings{url: "http://a"}, "--llm-url needs --llm-model"},
		{engineSettings{url: "http://a", model: "m", key: "@/nowhere/key"}, "/nowhere/key"},
	} {
		all, err := c.e.each("llm")
		var got []string
		for _, e := range all {
			got = append(got, strings.Join([]string{e.url, e.model, e.key, e.profile}, " "))
		}
		if err != nil {
			if c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %q", c.e, err, c.want)
			}
		} else if strings.Join(got, "|") != c.want {
			t.Errorf("%+v: %q, want %q", c.e, got, c.want)
		}
	}
	s := pipelineSettings{llm: engineSettings{url: "http://a,http://b", model: "m"}, stt: engineSettings{url: "http://a,http://b", model: "m"}, tts: engineSettings{url: "http://a,http://b", model: "m"}, ttsVoice: "alloy"}
	models, err := s.hostedModels(nil)
	e, err2 := s.hostedEngines(nil)
	if err != nil || err2 != nil || len(models) != 2 || len(e.recognizers) != 2 || len(e.voices) != 2 {
		t.Errorf("%d models, %+v; %v, %v", len(models), e, err, err2)
	}
}
