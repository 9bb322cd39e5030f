package local

import (
	"strings"
	"testing"

	"sightline/switcher/rules"
)

// said are the demo phrases with examples for what is open in them.
func said() []string {
	var all []string
	for i, p := range rules.Phrases() {
		number, name := "four seven one one", "mary"
		if i%2 == 1 {
			number, name = "eight zero five two", "david"
		}
		all = append(all, strings.NewReplacer("{digits}", number, "{name}", name, "realtime", "real time").Replace(p))
	}
	return all
}

// measure gives the errors in percent of the words, with every nth phrase.
func measure(t *testing.T, r *Recognizer, voice string, nth int) float64 {
	t.Helper()
	wrong, words := 0, 0
	for i, want := range said() {
		if i%nth != 0 {
			continue
		}
		got := hear(t, r, speech(t, voice, want), nil)
		if n := wordErrors(want, got); n > 0 {
			t.Logf("%s: %q was heard as %q", voice, want, got)
			wrong += n
		}
		words += len(strings.Fields(want))
	}
	rate := 100 * float64(wrong) / float64(words)
	t.Logf("voice %s: %d of %d words wrong, %.1f %%", voice, wrong, words, rate)
	return rate
}

func TestWordErrorsWithTheGeneralModel(t *testing.T) {
	r := started(t, RecognizerConfig{})
	if rate := measure(t, r, "rms", 2); rate > 12 {
		t.Errorf("%.1f %% of the words are wrong; 9 %% are known to be possible", rate)
	}
	if rate := measure(t, r, "slt", 4); rate > 16 {
		t.Errorf("%.1f %% of the words are wrong; 16 %% are known to be possible", rate)
	}
}

func TestWordErrorsWithPhrases(t *testing.T) {
	phrases := rules.Phrases()
	for i, p := range phrases {
		phrases[i] = strings.ReplaceAll(p, "realtime", "real time") // not in the dictionary
	}
	r := started(t, RecognizerConfig{Phrases: phrases})
	for _, voice := range []string{"rms", "slt"} {
		if rate := measure(t, r, voice, 2); rate > 3 {
			t.Errorf("%.1f %% of the words are wrong", rate)
		}
	}
}

func TestPartialTextsComeAtPauses(t *testing.T) {
	r := started(t, RecognizerConfig{})
	pcm := append(speech(t, "rms", "what time is it"), make([]int16, recognizerRate/2)...)
	var partials []string
	text := hear(t, r, append(pcm, speech(t, "rms", "read the text")...), func(s string) { partials = append(partials, s) })
	if len(partials) < 2 || partials[0] != "what time is it" || partials[len(partials)-1] != text {
		t.Errorf("partial texts %q, text %q", partials, text)
	}
}

func TestSilenceIsNoText(t *testing.T) {
	r := started(t, RecognizerConfig{})
	for _, samples := range []int{0, 1, 100, recognizerRate} {
		if text := hear(t, r, make([]int16, samples), nil); text != "" {
			t.Errorf("%d samples of silence are %q", samples, text)
		}
	}
}

func TestPhrasesAreChecked(t *testing.T) {
	for phrase, want := range map[string]string{"hello frobnicator": `"frobnicator" is not in the dictionary`, "a <b>": "is not a word", "": "no phrase"} {
		_, err := NewRecognizer(RecognizerConfig{Phrases: []string{phrase}}).take()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", phrase, err, want)
		}
	}
}
