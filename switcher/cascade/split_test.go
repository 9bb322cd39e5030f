package cascade

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func phrases(deltas ...string) []string {
	var s splitter
	var out []string
	for _, d := range deltas {
		out = append(out, s.push(d)...)
	}
	if rest := s.flush(); rest != "" {
		out = append(out, rest)
	}
	return out
}

func TestSplitter(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"Hello there. How are you?", []string{"Hello there. ", "How are you?"}},
		{"It costs 3.14 dollars. Yes!", []string{"It costs 3.14 dollars. ", "Yes!"}},
		{"Dr. Smith met Mr. J. R. Jones at 5 p.m. today. Fine.", []string{"Dr. Smith met Mr. J. R. Jones at 5 p.m. today. ", "Fine."}},
		{"Wait... what?! No.", []string{"Wait... ", "what?! ", "No."}},
		{"He said \"Go.\" Then he went.", []string{"He said \"Go.\" ", "Then he went."}},
		{"1. First thing\n2. Second thing", []string{"1. First thing\n", "2. Second thing"}},
		{"你好。今天怎么样？很好！", []string{"你好。", "今天怎么样？", "很好！"}},
		{"See example.com/a.b for more. Bye.", []string{"See example.com/a.b for more. ", "Bye."}},
		{"Use e.g. this one. And z.B. that one.", []string{"Use e.g. this one. ", "And z.B. that one."}},
		{"I have seen it, and so did I. You too.", []string{"I have seen it, and so did I. ", "You too."}},
		{"First of all my dear friend, we go on. Then, surely with many words, on.", []string{"First of all my dear friend, ", "we go on. ", "Then, surely with many words, on."}},
		{"... !", nil},
		{"Good 🙂. 🙂", []string{"Good 🙂. "}},
		{"   ", nil},
		{"Line one\n\nLine two", []string{"Line one\n", "\nLine two"}},
		{"It was 12. What next?", []string{"It was 12. ", "What next?"}},
	} {
		if got := phrases(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%q\ngot  %q\nwant %q", c.text, got, c.want)
		}
	}
}

// TestSplitterProperties: the way the text comes in does not matter; nothing is lost; no phrase is too long or has nothing to say.
func TestSplitterProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{". ", ".", "! ", "?\" ", "Dr. ", "3.5", " ", "\n", "…", "。", ", ", "word", "我", "🙂", "12. ", "(x) "}), rapid.StringN(0, 6, 24))).Draw(t, "parts")
		text := strings.ToValidUTF8(strings.Join(parts, ""), "")
		whole := phrases(text)
		var runes []string
		for _, r := range text {
			runes = append(runes, string(r))
		}
		byRune := phrases(runes...)
		if joined := strings.Join(byRune, ""); !strings.HasPrefix(text, joined) || sayable([]rune(text[len(joined):])) {
			t.Fatalf("%q became %q", text, byRune)
		}
		if joined := strings.Join(whole, ""); strings.TrimSpace(joined) != strings.TrimSpace(strings.Join(byRune, "")) {
			t.Fatalf("%q: whole %q, by runes %q", text, whole, byRune)
		}
		for _, p := range append(whole, byRune...) {
			if !sayable([]rune(p)) {
				t.Fatalf("%q: phrase %q has nothing to say", text, p)
			}
		}
	})
}

func TestG12SplitterBoundsPhrases(t *testing.T) {
	for name, text := range map[string]string{
		"words": strings.Repeat("word ", 400), "clauses": strings.Repeat("some words, ", 200),
		"a sentence": strings.Repeat("so many words ", 40) + "end. More. ", "one word": strings.Repeat("a", 3000), "chinese": strings.Repeat("我们，", 500),
	} {
		got := phrases(text)
		if strings.Join(got, "") != text {
			t.Errorf("%s: text was lost", name)
		}
		for i, p := range got {
			if n := len([]rune(p)); n > maxPhrase+1 {
				t.Errorf("%s: a phrase of %d runes", name, n)
			}
			if name == "words" && i < len(got)-1 && !strings.HasSuffix(p, " ") {
				t.Errorf("a word is cut: %q", p[len(p)-10:])
			}
		}
	}
}

func TestSplitterForgetsWhatNobodySays(t *testing.T) {
	var s splitter
	for range 1000 {
		if got := s.push("- - - \t "); got != nil || len(s.buf) > 2*maxPhrase {
			t.Fatalf("%q, %d runes kept", got, len(s.buf))
		}
	}
}

// TestSplitterIsEarly: a sentence is given with the first rune after it, not with the next sentence.
func TestSplitterIsEarly(t *testing.T) {
	var s splitter
	if got := s.push("Hello there."); got != nil {
		t.Errorf("given before it is known to end: %q", got)
	}
	if got := s.push(" How"); !slices.Equal(got, []string{"Hello there. "}) {
		t.Errorf("got %q", got)
	}
}

func TestUnmarked(t *testing.T) {
	for in, want := range map[string]string{
		"**Bold** and `code`. ": "Bold and code.", "- a point\n": "a point", "## Title\n": "Title", "Nice 🙂👍🏽!": "Nice !", "2 * 3": "2  3",
	} {
		if got := unmarked(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
