package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the module path; every package path in these tests is relative to it ("frames/internal/vpx").
const module = "sightline"

// goFile is one parsed source file of the module.
type goFile struct {
	path    string // slash-separated, relative to the module's root
	pkg     string // its folder
	test    bool
	lines   int
	imports map[string]string // import path -> local name, "" when none is given
	ast     *ast.File
	fset    *token.FileSet
}

func (f *goFile) in(folder string) bool {
	return f.pkg == folder || strings.HasPrefix(f.pkg, folder+"/")
}

// main: part of a program, not of a library.
func (f *goFile) main() bool { return f.ast.Name.Name == "main" }

func (f *goFile) line(p token.Pos) string {
	return f.path + ":" + strconv.Itoa(f.fset.Position(p).Line)
}

var tree = sync.OnceValues(readTree)

func files(t *testing.T) []*goFile {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d Go files found: the walk is wrong", len(all))
	}
	return all
}

// root is the folder of go.mod above this package.
func root() string {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	panic("no go.mod above this package")
}

func readTree() ([]*goFile, error) {
	base := root()
	var all []*goFile
	err := filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")
			if name != base && (hidden || d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := readFile(base, name)
		all = append(all, f)
		return err
	})
	return all, err
}

func readFile(base, name string) (*goFile, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(base, name)
	if err != nil {
		return nil, err
	}
	rel = filepath.ToSlash(rel)
	f := &goFile{path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"),
		lines: strings.Count(string(src), "\n"), imports: map[string]string{}, ast: parsed, fset: fset}
	for _, spec := range parsed.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		f.imports[p] = ""
		if spec.Name != nil {
			f.imports[p] = spec.Name.Name
		}
	}
	return f, nil
}

// closure is every import path that code in the folder reaches through packages of this module, with the first way found.
// Test files count only for the folder itself, and only when asked for.
func closure(all []*goFile, folder string, withTests bool) map[string]string {
	reached := map[string]string{}
	var visit func(pkg, way string, tests bool)
	visit = func(pkg, way string, tests bool) {
		for _, f := range all {
			if f.pkg != pkg || f.test && !tests {
				continue
			}
			for p := range f.imports {
				if _, seen := reached[p]; seen {
					continue
				}
				reached[p] = way + " -> " + p
				if own, ok := strings.CutPrefix(p, module+"/"); ok {
					visit(own, way+" -> "+own, false)
				}
			}
		}
	}
	visit(folder, folder, withTests)
	return reached
}

// folders lists the packages below a folder, itself included.
func folders(all []*goFile, below string) []string {
	seen := map[string]bool{}
	var list []string
	for _, f := range all {
		if f.in(below) && !seen[f.pkg] {
			seen[f.pkg] = true
			list = append(list, f.pkg)
		}
	}
	return list
}
