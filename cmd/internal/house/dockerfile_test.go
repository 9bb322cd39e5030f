package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDockerfile stands in for an image build where no engine is at hand: the scripts it calls are the ones CI runs, so
// what is left to check is that it names scripts, purposes and folders that exist, and installs nothing behind their back.
func TestDockerfile(t *testing.T) {
	base := root()
	text := read(t, filepath.Join(base, "Dockerfile"))

	scripts := regexp.MustCompile(`\bscripts/[a-z]+\b`).FindAllString(text, -1)
	if len(scripts) < 3 {
		t.Errorf("the Dockerfile calls %v: it must build by the same scripts as everybody", scripts)
	}
	for _, script := range scripts {
		if _, err := os.Stat(filepath.Join(base, script)); err != nil {
			t.Errorf("the Dockerfile names %s, which does not exist", script)
		}
	}

	purposes := purposesOf(t, filepath.Join(base, "scripts/lib/packages.txt"))
	for _, call := range regexp.MustCompile(`/install ([a-z ]+)`).FindAllStringSubmatch(text, -1) {
		for _, purpose := range strings.Fields(call[1]) {
			if purposes[purpose] == 0 {
				t.Errorf("the Dockerfile installs for %q, which scripts/lib/packages.txt does not know", purpose)
			}
		}
	}
	if strings.Contains(text, "apt-get") {
		t.Error("the Dockerfile names packages itself: they belong in scripts/lib/packages.txt, where CI installs them too")
	}

	for _, want := range []string{"\nUSER ", "\nHEALTHCHECK ", "\nEXPOSE ", " AS build\n", "-slim\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile has no %q", strings.TrimSpace(want))
		}
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, filepath.Join(base, "go.mod")))
	if version == nil || !strings.Contains(text, "golang:"+version[1]+"-") {
		t.Errorf("the Dockerfile's Go is not the one of go.mod (%v)", version)
	}
	if secret := regexp.MustCompile(`(?mi)^(ARG|ENV) .*(key|token|secret|password)`).FindString(text); secret != "" {
		t.Errorf("a secret in the image: %s", secret)
	}
}

// TestPackageList: every line has its four fields, and every purpose that a script asks for is there.
func TestPackageList(t *testing.T) {
	purposes := purposesOf(t, filepath.Join(root(), "scripts/lib/packages.txt"))
	for _, script := range []string{"build", "check", "test"} {
		for _, call := range regexp.MustCompile(`(?m)^need ([a-z ]+)$`).FindAllStringSubmatch(read(t, filepath.Join(root(), "scripts", script)), -1) {
			for _, purpose := range strings.Fields(call[1]) {
				if purposes[purpose] == 0 {
					t.Errorf("scripts/%s needs %q, which packages.txt does not know", script, purpose)
				}
			}
		}
	}
}

func purposesOf(t *testing.T, list string) map[string]int {
	t.Helper()
	purposes := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(read(t, list)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 || !regexp.MustCompile(`^(cmd|pc|lib|file):\S+$`).MatchString(fields[2]) {
			t.Errorf("packages.txt: %q is not purpose, package, probe, why", line)
			continue
		}
		purposes[fields[0]]++
	}
	return purposes
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
