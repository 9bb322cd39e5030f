package tokens

import (
	"fmt"
	"strings"

	chatctx "sightline/context"
)

// model is what is published about the models whose names begin with prefix.
type model struct {
	prefix   string
	encoding string // "" where the maker publishes no vocabulary
	image    ImageRule
}

// models is searched for the longest prefix. Encodings: OpenAI's tiktoken, file tiktoken/model.py; images: the guides named at
// the rules. Anthropic and Google publish no vocabulary of their present models.
func models() []model {
	tiles, patches := OpenAITiles(85, 170), OpenAIPatches
	return []model{
		{"gpt-3.5-turbo", cl100k, tiles},
		{"gpt-4", cl100k, tiles},
		{"gpt-4-turbo", cl100k, tiles},
		{"gpt-4o", o200k, tiles},
		{"chatgpt-4o", o200k, tiles},
		{"gpt-4o-mini", o200k, OpenAITiles(2833, 5667)},
		{"gpt-4.1", o200k, tiles},
		{"gpt-4.1-mini", o200k, patches(1.62)},
		{"gpt-4.1-nano", o200k, patches(2.46)},
		{"gpt-4.5", o200k, tiles},
		{"gpt-5", o200k, OpenAITiles(70, 140)},
		{"gpt-5-mini", o200k, patches(1.62)},
		{"gpt-5-nano", o200k, patches(2.46)},
		{"gpt-realtime", o200k, OpenAITiles(85, 170)},
		{"gpt-oss", o200k, tiles},
		{"o1", o200k, OpenAITiles(75, 150)},
		{"o3", o200k, OpenAITiles(75, 150)},
		{"o4-mini", o200k, patches(1.72)},
		{"claude", "", Anthropic},
		{"gemini", "", Gemini},
	}
}

func find(name string) (model, bool) {
	var best model
	for _, m := range models() {
		if strings.HasPrefix(name, m.prefix) && len(m.prefix) > len(best.prefix) {
			best = m
		}
	}
	return best, best.prefix != ""
}

// Exact counts with the model's own vocabulary. A model of which none is published is an *chatctx.Error of kind NotFound that
// says so; ForModel has an answer for those too. It reads the vocabulary, which takes about 0.1 s: make one and share it.
func Exact(name string) (Counter, error) {
	m, known := find(name)
	if !known || m.encoding == "" {
		return Counter{}, &chatctx.Error{Kind: chatctx.NotFound, Field: "model", Detail: fmt.Sprintf(
			"no vocabulary of the model %.60q is published: exact are the models of OpenAI from gpt-3.5-turbo on", name)}
	}
	v, err := loadVocabulary(m.encoding)
	if err != nil {
		return Counter{}, err
	}
	return Counter{name: name, exact: true, text: v.count, image: bounded(m.image), item: Counter.fullItem}, nil
}

// ForModel counts as well as can be for a model: exactly where its vocabulary is published, else by the heuristic with the
// provider's own rule for images; for a model that is not known it is the heuristic. IsExact tells which.
func ForModel(name string) (Counter, error) {
	m, known := find(name)
	if known && m.encoding != "" {
		return Exact(name)
	}
	c := Heuristic()
	c.name = name
	if known {
		c.image = bounded(m.image)
	}
	return c, nil
}
