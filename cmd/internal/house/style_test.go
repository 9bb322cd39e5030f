package house

import (
	"go/ast"
	"strings"
	"testing"
)

// callsForCommands are calls that only a command may make: they reach for the process, not for what was passed in.
var callsForCommands = map[string]string{
	"os.Exit":      "return an error; the command decides how to end",
	"slog.Default": "take the logger of your Config", "slog.SetDefault": "take the logger of your Config",
	"slog.Debug": "take the logger of your Config", "slog.Info": "take the logger of your Config",
	"slog.Warn": "take the logger of your Config", "slog.Error": "take the logger of your Config",
	"fmt.Print": "write to what was passed in", "fmt.Println": "write to what was passed in", "fmt.Printf": "write to what was passed in",
	"http.DefaultServeMux": "make your own mux", "http.Handle": "make your own mux", "http.HandleFunc": "make your own mux",
}

func TestLibraryCodeLeavesTheProcessAlone(t *testing.T) {
	for _, f := range files(t) {
		if f.test || f.in("cmd") || f.main() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := selector.X.(*ast.Ident); ok {
				if advice, bad := callsForCommands[pkg.Name+"."+selector.Sel.Name]; bad {
					t.Errorf("%s: %s.%s: %s", f.line(n.Pos()), pkg.Name, selector.Sel.Name, advice)
				}
			}
			return true
		})
	}
}

func TestNoInitFunctions(t *testing.T) {
	for _, f := range files(t) {
		for _, decl := range f.ast.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && d.Name.Name == "init" {
				t.Errorf("%s: init(): nothing happens because a package was imported", f.line(d.Pos()))
			}
		}
	}
}

// TestMainsOnlyCallRun: a command is a function that tests can call; main hands it the process.
func TestMainsOnlyCallRun(t *testing.T) {
	for _, f := range files(t) {
		if f.test || !f.main() {
			continue
		}
		for _, decl := range f.ast.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Name.Name != "main" {
				continue
			}
			if lines := f.fset.Position(d.End()).Line - f.fset.Position(d.Pos()).Line; lines > 15 {
				t.Errorf("%s: main has %d lines; it only calls run(ctx, args, getenv, stdout, stderr)", f.line(d.Pos()), lines)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			d, ok := n.(*ast.FuncDecl)
			if !ok || d.Name.Name == "main" {
				return true
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Exit" {
					if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "os" {
						t.Errorf("%s: os.Exit outside main", f.line(n.Pos()))
					}
				}
				return true
			})
			return false
		})
	}
}

// TestNoSilentSkips: a tool that is missing is a failure; a test that nobody sees skipping tests nothing.
func TestNoSilentSkips(t *testing.T) {
	for _, f := range files(t) {
		if !f.test || f.in("cmd/internal/house") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if ok && (s.Sel.Name == "SkipNow" || s.Sel.Name == "Skip" || s.Sel.Name == "Skipf") {
				if x, ok := s.X.(*ast.Ident); ok && strings.HasPrefix(x.Name, "t") && !inFuzz(f, n) {
					t.Errorf("%s: a test that skips: make the missing thing a failure", f.line(n.Pos()))
				}
			}
			return true
		})
	}
}

// inFuzz: inside a fuzz target, Skip says "this input is not interesting".
func inFuzz(f *goFile, n ast.Node) bool {
	for _, decl := range f.ast.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok && d.Pos() <= n.Pos() && n.Pos() < d.End() {
			return strings.HasPrefix(d.Name.Name, "Fuzz")
		}
	}
	return false
}
