package web

import (
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := fs.ReadFile(Files(), name)
	if err != nil {
		t.Fatalf("embedded file: %v", err)
	}
	return string(b)
}

func files(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[name] = read(t, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestFilesAreEmbedded(t *testing.T) {
	have := files(t)
	for _, name := range []string{"index.html", "app.css", "icon.svg", "js/main.js", "js/wire.js", "js/whip.js", "js/agent.js"} {
		if len(have[name]) == 0 {
			t.Errorf("%s is missing or empty", name)
		}
	}
}

// TestNothingFromElsewhere: the page must work on a machine without any other network than the gateway's.
func TestNothingFromElsewhere(t *testing.T) {
	address := regexp.MustCompile(`(?i)(?:https?:|["'(])//[a-z0-9.-]+\.[a-z]{2,}`)
	allowed := map[string]bool{"http://www.w3.org": true} // the SVG namespace, never fetched
	for name, text := range files(t) {
		for _, found := range address.FindAllString(text, -1) {
			if !allowed[found] {
				t.Errorf("%s names %s", name, found)
			}
		}
		if regexp.MustCompile(`@import|\burl\(\s*["']?(?:https?:|//)`).MatchString(text) {
			t.Errorf("%s imports a style or loads an address", name)
		}
	}
}

// TestPolicyHolds: under ContentSecurityPolicy inline scripts, inline styles, event attributes and eval do not run.
func TestPolicyHolds(t *testing.T) {
	page := read(t, "index.html")
	for what, bad := range map[string]string{
		"inline script":   `(?i)<script(?:\s+(?:type="module"))?\s*>`,
		"inline style":    `(?i)<style|\sstyle=`,
		"event attribute": `(?i)\son[a-z]+=`,
		"script address":  `(?i)javascript:`,
	} {
		if found := regexp.MustCompile(bad).FindString(page); found != "" {
			t.Errorf("index.html has an %s: %q", what, found)
		}
	}
	for name, text := range files(t) {
		if strings.HasSuffix(name, ".js") && regexp.MustCompile(`\beval\(|new Function\(|\.innerHTML|insertAdjacentHTML|setAttribute\('style'`).MatchString(text) {
			t.Errorf("%s makes code, markup or style out of text", name)
		}
	}
}

// TestElementsExist: every id a module or a label asks for is in the page, once.
func TestElementsExist(t *testing.T) {
	page := read(t, "index.html")
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(`\sid="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		ids[m[1]]++
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %q is there %d times", id, n)
		}
	}
	asked := regexp.MustCompile(`\$\('([a-z-]+)'\)|getElementById\('([a-z-]+)'\)|'#([a-z-]+)[ ']|say\('([a-z-]+)'|hop\('([a-z-]+)'`)
	total := 0
	for name, text := range files(t) {
		if !strings.HasSuffix(name, ".js") {
			continue
		}
		for _, m := range asked.FindAllStringSubmatch(text, -1) {
			total++
			id := m[1] + m[2] + m[3] + m[4]
			want := []string{id}
			if m[5] != "" {
				want = []string{"hop-" + m[5], m[5] + "-state", m[5] + "-figures"}
			}
			for _, id := range want {
				if ids[id] == 0 {
					t.Errorf("%s uses #%s, which is not in the page", name, id)
				}
			}
		}
	}
	if total < 60 {
		t.Errorf("only %d uses of ids found: the pattern no longer fits the modules", total)
	}
	for _, m := range regexp.MustCompile(`(?:for|aria-labelledby|aria-describedby|href)="#?([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if strings.Contains(m[1], ".") { // a file
			read(t, m[1])
			continue
		}
		if ids[m[1]] == 0 {
			t.Errorf("index.html points to #%s, which is not in the page", m[1])
		}
	}
}

// TestModulesResolve: every import names a file that is embedded and things it exports.
func TestModulesResolve(t *testing.T) {
	have := files(t)
	imports := regexp.MustCompile(`(?m)^import \{([^}]*)\} from '([^']+)'`)
	n := 0
	for name, text := range have {
		for _, m := range imports.FindAllStringSubmatch(text, -1) {
			n++
			target := path.Join(path.Dir(name), m[2])
			source, ok := have[target]
			if !ok {
				t.Errorf("%s imports %s, which is not embedded", name, m[2])
				continue
			}
			for _, what := range strings.Split(m[1], ",") {
				what = strings.TrimSpace(what)
				if !regexp.MustCompile(`export (?:async )?(?:function|class|const) ` + regexp.QuoteMeta(what) + `[\s(=]`).MatchString(source) {
					t.Errorf("%s imports %s, which %s does not export", name, what, target)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d imports found: the pattern no longer fits the modules", n)
	}
}

// TestModules runs the modules' own tests (web/test); node 18 or later is needed, no package.
func TestModules(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is needed for the page's tests: install the Debian package nodejs")
	}
	tests, err := filepath.Glob("test/*.test.mjs")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no tests of the modules found: %v", err)
	}
	out, err := exec.Command(node, append([]string{"--test"}, tests...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("node --test: %v\n%s", err, out)
	}
}
