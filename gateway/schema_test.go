package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	chatctx "sightline/context"
	"sightline/gateway/problem"
	"sightline/gateway/rtc"
	"sightline/gateway/wire"
	"sightline/switcher"
)

const protocolFile = "../PROTOCOL.md"

// schemaSet is the files of schema/, compiled twice: as published, where a reader ignores what it does not know, and strict,
// where a field that is not declared is a fault. What the gateway sends is held to the strict ones.
type schemaSet struct {
	raw          map[string]any // by file name without .json
	open, strict map[string]*jsonschema.Schema
}

var loadSchemas = sync.OnceValues(func() (*schemaSet, error) {
	files, err := filepath.Glob("schema/*.json")
	if err != nil {
		return nil, err
	}
	s := &schemaSet{raw: map[string]any{}, open: map[string]*jsonschema.Schema{}, strict: map[string]*jsonschema.Schema{}}
	open, strict := jsonschema.NewCompiler(), jsonschema.NewCompiler()
	open.AssertFormat()
	strict.AssertFormat()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		read := func() (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(data)) }
		doc, err := read()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		closed, _ := read()
		closeObjects(closed)
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		s.raw[name] = doc
		if err := open.AddResource("file:///schema/"+name+".json", doc); err != nil {
			return nil, err
		}
		if err := strict.AddResource("file:///schema/"+name+".json", closed); err != nil {
			return nil, err
		}
	}
	for name := range s.raw {
		if s.open[name], err = open.Compile("file:///schema/" + name + ".json"); err != nil {
			return nil, err
		}
		if s.strict[name], err = strict.Compile("file:///schema/" + name + ".json"); err != nil {
			return nil, err
		}
	}
	return s, nil
})

// closeObjects forbids undeclared fields everywhere in a schema.
func closeObjects(node any) {
	switch n := node.(type) {
	case map[string]any:
		if _, declares := n["properties"]; declares && n["type"] == "object" && n["additionalProperties"] == nil {
			n["additionalProperties"] = false
		}
		for _, v := range n {
			closeObjects(v)
		}
	case []any:
		for _, v := range n {
			closeObjects(v)
		}
	}
}

func schemasFor(t *testing.T) *schemaSet {
	t.Helper()
	s, err := loadSchemas()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sent checks what the gateway has sent; it says what is wrong, or nothing.
func (s *schemaSet) sent(name string, data []byte) error { return validate(s.strict[name], name, data) }

// taken checks what a client sends.
func (s *schemaSet) taken(name string, data []byte) error { return validate(s.open[name], name, data) }

func validate(schema *jsonschema.Schema, name string, data []byte) error {
	if schema == nil {
		return fmt.Errorf("there is no schema/%s.json for %s", name, data)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", data, err)
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Errorf("%s does not fit %s.json: %w", data, name, err)
	}
	return nil
}

// fromGateway are the types that a client receives; bye is both ways.
var fromGateway = []wire.Type{wire.TypeWelcome, wire.TypeContextEntry, wire.TypeAck, wire.TypeError, wire.TypePong, wire.TypeSource, wire.TypeImage, wire.TypeBye}

func TestEveryMessageTypeHasASchemaAndIsDocumented(t *testing.T) {
	s, doc := schemasFor(t), protocol(t)
	types := typeConstants(t)
	if len(types) < 15 {
		t.Fatalf("only %d Type constants found in wire: %v", len(types), types)
	}
	for _, name := range types {
		raw, ok := s.raw[name].(map[string]any)
		if !ok {
			t.Errorf("message %s has no schema/%s.json", name, name)
			continue
		}
		if raw["title"] != name || raw["description"] == "" {
			t.Errorf("schema/%s.json is titled %v", name, raw["title"])
		}
		if !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("PROTOCOL.md says nothing of the message `%s`", name)
		}
	}
	known := append(types, "defs", "item", "item-input", "snapshot", "problem", "session", "sessions", "context", "switch", "seed")
	for name := range s.raw {
		if !slices.Contains(known, name) {
			t.Errorf("schema/%s.json is for no message of package wire", name)
		}
	}
}

// typeConstants reads the values of package wire's constants of type Type from its source.
func typeConstants(t *testing.T) []string {
	t.Helper()
	var values []string
	for _, name := range []string{"wire/wire.go", "wire/pipeline.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		values = append(values, typesIn(t, file)...)
	}
	return values
}

func typesIn(t *testing.T, file *ast.File) []string {
	t.Helper()
	var values []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil || fmt.Sprint(spec.Type) != "Type" {
			return true
		}
		for _, v := range spec.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, text)
		}
		return true
	})
	return values
}

func TestErrorCodesAreOneList(t *testing.T) {
	s, doc := schemasFor(t), protocol(t)
	var want, got []string
	for _, c := range problem.Codes() {
		want = append(want, string(c))
		if row := fmt.Sprintf("| `%s` | %d |", c, c.Status()); !strings.Contains(doc, row) {
			t.Errorf("PROTOCOL.md has no line %q", row)
		}
	}
	defs := s.raw["defs"].(map[string]any)["$defs"].(map[string]any)
	for _, c := range defs["code"].(map[string]any)["enum"].([]any) {
		got = append(got, c.(string))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("defs.json lists the codes\n%v, package problem has\n%v", got, want)
	}
}

// TestSchemasDeclareEveryField holds each schema against the Go type that is marshalled or unmarshalled, both ways.
func TestSchemasDeclareEveryField(t *testing.T) {
	s := schemasFor(t)
	for at, v := range map[string]any{
		"hello": wire.Hello{}, "want": wire.WantMessage{}, "context.append": wire.ContextAppend{}, "context.update": wire.ContextChange{},
		"context.truncate": wire.ContextTruncate{}, "handoff": wire.Handoff{}, "image.request": wire.ImageRequest{}, "ping": wire.Ping{},
		"pong": wire.Ping{}, "bye": wire.Bye{}, "welcome": wire.Welcome{}, "welcome/properties/limits": wire.Limits{}, "ack": wire.Ack{},
		"error": wire.Error{}, "error/properties/detail": wire.ErrorDetail{}, "source": wire.Source{}, "image": wire.ImageHeader{},
		"defs/$defs/want": wire.Want{}, "defs/$defs/want/properties/images/items": wire.WantImage{}, "defs/$defs/want/properties/audio": wire.WantAudio{},
		"tools.set": wire.ToolsSet{}, "tools.set/properties/tools/items": wire.Tool{}, "tool.call": wire.ToolCall{}, "tool.cancel": wire.ToolCancel{},
		"tool.result": wire.ToolResult{}, "pipeline.switch": wire.PipelineSwitch{}, "pipeline.switch/properties/handoff": wire.SwitchHandoff{}, "pipeline.preparing": wire.PipelinePreparing{},
		"pipeline.committed": wire.PipelineCommitted{}, "pipeline.aborted": wire.PipelineAborted{}, "switch": wire.SwitchResult{}, "seed": seedDetail{},
		"speech.started": wire.Speech{}, "speech.stopped": wire.Speech{}, "transcript": wire.Transcript{}, "played": wire.Played{},
		"say": wire.Say{}, "interrupt": wire.Interrupt{}, "audio": wire.AudioHeader{}, "leg.register": wire.LegRegister{},
		"leg.start": wire.LegStart{}, "leg.start/properties/seed": wire.LegSeed{}, "leg.start/properties/tools/items": wire.Tool{},
		"leg.commit": wire.LegCommit{}, "leg.respond": wire.LegRespond{}, "leg.interrupt": wire.LegInterrupt{},
		"leg.tool_result": wire.LegToolResult{}, "leg.stop": wire.LegStop{}, "leg.ready": wire.LegReady{}, "leg.failed": wire.LegFailed{},
		"leg.text": wire.LegText{}, "leg.transcript": wire.LegTranscript{}, "leg.tool_call": wire.LegToolCall{}, "leg.turn_done": wire.LegTurnDone{},
		"snapshot":           chatctx.Snapshot{},
		"item/$defs/message": typedItem[chatctx.Message]{}, "item/$defs/function_call": typedItem[chatctx.FunctionCall]{},
		"item/$defs/function_call_output": typedItem[chatctx.FunctionCallOutput]{}, "item/$defs/handoff": typedItem[chatctx.AgentHandoff]{},
		"item/$defs/config_update": typedItem[chatctx.ConfigUpdate]{}, "item/$defs/summary": typedItem[chatctx.Summary]{},
		"item/$defs/pipeline_switch": typedItem[chatctx.PipelineSwitch]{}, "item/$defs/image": typedItem[chatctx.ImageContent]{},
		"session": sessionDetail{}, "session/properties/sources/items": sourceDetail{}, "session/properties/sources/items/properties/layers/items": layerDetail{}, "session/properties/agents/items": agentDetail{},
		"session/properties/legs/items": switcher.LegInfo{}, "session/properties/publisher": rtc.PeerStats{},
		"context/$defs/transport/properties/context/items": chatctx.ContextMessage{},
	} {
		var node any = s.raw
		for part := range strings.SplitSeq(at, "/") {
			node = node.(map[string]any)[part]
		}
		object, ok := node.(map[string]any)
		if !ok {
			t.Fatalf("no schema at %s", at)
		}
		declared, fields := slices.Sorted(mapsKeys(object["properties"])), jsonFields(reflect.TypeOf(v))
		slices.Sort(fields)
		if !slices.Equal(declared, fields) {
			t.Errorf("%s declares %v, %T has %v", at, declared, v, fields)
		}
	}
}

// typedItem is how an item or a part is marshalled: with its type in front.
type typedItem[T any] struct {
	Type  string `json:"type"`
	Plain T      `json:",inline"`
}

func mapsKeys(m any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m.(map[string]any) {
			if !yield(k) {
				return
			}
		}
	}
}

// jsonFields are the names that a struct has in JSON, embedded ones included.
func jsonFields(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Type.Kind() == reflect.Struct:
			names = append(names, jsonFields(f.Type)...)
		default:
			names = append(names, name)
		}
	}
	return names
}

func protocol(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(protocolFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var jsonBlock = regexp.MustCompile("(?ms)^```json([^\n]*)\n(.*?)^```")

// TestExamplesInPROTOCOLFitTheirSchemas: each ```json block names the message that it shows.
func TestExamplesInPROTOCOLFitTheirSchemas(t *testing.T) {
	s := schemasFor(t)
	shown := map[string]bool{}
	for _, block := range jsonBlock.FindAllStringSubmatch(protocol(t), -1) {
		name := strings.TrimSpace(block[1])
		if s.raw[name] == nil {
			t.Errorf("a json example is marked %q, which is no schema:\n%s", name, block[2])
			continue
		}
		shown[name] = true
		for d := json.NewDecoder(strings.NewReader(block[2])); d.More(); {
			var example json.RawMessage
			if err := d.Decode(&example); err != nil {
				t.Errorf("example of %s: %v\n%s", name, err, block[2])
				break
			}
			if err := s.sent(name, example); err != nil { // strict for both directions: an example shows no field that nobody reads
				t.Error(err)
			}
		}
	}
	for _, name := range append(typeConstants(t), "problem", "session", "context") {
		if !shown[name] {
			t.Errorf("PROTOCOL.md has no example of %s", name)
		}
	}
}

// TestPROTOCOLNamesEveryFieldRouteFlagAndCloseCode: the lists come from schemas and source.
func TestPROTOCOLNamesEveryFieldRouteFlagAndCloseCode(t *testing.T) {
	s, doc := schemasFor(t), protocol(t)
	fields := map[string]string{}
	for name, raw := range s.raw {
		collectFields(raw, name, fields)
	}
	if len(fields) < 90 {
		t.Fatalf("only %d fields found in the schemas", len(fields))
	}
	for field, file := range fields {
		if !regexp.MustCompile(`\b` + regexp.QuoteMeta(field) + `\b`).MatchString(doc) {
			t.Errorf("PROTOCOL.md does not name the field %s of %s.json", field, file)
		}
	}
	for _, list := range []struct {
		file, pattern, want string
		atLeast             int
	}{
		{"routes.go", `\bapi\("([^"]+)"`, "`%s`", 9},
		{"../cmd/sightline/settings.go", `f\.\w*Var\([^,]+, "([a-z-]+)"`, "`--%s`", 15},
		{"../cmd/sightline/settings_auth.go", `f\.\w*Var\([^,]+, "([a-z-]+)"`, "`--%s`", 9},
		{"../cmd/sightline/tls.go", `f\.\w*Var\([^,]+, "([a-z-]+)"`, "`--%s`", 5},
		{"../cmd/sightline/pipelines.go", `f\.\w*Var\([^,]+, "([a-z-]+)"`, "`--%s`", 9},
		{"wire/wire.go", `\bClose\w+ += (\d+)`, "| %s |", 8},
	} {
		source, err := os.ReadFile(list.file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(list.pattern).FindAllStringSubmatch(string(source), -1)
		if len(found) < list.atLeast {
			t.Errorf("%s: only %d matches of %s", list.file, len(found), list.pattern)
		}
		for _, m := range found {
			if want := fmt.Sprintf(list.want, m[1]); !strings.Contains(doc, want) {
				t.Errorf("PROTOCOL.md does not name %s, which %s has", want, list.file)
			}
		}
	}
}

func collectFields(node any, file string, fields map[string]string) {
	switch n := node.(type) {
	case map[string]any:
		if p, ok := n["properties"].(map[string]any); ok {
			for name := range p {
				fields[name] = file
			}
		}
		for _, v := range n {
			collectFields(v, file, fields)
		}
	case []any:
		for _, v := range n {
			collectFields(v, file, fields)
		}
	}
}
