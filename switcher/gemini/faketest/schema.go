package faketest

import (
	"bytes"
	"embed"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The schemas are made by scripts/schemas/generate from the npm package @google/genai (Apache-2.0).
//
//go:embed testdata/schemas
var schemas embed.FS

var (
	clientSchema = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile("GeminiLiveClient") })
	serverSchema = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile("GeminiLiveServer") })
)

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

// Client says what is wrong with a client's message: a field of the wrong type, or that nobody knows.
func Client(message []byte) error { return validate(clientSchema, message) }

// Server says what is wrong with a server's message; it may have fields that nobody knows.
func Server(message []byte) error { return validate(serverSchema, message) }

func validate(schema func() (*jsonschema.Schema, error), message []byte) error {
	s, err := schema()
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(message))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return s.Validate(doc)
}
