package house

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// TestOneSentencePerPackage: each package says once what it is for, in the form that go doc expects.
func TestOneSentencePerPackage(t *testing.T) {
	docs := map[string][]*goFile{}
	for _, f := range files(t) {
		if _, seen := docs[f.pkg]; !seen {
			docs[f.pkg] = nil
		}
		if f.ast.Doc != nil && !f.test {
			docs[f.pkg] = append(docs[f.pkg], f)
		}
	}
	for pkg, with := range docs {
		if len(with) != 1 {
			t.Errorf("%s has %d package comments, want exactly one", pkg, len(with))
			continue
		}
		text, want := with[0].ast.Doc.Text(), "Package "+with[0].ast.Name.Name+" "
		if with[0].ast.Name.Name == "main" {
			want = "Command " + path.Base(pkg) + " "
		}
		if !strings.HasPrefix(text, want) {
			t.Errorf("%s: the package comment starts %q, want %q", with[0].path, firstLine(text), want)
		}
		if first, _, _ := strings.Cut(text, "\n\n"); !strings.HasSuffix(strings.TrimSpace(first), ".") {
			t.Errorf("%s: the package sentence has no end", with[0].path)
		}
	}
}

// TestExportedNamesAreDocumented holds for the packages that others may import.
// A method that an interface of the same package names is documented there.
func TestExportedNamesAreDocumented(t *testing.T) {
	contracts := map[string]bool{}
	for _, f := range files(t) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						contracts[f.pkg+"."+name.Name] = true
					}
				}
			}
			return true
		})
	}
	for _, f := range files(t) {
		if f.test || f.main() || strings.Contains("/"+f.pkg+"/", "/internal/") {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				known := wellKnown[d.Name.Name] || d.Recv != nil && contracts[f.pkg+"."+d.Name.Name]
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil && !known {
					t.Errorf("%s: %s has no comment", f.line(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				undocumented(d, func(pos token.Pos, name string) { t.Errorf("%s: %s has no comment", f.line(pos), name) })
			}
		}
	}
}

// wellKnown methods say nothing that their standard interface does not say.
var wellKnown = map[string]bool{"Error": true, "String": true, "Unwrap": true, "Len": true, "Less": true, "Swap": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true, "LogValue": true, "Is": true}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	kind := d.Recv.List[0].Type
	for {
		switch k := kind.(type) {
		case *ast.StarExpr:
			kind = k.X
		case *ast.IndexExpr:
			kind = k.X
		case *ast.IndexListExpr:
			kind = k.X
		case *ast.Ident:
			return k.IsExported()
		default:
			return false
		}
	}
}

// undocumented reports the exported names of a declaration that neither they nor their group have a comment for.
func undocumented(d *ast.GenDecl, report func(token.Pos, string)) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
				report(s.Pos(), s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
					report(s.Pos(), name.Name)
				}
			}
		}
	}
}

// longest is how many lines a file may have: beyond that it holds more than one idea, or a reason stands here.
const longest = 450

var longForAReason = map[string]string{}

func TestFilesAreReadableInOneSitting(t *testing.T) {
	for _, f := range files(t) {
		why, listed := longForAReason[f.path]
		switch {
		case f.lines > longest && !listed:
			t.Errorf("%s has %d lines, more than %d: split it by idea, or give a reason in longForAReason", f.path, f.lines, longest)
		case f.lines <= longest && listed:
			t.Errorf("%s is in longForAReason (%s) and no longer long: take it out", f.path, why)
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
