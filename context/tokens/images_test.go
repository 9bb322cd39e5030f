package tokens

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"testing"

	"pgregory.net/rapid"

	chatctx "sightline/context"
)

// TestPublishedImagePrices are the examples in the providers' guides, and cases at the rules' corners worked out by hand.
func TestPublishedImagePrices(t *testing.T) {
	tiles, patches := bounded(OpenAITiles(85, 170)), bounded(OpenAIPatches(1))
	for _, c := range []struct {
		name   string
		rule   ImageRule
		w, h   int
		detail string
		want   int
	}{
		{"OpenAI: 1024×1024 high", tiles, 1024, 1024, "high", 765},
		{"OpenAI: 2048×4096 high", tiles, 2048, 4096, "high", 1105},
		{"OpenAI: 4096×8192 low", tiles, 4096, 8192, "low", 85},
		{"auto counts as high", tiles, 1024, 1024, "auto", 765},
		{"one tile", tiles, 512, 512, "high", 255},
		{"no scaling up", tiles, 10, 10, "high", 255},
		{"one pixel more", tiles, 513, 512, "high", 425},
		{"video 1280×720", tiles, 1280, 720, "high", 1105},
		{"video 1920×1080", tiles, 1920, 1080, "high", 1105},
		{"a hair over three tiles", tiles, 1000, 2002, "high", 1445},
		{"patches: 1024×1024", patches, 1024, 1024, "", 1024},
		{"patches: 1800×2400 scaled", patches, 1800, 2400, "", 1452},
		{"patches: at the cap", patches, 2048, 768, "", 1536},
		{"patches: a hair line", patches, 1 << 20, 1, "", 1536},
		{"Anthropic: 200×200", bounded(Anthropic), 200, 200, "", 54},
		{"Anthropic: 1000×1000", bounded(Anthropic), 1000, 1000, "", 1334},
		{"Anthropic: 1092×1092", bounded(Anthropic), 1092, 1092, "", 1590},
		{"Anthropic: 8000×8000", bounded(Anthropic), 8000, 8000, "", 1600},
		{"Anthropic: long edge", bounded(Anthropic), 3136, 750, "", 784},
		{"Gemini: 384×384", bounded(Gemini), 384, 384, "", 258},
		{"Gemini: 385×10", bounded(Gemini), 385, 10, "", 258},
		{"Gemini: 769×384", bounded(Gemini), 769, 384, "", 516},
		{"Gemini: 1920×1080", bounded(Gemini), 1920, 1080, "", 1548},
	} {
		if got := c.rule(c.w, c.h, c.detail); got != c.want {
			t.Errorf("%s: %d tokens, want %d", c.name, got, c.want)
		}
	}
}

func TestImagePricesAreSane(t *testing.T) {
	rules := map[string]ImageRule{"tiles": OpenAITiles(85, 170), "patches": OpenAIPatches(1), "anthropic": Anthropic, "gemini": Gemini}
	most := map[string]int{"tiles": 85 + 170*8, "patches": 1536, "anthropic": 1600, "gemini": 1 << 40}
	rapid.Check(t, func(rt *rapid.T) {
		w, h := rapid.IntRange(-5, 1<<22).Draw(rt, "w"), rapid.IntRange(-5, 1<<22).Draw(rt, "h")
		for name, rule := range rules {
			got := bounded(rule)(w, h, "high")
			if got < 1 || got > most[name] {
				rt.Errorf("%s: %d×%d costs %d", name, w, h, got)
			}
			if turned := bounded(rule)(h, w, "high"); turned != got {
				rt.Errorf("%s: %d×%d costs %d, turned %d", name, w, h, got, turned)
			}
		}
	})
}

func TestImageSizes(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 1500, 300))); err != nil {
		t.Fatal(err)
	}
	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
	c := Heuristic()
	for name, check := range map[string]struct {
		img  chatctx.ImageContent
		want int
	}{
		"from the fields":           {chatctx.ImageContent{URL: url, Width: 512, Height: 512}, 255},
		"from the header":           {chatctx.ImageContent{URL: url}, 85 + 3*170},
		"unknown":                   {chatctx.ImageContent{URL: "https://x/y.png"}, 765},
		"unknown, low":              {chatctx.ImageContent{URL: "https://x/y.png", Detail: "low"}, 85},
		"bytes that are no image":   {chatctx.ImageContent{URL: "data:image/png;base64,AAAA"}, 765},
		"only the width is known":   {chatctx.ImageContent{URL: "https://x/y.png", Width: 10}, 765},
		"a url that is a data word": {chatctx.ImageContent{URL: "data:"}, 765},
	} {
		if got := c.Image(check.img); got != check.want {
			t.Errorf("%s: %d tokens, want %d", name, got, check.want)
		}
	}
}
