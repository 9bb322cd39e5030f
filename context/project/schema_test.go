package project_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var compiled sync.Map // schema name → *jsonschema.Schema

// schema compiles one of the providers' schemas. They are strict: a field that the provider's type does not have is an error.
func schema(t testing.TB, name string) *jsonschema.Schema {
	t.Helper()
	if s, ok := compiled.Load(name); ok {
		return s.(*jsonschema.Schema)
	}
	data, err := os.ReadFile(filepath.Join("testdata", "schemas", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	compiled.Store(name, s)
	return s
}

// mustFit fails when output does not fit the provider's own types.
func mustFit(t testing.TB, p projection, out any) {
	t.Helper()
	data := marshal(t, out)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema(t, p.schema).Validate(doc); err != nil {
		t.Errorf("%s: %v\n%.2000s", p.schema, err, data)
	}
}

// TestSchemasAreStrict: they refuse what the providers refuse, so that passing them says something.
func TestSchemasAreStrict(t *testing.T) {
	for name, bad := range map[string][]string{
		"OpenAIChat": {`[{"role":"tool","content":"x"}]`, `[{"role":"user","content":[{"type":"input_text","text":"x"}]}]`, `[{"role":"user"}]`,
			`[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f"}}]}]`, `[{"role":"user","content":"x","id":"m"}]`},
		"OpenAIResponses": {`[{"type":"function_call","name":"f","arguments":"{}"}]`, `[{"type":"function_call_output","call_id":"c"}]`,
			`[{"type":"message","role":"tool","content":"x"}]`, `[{"type":"message","role":"user","content":[{"type":"text","text":"x"}]}]`},
		"OpenAIRealtime": {`[{"type":"conversation.item.create","item":{"type":"message","role":"developer","content":[{"type":"input_text","text":"x"}]}}]`,
			`[{"type":"conversation.item.create","item":{"type":"message","role":"assistant","content":[{"type":"text","text":"x"}]}}]`, `[{"type":"message"}]`},
		"Anthropic": {`{"messages":[{"role":"developer","content":"x"}]}`, `{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"tool_result"}]}]}`, `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"x"}}]}]}`},
		"Gemini": {`{"contents":[{"role":"user","parts":[{"text":1}]}]}`, `{"contents":[{"role":"user","content":"x"}]}`, `{"contents":[{"parts":[{"functionCall":{"args":"{}"}}]}]}`},
	} {
		for _, text := range bad {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(text)))
			if err != nil {
				t.Fatal(err)
			}
			if schema(t, name).Validate(doc) == nil {
				t.Errorf("%s takes %s", name, text)
			}
		}
	}
}
