package house

import (
	"strings"
	"testing"
)

// The way of dependencies (ARCHITECTURE.md): cmd -> gateway -> {frames, switcher} -> context; cmd -> web.
// A rule holds for every package below the folder, through every package of this module that it reaches.
var forbidden = []struct {
	folder string
	paths  []string // import paths, each with everything below it
	except []string
	code   bool // the tests of the folder may
	why    string
}{
	{folder: "context", paths: []string{"sightline/gateway", "sightline/frames", "sightline/switcher", "sightline/web", "sightline/cmd"},
		why: "the conversation is the bottom layer: everything may rest on it, it rests on nothing of ours"},
	{folder: "context", paths: []string{"github.com/pion", "github.com/gorilla", "github.com/pixiv", "C"},
		why: "the conversation and its tests need no media stack and no C compiler"},
	{folder: "switcher", paths: []string{"sightline/gateway", "sightline/frames", "sightline/web", "sightline/cmd"},
		why: "the switcher decides who has the floor; it knows neither HTTP nor pictures"},
	{folder: "switcher", paths: []string{"github.com/pion", "github.com/pixiv", "C"},
		why: "the switcher and its tests need no media stack and no C compiler"},
	{folder: "frames", paths: []string{"sightline/gateway", "sightline/switcher", "sightline/web", "sightline/cmd"},
		why: "frames turns packets into images for whoever asks; it must be usable without a gateway"},
	{folder: "frames", paths: []string{"github.com/pion"}, except: []string{"github.com/pion/rtp"},
		why: "packets come in as *rtp.Packet; only the gateway knows peer connections"},
	{folder: "frames", paths: []string{"net/http", "github.com/gorilla"},
		why: "frames speaks no network protocol but RTP"},
	{folder: "gateway", paths: []string{"sightline/cmd"},
		why: "commands use the gateway, never the other way round"},
	{folder: "gateway", paths: []string{"sightline/web"},
		why: "the page is handed in as an fs.FS: who embeds the gateway need not carry our page"},
	{folder: "cmd/sightline", paths: []string{"sightline/internal"}, code: true,
		why: "a bad network and a leak check are for tests and for the load tool, not for the server"},
	{folder: "web", paths: []string{"sightline"},
		why: "web is files and nothing else"},
	{folder: "cmd/sightline-agent", paths: []string{"sightline/gateway", "github.com/pion", "C"}, except: []string{"sightline/gateway/wire", "sightline/gateway/problem"}, code: true,
		why: "the reference agent shows what an agent needs: the wire and nothing of the gateway"},
}

func TestForbiddenImports(t *testing.T) {
	all := files(t)
	for _, rule := range forbidden {
		packages := folders(all, rule.folder)
		if len(packages) == 0 {
			t.Errorf("no package below %s: the rule guards nothing", rule.folder)
		}
		for _, pkg := range packages {
			for imported, way := range closure(all, pkg, !rule.code) {
				if below(imported, rule.paths) && !below(imported, rule.except) {
					t.Errorf("%s\n\tbecause %s", way, rule.why)
				}
			}
		}
	}
}

// Some imports have one home.
var homes = []struct {
	path  string
	below bool // and everything below it
	homes []string
	tests []string // where tests may, beyond that; "." = everywhere
	mains bool     // and tools elsewhere that are programs of their own
	why   string
}{
	{path: "C", homes: []string{"frames/internal", "gateway/sound/internal"}, why: "cgo stands behind the fences of frames/internal (pixels) and gateway/sound/internal (the audio codec), in leaf packages that speak Go types"},
	{path: "unsafe", homes: []string{"frames/internal", "gateway/sound/internal", "gateway/rtc/internal/batch"}, tests: []string{"."},
		why: "unsafe is for the C boundary, and for the one system call that net does not know; tests may look into what they cannot ask"},
	{path: "github.com/pixiv/go-libjpeg/jpeg", homes: []string{"frames/internal/stilljpeg"}, tests: []string{"frames/internal"},
		why: "its crashes (unpadded planes, failing readers and writers, nil options) are guarded in that one package"},
	{path: "github.com/pion/mediadevices", below: true, homes: []string{"cmd"}, why: "it makes the synthetic video of load tests; the server decodes with its own code"},
	{path: "log", homes: []string{"cmd"}, tests: []string{"."}, mains: true, why: "library code logs through the slog.Logger of its Config"},
	{path: "flag", homes: []string{"cmd"}, tests: []string{"."}, mains: true, why: "library code is configured by its Config"},
	{path: "os/exec", homes: []string{"switcher/local"}, mains: true, tests: []string{"."}, why: "the product starts no other program but the local engines; tests and measuring tools may (ffmpeg, browsers)"},
}

func TestImportsWithOneHome(t *testing.T) {
	for _, f := range files(t) {
		for _, rule := range homes {
			if f.inAny(rule.homes) || f.test && f.inAny(rule.tests) || rule.mains && f.main() {
				continue
			}
			for imported := range f.imports {
				if imported == rule.path || rule.below && below(imported, []string{rule.path}) {
					t.Errorf("%s imports %s, which is for %v only: %s", f.path, imported, rule.homes, rule.why)
				}
			}
		}
	}
}

func TestContextIsImportedAsChatctx(t *testing.T) {
	for _, f := range files(t) {
		if name, ok := f.imports[module+"/context"]; ok && name != "chatctx" {
			t.Errorf("%s imports %s/context as %q: write chatctx %q, or it hides the standard package", f.path, module, name, module+"/context")
		}
		if f.pkg == "context" && strings.TrimSuffix(f.ast.Name.Name, "_test") != "chatctx" {
			t.Errorf("%s declares package %s, want chatctx", f.path, f.ast.Name.Name)
		}
	}
}

func (f *goFile) inAny(folders []string) bool {
	for _, folder := range folders {
		if folder == "." || f.in(folder) {
			return true
		}
	}
	return false
}

// below tells whether an import path is one of the paths or lies below one.
func below(imported string, paths []string) bool {
	for _, p := range paths {
		if imported == p || strings.HasPrefix(imported, p+"/") {
			return true
		}
	}
	return false
}
