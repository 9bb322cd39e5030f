package sound

import "time"

// Defaults of a TurnPolicy.
const (
	DefaultSpeech    = 0.4
	DefaultSure      = 0.6
	DefaultStill     = 0.3
	DefaultMinSpeech = 60 * time.Millisecond
	DefaultPreRoll   = 200 * time.Millisecond
	DefaultHangover  = 250 * time.Millisecond
	DefaultEndOfTurn = 600 * time.Millisecond
	DefaultMaxTurn   = 30 * time.Second
)

// TurnPolicy says when speech begins and ends. Zero fields mean the defaults.
type TurnPolicy struct {
	// Speech is the likelihood from which on a window counts as speech; one as likely as Sure needs no second one.
	// Below Still it does not go on. Each 0 to 1.
	Speech, Sure, Still float32
	// MinSpeech of sound that counts as speech begins it, where no window is Sure.
	MinSpeech time.Duration
	// PreRoll is how long before the first window of speech its sound is said to begin: soft sounds come first.
	PreRoll time.Duration
	// Hangover is how long it must be still until speech has ended. Shorter pauses are within words and between them.
	Hangover time.Duration
	// EndOfTurn is how long it must be still until the turn is over: the shorter, the sooner the answer, the more often
	// somebody is cut off who thinks.
	EndOfTurn time.Duration
	// MaxTurn ends a turn that will not: a radio in the room.
	MaxTurn time.Duration
}

func (p TurnPolicy) withDefaults() TurnPolicy {
	orFloat := func(v *float32, d float32) {
		if *v == 0 {
			*v = d
		}
	}
	or := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	orFloat(&p.Speech, DefaultSpeech)
	orFloat(&p.Sure, max(DefaultSure, p.Speech))
	orFloat(&p.Still, min(DefaultStill, p.Speech))
	or(&p.MinSpeech, DefaultMinSpeech)
	or(&p.PreRoll, DefaultPreRoll)
	or(&p.Hangover, DefaultHangover)
	or(&p.EndOfTurn, max(DefaultEndOfTurn, p.Hangover))
	or(&p.MaxTurn, DefaultMaxTurn)
	return p
}

// Speech is what happened to the caller's speech, as switcher.CallerSpeechIn wants it: it Started; it ended (neither is
// set), and may go on; or the turn is over (Final). After an end that is not Final either of the others follows.
type Speech struct {
	Started, Final bool
	At             time.Time // when the sound of it began, with the pre-roll, or ended
}

// Turns finds the turns of a speaker in likelihoods of speech. It is a pure state machine. Its zero value is not ready: use
// NewTurns.
type Turns struct {
	policy TurnPolicy

	speaking  bool      // Started was said last
	turn      bool      // a Final is due
	maybe     time.Time // start of the windows that count as speech; zero: none do
	began     time.Time // of the turn
	voiced    time.Time // end of the newest window that was not still
	forgotten time.Time // sound before this belongs to an older turn
}

// NewTurns makes a Turns by a policy.
func NewTurns(p TurnPolicy) *Turns { return &Turns{policy: p.withDefaults()} }

// Step takes the likelihood that somebody speaks in the window that begins at from and ends at to, windows in their order,
// and appends what follows from it to out: at most two.
func (t *Turns) Step(likely float32, from, to time.Time, out []Speech) []Speech {
	p := &t.policy
	if t.speaking {
		switch {
		case likely >= p.Still:
			t.voiced = to
		case to.Sub(t.voiced) >= p.Hangover:
			t.speaking = false
			out = append(out, Speech{At: t.voiced})
		}
		if t.speaking && to.Sub(t.began) >= p.MaxTurn {
			t.speaking, t.turn, t.forgotten = false, false, to
			return append(out, Speech{Final: true, At: to})
		}
	} else {
		out = t.listen(likely, from, to, out)
	}
	if t.turn && !t.speaking && to.Sub(t.voiced) >= p.EndOfTurn && t.maybe.IsZero() {
		t.turn, t.forgotten = false, t.voiced
		out = append(out, Speech{Final: true, At: t.voiced})
	}
	return out
}

// listen waits for speech to begin.
func (t *Turns) listen(likely float32, from, to time.Time, out []Speech) []Speech {
	if likely < t.policy.Speech {
		t.maybe = time.Time{}
		return out
	}
	if t.maybe.IsZero() {
		t.maybe = from
	}
	if likely < t.policy.Sure && to.Sub(t.maybe) < t.policy.MinSpeech {
		return out
	}
	at := t.maybe.Add(-t.policy.PreRoll)
	if at.Before(t.forgotten) {
		at = t.forgotten
	}
	t.speaking, t.voiced, t.maybe = true, to, time.Time{}
	if !t.turn {
		t.turn, t.began = true, at
	}
	return append(out, Speech{Started: true, At: at})
}

// Glance takes the likelihood of a window that overlaps those of Step: it can only begin speech, sooner than Step would.
func (t *Turns) Glance(likely float32, from, to time.Time, out []Speech) []Speech {
	if t.speaking || likely < t.policy.Speech || likely < t.policy.Sure && t.maybe.IsZero() {
		return out
	}
	return t.listen(likely, from, to, out)
}

// Speaking says whether the speaker is speaking, as far as is known.
func (t *Turns) Speaking() bool { return t.speaking }
