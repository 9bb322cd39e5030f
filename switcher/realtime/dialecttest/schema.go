// Package dialecttest holds events of the OpenAI Realtime dialect against the official types, as JSON Schemas; for tests only.
package dialecttest

import (
	"bytes"
	"embed"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The schemas are made by scripts/schemas/generate from the npm package openai (Apache-2.0).
//
//go:embed testdata/schemas
var schemas embed.FS

// Client says what is wrong with a client's event: a field that is missing, of the wrong type, or that nobody knows.
func Client(event []byte) error { return validate("RealtimeClient", event) }

// Server says what is wrong with a server's event; it may have fields that nobody knows.
func Server(event []byte) error { return validate("RealtimeServer", event) }

var compiled sync.Map // name → func() (*jsonschema.Schema, error)

func validate(name string, event []byte) error {
	once, _ := compiled.LoadOrStore(name, sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(name) }))
	schema, err := once.(func() (*jsonschema.Schema, error))()
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(event))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return schema.Validate(doc)
}

func compile(name string) (*jsonschema.Schema, error) {
	data, err := schemas.ReadFile("testdata/schemas/" + name + ".json")
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}
