package tokens

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
	"pgregory.net/rapid"

	chatctx "sightline/context"
)

// reference is another implementation of the same encodings.
func reference(t testing.TB, encoding string) *tiktoken.Tiktoken {
	t.Helper()
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	ref, err := tiktoken.GetEncoding(encoding)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func mustLoad(t testing.TB, encoding string) *vocabulary {
	t.Helper()
	v, err := loadVocabulary(encoding)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// samples gives the texts of testdata/samples.json by language.
func samples(t testing.TB) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("testdata/samples.json")
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	delete(raw, "note")
	out := map[string][]string{}
	for language, r := range raw {
		var texts []string
		if err := json.Unmarshal(r, &texts); err != nil || len(texts) != 2 {
			t.Fatalf("%s: %v, %d texts", language, err, len(texts))
		}
		out[language] = texts
	}
	return out
}

func TestExactIsTiktoken(t *testing.T) {
	for _, encoding := range []string{o200k, cl100k} {
		ref, v := reference(t, encoding), mustLoad(t, encoding)
		same := func(t interface{ Errorf(string, ...any) }, s string) {
			if got, want := v.count(s), len(ref.EncodeOrdinary(s)); got != want {
				t.Errorf("%s: %d tokens in %q, tiktoken-go has %d", encoding, got, s, want)
			}
		}
		for _, texts := range samples(t) {
			same(t, texts[0])
			same(t, texts[1])
		}
		for _, s := range []string{"", " ", "   ", "\n\n\t x", "a", "<|endoftext|>", "don't WE'LL x's", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ÅÄÖ\u0301", "\x00"} {
			same(t, s)
		}
		rapid.Check(t, func(rt *rapid.T) {
			same(rt, rapid.StringOfN(rapid.SampledFrom([]rune("aabcdeETÀé 0123'’\n\t {}\":,_中文字かなกา้🙂\u200d")), 0, 60, -1).Draw(rt, "text"))
		})
	}
}

func TestKnownCounts(t *testing.T) { // figures that OpenAI's own tokenizer page and notebook give
	c, err := Exact("gpt-4o")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"tiktoken is great!": 6, "antidisestablishmentarianism": 6, "2 + 2 = 4": 7, "お誕生日おめでとう": 8} {
		if got := c.Text(text); got != want {
			t.Errorf("%q has %d tokens, want %d", text, got, want)
		}
	}
}

// TestHeuristicIsNearExact holds the estimate against the vocabulary on texts that it was not fitted to.
func TestHeuristicIsNearExact(t *testing.T) {
	v := mustLoad(t, o200k)
	for language, texts := range samples(t) {
		for i, s := range texts {
			got, want := estimate(s), v.count(s)
			if off := math.Abs(float64(got-want)) / float64(want); off > 0.15 {
				t.Errorf("%s, text %d: %d tokens estimated, %d counted: %.0f %% off", language, i, got, want, 100*off)
			}
		}
	}
	paragraph := strings.Repeat("我想取消昨天的订单", 30)
	if got, want := Heuristic().Text(paragraph), v.count(paragraph); got < want*85/100 || got > want*115/100 {
		t.Errorf("a paragraph without spaces: %d estimated, %d counted", got, want)
	}
}

// TestLongPiecesAreNotQuadratic: 200 kB without a space are one piece; a scan for each merge would take minutes.
func TestLongPiecesAreNotQuadratic(t *testing.T) {
	v := mustLoad(t, o200k)
	for _, s := range []string{strings.Repeat("a", 200_000), strings.Repeat("天地玄黃", 20_000), strings.Repeat("x\u0301", 60_000)} {
		begun := time.Now()
		if n := v.count(s); n < len(s)/100 {
			t.Errorf("%d tokens in %d bytes of %.8q", n, len(s), s)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%.8q × %d took %v", s, len(s), took)
		}
	}
}

func TestModels(t *testing.T) {
	for name, want := range map[string]struct {
		exact bool
		image int // of 1024×1024
		words int // of the Chinese sentence
	}{
		"gpt-4o": {true, 765, 7}, "gpt-4o-2024-11-20": {true, 765, 7}, "gpt-4": {true, 765, 10}, "gpt-4-turbo": {true, 765, 10},
		"gpt-4.1-mini": {true, 1659, 7}, "gpt-5": {true, 630, 7}, "o3": {true, 675, 7}, "o4-mini-high": {true, 1762, 7}, "gpt-4o-mini": {true, 25501, 7},
		"claude-sonnet-4-5": {false, 1399, 7}, "gemini-2.5-flash": {false, 1032, 7}, "llama-3": {false, 765, 7},
	} {
		c, err := ForModel(name)
		if err != nil {
			t.Fatal(err)
		}
		if c.IsExact() != want.exact || c.Name() != name {
			t.Errorf("%s: exact %v, named %s", name, c.IsExact(), c.Name())
		}
		if got := c.Image(chatctx.ImageContent{Width: 1024, Height: 1024, Detail: "high"}); got != want.image {
			t.Errorf("%s: an image costs %d, want %d", name, got, want.image)
		}
		if got := c.Text("我想取消昨天的订单。"); got != want.words {
			t.Errorf("%s: the sentence costs %d, want %d", name, got, want.words)
		}
		_, err = Exact(name)
		var e *chatctx.Error
		if want.exact != (err == nil) || err != nil && (!errors.As(err, &e) || e.Kind != chatctx.NotFound || e.Field != "model") {
			t.Errorf("Exact(%s): %v", name, err)
		}
	}
}
