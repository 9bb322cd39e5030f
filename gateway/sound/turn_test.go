package sound

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// turnsOf runs windows of 32 ms through a Turns. script has a letter for each: S sure speech, s speech, h hangs on, . still.
func turnsOf(t *testing.T, p TurnPolicy, script string) string {
	t.Helper()
	turns := NewTurns(p)
	var said []string
	var out []Speech
	for i, c := range script {
		likely := map[rune]float32{'S': 0.95, 's': 0.5, 'h': 0.35, '.': 0.01}[c]
		from := dawn.Add(time.Duration(i) * windowTime)
		if out = turns.Step(likely, from, from.Add(windowTime), out[:0]); len(out) > 2 {
			t.Fatalf("%d events of one window", len(out))
		}
		for _, e := range out {
			what := "end"
			if e.Started {
				what = "start"
			} else if e.Final {
				what = "final"
			}
			said = append(said, fmt.Sprintf("%d:%s@%d", i, what, e.At.Sub(dawn)/windowTime))
		}
	}
	return strings.Join(said, " ")
}

// Windows: pre-roll of 2, speech from 2, end after 3, final after 6, turns of at most 40.
var testPolicy = TurnPolicy{PreRoll: 2 * windowTime, MinSpeech: 2 * windowTime, Hangover: 3 * windowTime, EndOfTurn: 6 * windowTime, MaxTurn: 40 * windowTime}

func TestTurns(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"silence", "..................", ""},
		{"one turn", "....SSSSS..........", "4:start@2 11:end@9 14:final@9"},
		{"less sure speech starts with its second window", "....sssss..........", "5:start@2 11:end@9 14:final@9"},
		{"a click that is not sure is none", "....s.....s.....", ""},
		{"a pause within a word", "...SSS..SSS.........", "3:start@1 13:end@11 16:final@11"},
		{"a pause between phrases of one turn", "...SSS....SSS........", "3:start@1 8:end@6 10:start@8 15:end@13 18:final@13"},
		{"hanging on", "...SShhhhhh.......", "3:start@1 13:end@11 16:final@11"},
		{"hanging on starts nothing", "...hhhhhhhhhhh...", ""},
		{"two turns", "...SSS.......SSS.......", "3:start@1 8:end@6 11:final@6 13:start@11 18:end@16 21:final@16"},
		{"the pre-roll does not reach into the turn before", "...SSS......SS.......", "3:start@1 8:end@6 11:final@6 12:start@10 16:end@14 19:final@14"},
		{"speech that may be beginning puts the final off", "...SSS.....ss........", "3:start@1 8:end@6 12:start@9 15:end@13 18:final@13"},
		{"a turn that will not end is ended", strings.Repeat("S", 60), "0:start@-2 37:final@38 38:start@38"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := turnsOf(t, testPolicy, c.script); got != c.want {
				t.Errorf("%s\ngot  %s\nwant %s", c.script, got, c.want)
			}
		})
	}
}

// Whatever is heard: a start, then ends; a final only after an end or in place of one; times do not go back but for a pre-roll.
func FuzzTurns(f *testing.F) {
	f.Add([]byte("0000999900000000"))
	f.Fuzz(func(t *testing.T, script []byte) {
		turns := NewTurns(TurnPolicy{MaxTurn: 2 * time.Second})
		speaking, turn := false, false
		var out []Speech
		final := dawn.Add(-time.Hour)
		for i, b := range script {
			from := dawn.Add(time.Duration(i) * windowTime)
			if b&1 == 1 {
				out = turns.Glance(float32(b)/255, from.Add(-windowTime/2), from.Add(windowTime/2), out[:0])
			} else {
				out = turns.Step(float32(b)/255, from, from.Add(windowTime), out[:0])
			}
			for _, e := range out {
				switch {
				case e.Started && (speaking || e.At.Before(final)), !e.Started && !turn, e.Final && e.Started:
					t.Fatalf("window %d: %+v while speaking %v, turn %v", i, e, speaking, turn)
				case e.Final:
					final = e.At
				}
				speaking, turn = e.Started, !e.Final
			}
			if speaking != turns.Speaking() {
				t.Fatalf("window %d: Speaking() = %v", i, turns.Speaking())
			}
		}
	})
}
