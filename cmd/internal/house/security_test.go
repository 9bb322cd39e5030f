package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func securityDoc(t *testing.T, after, before string) []string {
	t.Helper()
	return tableRows(t, "SECURITY.md", after, before)
}

// tableRows are the rows of a document's tables between two places; headings of later tables are among them.
func tableRows(t *testing.T, name, after, before string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(), name))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(data), after)
	if before != "" {
		text, _, _ = strings.Cut(text, before)
	}
	var rows []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|---") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	if len(rows) < 20 {
		t.Fatalf("only %d rows after %q", len(rows), after)
	}
	return rows[1:]
}

// TestThreatsHaveTests: a threat or fault whose test was renamed or deleted has none.
func TestThreatsHaveTests(t *testing.T) {
	there := map[string]bool{}
	for _, f := range files(t) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test && fn.Recv == nil {
				there[fn.Name.Name] = true
			}
		}
	}
	rows := append(securityDoc(t, "## Threats", "Known, and left so"), tableRows(t, "docs/faults.md", "## Network", "**Leaks.**")...)
	for _, row := range rows {
		if strings.HasPrefix(row, "| fault |") {
			continue
		}
		cells := strings.Split(row, "|")
		named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(cells[len(cells)-2], -1)
		if len(named) == 0 {
			t.Errorf("no test: %s", row)
		}
		for _, m := range named {
			if !there[m[1]] {
				t.Errorf("there is no %s: %s", m[1], row)
			}
		}
	}
}

// TestBoundsAreAsDocumented reads each bound of SECURITY.md from the code: a constant, or what a flag is when nobody sets it.
func TestBoundsAreAsDocumented(t *testing.T) {
	c := constants{map[string]constant{}}
	flags := map[string]constant{}
	for _, f := range files(t) {
		if f.test {
			continue
		}
		c.collect(f)
		if f.pkg == "cmd/sightline" {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 4 {
					return true
				}
				if name, ok := call.Args[1].(*ast.BasicLit); ok && name.Kind == token.STRING {
					flags["--"+strings.Trim(name.Value, `"`)] = constant{f, call.Args[2]}
				}
				return true
			})
		}
	}
	for _, row := range securityDoc(t, "## Bounds", "") {
		cells := strings.Split(row, "|")
		bound, where := strings.TrimSpace(cells[2]), strings.Trim(strings.TrimSpace(cells[3]), "`")
		from, ok := flags[where]
		if !strings.HasPrefix(where, "--") {
			from, ok = c.known[where]
		}
		if !ok {
			t.Errorf("there is no %s: %s", where, row)
			continue
		}
		if where == "--store-bytes" {
			continue // depends on the disk
		}
		want, err := quantity(bound)
		got, errGot := c.value(from.file, from.expr)
		if err != nil || errGot != nil || got != want {
			t.Errorf("%s is %v (%v), documented as %s (%v)", where, got, errGot, bound, err)
		}
	}
}

// quantity reads "2 MiB", "1 min" or "64"; times are nanoseconds.
func quantity(text string) (float64, error) {
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseFloat(number, 64)
	factor, ok := map[string]float64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "s": float64(time.Second), "min": float64(time.Minute), "h": float64(time.Hour)}[unit]
	if err == nil && !ok {
		err = fmt.Errorf("unit %q", unit)
	}
	return n * factor, err
}

type constant struct {
	file *goFile
	expr ast.Expr
}

// constants are those of the whole module, by folder and name.
type constants struct{ known map[string]constant }

func (c constants) collect(f *goFile) {
	for _, d := range f.ast.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			if v := s.(*ast.ValueSpec); len(v.Values) == len(v.Names) {
				for i, name := range v.Names {
					c.known[f.pkg+"."+name.Name] = constant{f, v.Values[i]}
				}
			}
		}
	}
}

// value works a constant expression out, as far as bounds are written.
func (c constants) value(f *goFile, e ast.Expr) (float64, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.ParseFloat(strings.ReplaceAll(e.Value, "_", ""), 64)
	case *ast.ParenExpr:
		return c.value(f, e.X)
	case *ast.Ident:
		if k, ok := c.known[f.pkg+"."+e.Name]; ok {
			return c.value(k.file, k.expr)
		}
	case *ast.SelectorExpr:
		pkg, _ := e.X.(*ast.Ident)
		if pkg == nil {
			break
		}
		if unit, ok := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[e.Sel.Name]; ok && pkg.Name == "time" {
			return float64(unit), nil
		}
		for path, local := range f.imports {
			folder, ours := strings.CutPrefix(path, module+"/")
			if k, ok := c.known[folder+"."+e.Sel.Name]; ours && ok && (local == pkg.Name || local == "" && filepath.Base(path) == pkg.Name) {
				return c.value(k.file, k.expr)
			}
		}
	case *ast.BinaryExpr:
		x, errX := c.value(f, e.X)
		y, errY := c.value(f, e.Y)
		if errX != nil || errY != nil {
			return 0, fmt.Errorf("%v, %v", errX, errY)
		}
		switch e.Op {
		case token.MUL:
			return x * y, nil
		case token.ADD:
			return x + y, nil
		case token.SHL:
			return float64(int64(x) << int64(y)), nil
		}
	}
	return 0, fmt.Errorf("%T is more than this test can work out", e)
}
