package gemini_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"sightline/switcher"
	"sightline/switcher/gemini"
	"sightline/switcher/gemini/live"
)

func profiles() []gemini.Profile {
	return []gemini.Profile{gemini.Gemini31(), gemini.Gemini25(), gemini.Vertex(gemini.Gemini31())}
}

// TestTheTableOfProfilesIsTrue holds docs/realtime.md against the profiles.
func TestTheTableOfProfilesIsTrue(t *testing.T) {
	doc, err := os.ReadFile("../../docs/realtime.md")
	if err != nil {
		t.Fatal(err)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	or := func(s, fallback string) string {
		if s == "" {
			return fallback
		}
		return s
	}
	rows := map[string]func(p gemini.Profile) string{
		"base URL":                  func(p gemini.Profile) string { return or(p.BaseURL, "to be given") },
		"key in header":             func(p gemini.Profile) string { return or(p.KeyHeader, "–") },
		"model's prefix":            func(p gemini.Profile) string { return or(p.ModelPrefix, "–") },
		"takes turns it is told of": func(p gemini.Profile) string { return string(p.History) },
		"seeds, best first": func(p gemini.Profile) string {
			var all []string
			for _, s := range p.Seeds {
				all = append(all, string(s))
			}
			return strings.Join(all, ", ")
		},
		"instructions, bytes":   func(p gemini.Profile) string { return fmt.Sprint(p.MaxInstructions) },
		"between two frames":    func(p gemini.Profile) string { return p.FramePause.String() },
		"a frame, base64":       func(p gemini.Profile) string { return fmt.Sprint(p.FrameBytes) },
		"can forget the oldest": func(p gemini.Profile) string { return yes[p.Compression] },
		"could resume":          func(p gemini.Profile) string { return yes[p.Resumes] },
		"longest connection":    func(p gemini.Profile) string { return p.MaxLife.String() },
	}
	for name, cell := range rows {
		line := "| " + name
		for _, p := range profiles() {
			line += " | " + cell(p)
		}
		if !strings.Contains(string(doc), line+" |\n") {
			t.Errorf("docs/realtime.md has no line\n%s |", line)
		}
	}
}

// TestEachProfileDialsAsItsServiceWants: path, key and what the session is told of it.
func TestEachProfileDialsAsItsServiceWants(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	for url, prefix := range map[string]string{server.URL: "", server.URL + "/proxy/": "/proxy", server.URL + "/mine.BidiGenerateContent": "!"} {
		for _, p := range profiles() {
			c := gemini.Config{Profile: p, URL: url, Model: "m", Key: "k"}
			if err := gemini.New(c).Run(t.Context(), switcher.Start{}, switcher.NewInbox(live.InRate, 0), nil); err == nil {
				t.Fatal("no error")
			}
			path := prefix + "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
			key, want := got.Header.Get("x-goog-api-key"), "k"
			if p.Provider == "vertex" {
				path = prefix + "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"
				key, want = got.Header.Get("Authorization"), "Bearer k"
			}
			if prefix == "!" {
				path = "/mine.BidiGenerateContent"
			}
			if got.URL.Path != path || key != want || got.URL.RawQuery != "" {
				t.Errorf("%s: %s, key %q", p.Provider, got.URL, key)
			}
		}
	}
	for _, theirs := range []bool{false, true} {
		can := gemini.Config{Profile: gemini.Gemini31(), TheirTurns: theirs}.Pipeline("name").Can
		if can.InRate != 16000 || can.OutRate != 24000 || can.OwnTurns != theirs || can.MaxLife != gemini.Gemini31().MaxLife {
			t.Errorf("%+v", can)
		}
	}
}
