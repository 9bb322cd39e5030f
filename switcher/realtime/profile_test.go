package realtime_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"sightline/switcher"
	"sightline/switcher/realtime"
)

// TestTheTableOfProfilesIsTrue holds docs/realtime.md against the profiles.
func TestTheTableOfProfilesIsTrue(t *testing.T) {
	doc, err := os.ReadFile("../../docs/realtime.md")
	if err != nil {
		t.Fatal(err)
	}
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	or := func(s, fallback string) string {
		if s == "" {
			return fallback
		}
		return s
	}
	rows := map[string]func(p realtime.Profile) string{
		"":              func(p realtime.Profile) string { return p.Provider },
		"base URL":      func(p realtime.Profile) string { return or(p.BaseURL, "to be given") },
		"key in header": func(p realtime.Profile) string { return or(p.KeyHeader, "–") },
		"Hz in and out": func(p realtime.Profile) string { return fmt.Sprint(p.Rate) },
		"seeds, best first": func(p realtime.Profile) string {
			var all []string
			for _, s := range p.Seeds {
				all = append(all, string(s))
			}
			return strings.Join(all, ", ")
		},
		"instructions, bytes":     func(p realtime.Profile) string { return fmt.Sprint(p.MaxInstructions) },
		"images a turn":           func(p realtime.Profile) string { return fmt.Sprint(p.Images) },
		"images a turn, base64":   func(p realtime.Profile) string { return fmt.Sprint(p.ImageBytes) },
		"truncates":               func(p realtime.Profile) string { return yes(p.Truncate) },
		"deletes items":           func(p realtime.Profile) string { return yes(p.Delete) },
		"finds turns":             func(p realtime.Profile) string { return yes(p.ServerVAD) },
		"answers them":            func(p realtime.Profile) string { return string(p.Answers) },
		"keeps our item ids":      func(p realtime.Profile) string { return yes(p.ClientIDs) },
		"acknowledges items":      func(p realtime.Profile) string { return yes(p.Acks) },
		"transcription asked for": func(p realtime.Profile) string { return yes(p.Transcribes) },
		"could resume":            func(p realtime.Profile) string { return yes(p.Resumes) },
		"longest session": func(p realtime.Profile) string {
			if p.MaxLife == 0 {
				return "–"
			}
			return p.MaxLife.String()
		},
	}
	for name, cell := range rows {
		line := "| " + name
		if name == "" {
			line = "|"
		}
		for _, p := range profiles() {
			line += " | " + cell(p)
		}
		if !strings.Contains(string(doc), line+" |\n") {
			t.Errorf("docs/realtime.md has no line\n%s |", line)
		}
	}
}

// TestEachProfileDialsAsItsProviderWants: URL, key and what the session is told of it.
func TestEachProfileDialsAsItsProviderWants(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	for _, p := range profiles() {
		c := realtime.Config{Profile: p, URL: server.URL + "/openai/v1/?x=1", Model: "a model", Key: "k"}
		if err := realtime.New(c).Run(t.Context(), switcher.Start{}, switcher.NewInbox(24000, 0), nil); err == nil {
			t.Fatal("no error")
		}
		want := http.Header{"Authorization": {"Bearer k"}}
		if p.Provider == "azure" {
			want = http.Header{"Api-Key": {"k"}}
		}
		if got.URL.Path != "/openai/v1/realtime" || got.URL.Query().Get("model") != "a model" || got.URL.Query().Get("x") != "1" {
			t.Errorf("%s: %s", p.Provider, got.URL)
		}
		for _, h := range []string{"Authorization", "Api-Key"} {
			if got.Header.Get(h) != want.Get(h) {
				t.Errorf("%s: %s is %q", p.Provider, h, got.Header.Get(h))
			}
		}
		pipe := c.Pipeline("name")
		if pipe.Kind != switcher.Realtime || pipe.Can.InRate != p.Rate || pipe.Can.OwnTurns != p.ServerVAD || pipe.Can.MaxLife != p.MaxLife || pipe.Provider != p.Provider {
			t.Errorf("%+v", pipe)
		}
		if c.OurTurns = true; c.Pipeline("name").Can.OwnTurns {
			t.Errorf("%s: OwnTurns though the turns are ours", p.Provider)
		}
		if p.Truncate && !p.Delete || p.Images > 0 && p.ImageBytes == 0 || p.ServerVAD == (p.Answers == "" || p.Answers == realtime.AnswersNever) || p.MaxLife < 0 || p.MaxLife > 24*time.Hour {
			t.Errorf("%s contradicts itself: %+v", p.Provider, p)
		}
	}
}
