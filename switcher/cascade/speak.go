package cascade

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sightline/switcher"
)

// speak says the phrases of a turn one after the other, until there are no more.
func (r *run) speak(t *turn) {
	for p := range t.phrases {
		say := unmarked(p.text)
		switch {
		case t.ctx.Err() != nil:
			continue
		case p.end:
			r.done(p.part, switcher.TurnCompleted)
			continue
		case t.mute || say == "":
			continue
		}
		if err := r.speakPhrase(t, p, say); err != nil && t.ctx.Err() == nil {
			// A phrase that broke off is lost; the next one may go well, on another engine. That no engine works ends the speaking.
			t.mute = !broke(err)
		}
	}
}

// speakPhrase has one phrase said; its text is put out with its sound, as it was written.
func (r *run) speakPhrase(t *turn, of phrase, say string) error {
	return r.try(t.ctx, r.tts, of.part.id, func(ctx context.Context, i int, m *timing) (bool, error) {
		voice := r.cfg.Voices[i]
		w := newWatch(ctx, r.cfg.Timeouts.FirstSound)
		p := &phraseSound{t: t, part: of.part, ctx: ctx, rate: voice.Rate(), words: newWords(of.text, r.pace)}
		err := voice.Speak(w, say, func(samples []int16) error {
			w.hold()
			m.begun()
			defer w.next(r.cfg.Timeouts.NextSound)
			return p.push(samples)
		})
		if err = w.end(err); err == nil {
			err = p.end()
		}
		if err == nil && p.samples == 0 {
			err = &EngineError{Code: "empty", Message: "the voice gave no sound", Retryable: true}
		}
		if err == nil {
			r.pace = p.words.learned(r.pace, length(p.samples, p.rate))
		}
		return p.used, err
	})
}

// phraseSound puts the sound of one phrase out in small pieces, each with the words that are likely said in it. The last samples
// are held back until it is known that they are the last, since the last piece has to carry what is left of the words.
type phraseSound struct {
	t       *turn
	part    *part
	ctx     context.Context
	rate    int
	words   *words
	held    []int16
	samples int // all that came
	sent    int
	used    bool
}

const (
	soundPiece = 100 * time.Millisecond // of one output: playback is stopped between two
	soundHeld  = 20 * time.Millisecond
)

func (p *phraseSound) count(d time.Duration) int { return int(d * time.Duration(p.rate) / time.Second) }

func (p *phraseSound) push(samples []int16) error {
	p.samples += len(samples)
	p.held = append(p.held, samples...)
	for hold := p.count(soundHeld); len(p.held) > hold; {
		n := min(len(p.held)-hold, p.count(soundPiece))
		if err := p.out(n, false); err != nil {
			return err
		}
	}
	return nil
}

func (p *phraseSound) end() error {
	if len(p.held) == 0 {
		return nil
	}
	return p.out(len(p.held), true)
}

func (p *phraseSound) out(n int, last bool) error {
	if !p.t.noticed() {
		return errWithdrawn
	}
	p.used = true
	p.part.opened.Store(true)
	p.sent += n
	text := p.words.until(length(p.sent, p.rate))
	if last {
		text += p.words.rest()
	}
	piece := p.held[:n:n]
	p.held = p.held[n:]
	return p.t.emit(p.ctx, switcher.SoundOut{Item: p.part.id, Rate: p.rate, PCM: piece, Text: text})
}

// words spreads the words of a phrase over its sound, by how many letters this voice says in a second.
type words struct {
	left  []string // each with the white space behind it
	pace  float64  // runes a second
	given int      // runes
	all   int
}

const firstPace = 15 // runes a second, as English is usually spoken

func newWords(phrase string, pace float64) *words {
	w := &words{pace: pace, all: utf8.RuneCountInString(phrase)}
	for len(phrase) > 0 {
		n := wordEnd(phrase)
		w.left = append(w.left, phrase[:n])
		phrase = phrase[n:]
	}
	return w
}

// wordEnd gives where the second word begins; of scripts without spaces each rune is a word.
func wordEnd(s string) int {
	inWord, spaced := false, false
	for i, c := range s {
		switch {
		case unicode.IsSpace(c):
			spaced = inWord
		case spaced, inWord && unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			return i
		default:
			inWord = true
		}
	}
	return len(s)
}

// until gives the words that have been said by then; the last of them waits for the end.
func (w *words) until(at time.Duration) string {
	var b strings.Builder
	for len(w.left) > 1 {
		n := utf8.RuneCountInString(w.left[0])
		if float64(w.given+n) > at.Seconds()*w.pace {
			break
		}
		b.WriteString(w.left[0])
		w.given += n
		w.left = w.left[1:]
	}
	return b.String()
}

func (w *words) rest() string {
	s := strings.Join(w.left, "")
	w.left = nil
	return s
}

// learned is the pace after this phrase; very short ones say little.
func (w *words) learned(pace float64, d time.Duration) float64 {
	if d < 500*time.Millisecond {
		return pace
	}
	return 0.6*pace + 0.4*min(max(float64(w.all)/d.Seconds(), 3), 60)
}
