package load

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flag"
)

func none(string) string { return "" }

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"--help", exitFine, "-max-p99-image-ms"},
		{"--publishers 0", exitUsage, "1 to 10000"},
		{"--agents -1", exitUsage, "0 to 1000"},
		{"--duration 0s", exitUsage, "more than 0"},
		{"--clip no-such-file.ivf", exitUsage, "no-such-file.ivf"},
		{"--agents 0 --max-p99-image-ms 5", exitUsage, "needs agents"},
		{"--max-p99-switch-ms 5", exitUsage, "needs --switch-every"},
		{"--append-every 0s --max-p99-append-ms 5", exitUsage, "needs agents that add messages"},
		{"--max-lost -1", exitUsage, "0 and more"},
		{"--loss 101%", exitUsage, "0% to 100%"},
		{"--loss NaN", exitUsage, "0% to 100%"},
		{"--image-fps 1,zero", exitUsage, "rates are allowed"},
		{"--image-fps NaN", exitUsage, "rates are allowed"},
		{"--max-lost NaN", exitUsage, "0 and more"},
		{"--size 640", exitUsage, "WIDTHxHEIGHT"},
		{"--codec av1", exitUsage, "vp8 and h264"},
		{"--clip a.ivf,b.ivf", exitUsage, "for --simulcast only"},
		{"--simulcast --clip a.ivf", exitUsage, "two or three files"},
		{"--churn 1ms", exitUsage, "500ms and more"},
		{"--agents 0 --switch-every 1s", exitUsage, "needs agents"},
		{"--switch-every 1s --switch-between local", exitUsage, "two names"},
		{"--token a --auth-key b", exitUsage, "one of them"},
		{"--auth-key short --size 16x16 --key-every 100ms", exitUsage, "--auth-key"},
		{"--delay 2m", exitUsage, "0 to 1m"},
		{"extra", exitUsage, `unexpected argument "extra"`},
		{"--url ftp://x --size 16x16 --key-every 100ms", exitUsage, "http://"},
	} {
		var out bytes.Buffer
		if code := Run(t.Context(), strings.Fields(test.args), none, &out, &out, testClip); code != test.code || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: exit %d, printed %q", test.args, code, out.String())
		}
	}
}

func TestFlagsAndTheEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SIGHTLINE_URL": "http://there:1", "SIGHTLINE_TOKEN": "secret-token"}
	o, err := parse(strings.Fields("--loss 5% --image-fps 0.5,2 --simulcast --size 1280x720 --bitrate 1600 --max-lost 0"), func(k string) string { return env[k] }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.url != "http://there:1" || o.token != "secret-token" || o.loss != 0.05 || o.imageFPS.String() != "0.5,2" {
		t.Errorf("%+v", o)
	}
	if !o.limited("max-lost") || o.limited("max-errors") || o.limited("no-such") {
		t.Error("a limit of 0 is a limit, one that nobody gave is none")
	}
	v := o.video()
	if len(v) != 3 || v[0].Width != 320 || v[0].Height != 180 || v[0].Bitrate != 100_000 || v[2].Width != 1280 || v[2].FPS != 30 || v[2].KeyEvery != 4*time.Second {
		t.Errorf("layers %+v", v)
	}
	var help bytes.Buffer
	if _, err := parse([]string{"--help"}, func(k string) string { return env[k] }, &help); err != flag.ErrHelp || strings.Contains(help.String(), "secret-token") {
		t.Errorf("--help gives %v and may not show the token:\n%s", err, help.String())
	}
}

// TestEveryFlagIsInTheDocs also looks the other way round: docs/load.md names no flag of sightline-load that is not there.
func TestEveryFlagIsInTheDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "load.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	newFlags(&options{}, none, io.Discard).VisitAll(func(f *flag.Flag) {
		known["--"+f.Name] = true
		if !strings.Contains(string(text), "| `--"+f.Name+"`") {
			t.Errorf("docs/load.md has no row for --%s", f.Name)
		}
	})
	for line := range strings.Lines(string(text)) {
		name, _, found := strings.Cut(strings.TrimPrefix(line, "| `"), "`")
		if found && strings.HasPrefix(line, "| `--") && !known[name] {
			t.Errorf("docs/load.md tells of %s, which is no flag", name)
		}
	}
}
