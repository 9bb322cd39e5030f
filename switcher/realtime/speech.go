package realtime

import (
	"strings"
	"time"

	"sightline/switcher"
	"sightline/switcher/internal/socket"
	"sightline/switcher/realtime/dialect"
)

// Sizes of the caller's sound.
const (
	batchLeast = 40 * time.Millisecond // appended at once
	batchMost  = 60 * time.Millisecond
	heldMost   = 20 * time.Second       // from before the floor
	preRoll    = 300 * time.Millisecond // before the beginning that the session's detector found
	quietMost  = 3 * time.Second        // kept for a beginning, where the session finds the turns
)

// ear is the caller's sound on its way to the provider.
type ear struct {
	rate    int
	pending []int16        // not appended yet
	written int64          // samples given to the provider's buffer so far
	padding dialect.Millis // before the speech that the provider's audio_start_ms counts in
	marks   []mark         // when the samples were spoken
	bytes   []byte         // scratch

	speaking bool               // where the session finds the turns: what is said goes out
	quiet    []switcher.SoundIn // … and else it is kept for the next beginning
	begins   []time.Time        // … of commits that the provider has not answered yet
	begin    time.Time
}

// mark says when the sample of an offset was spoken; those behind it follow without a gap until the next mark.
type mark struct {
	offset int64
	at     time.Time
}

const (
	mostMarks      = 256
	defaultPadding = dialect.Millis(300) // of server_vad
)

func (r *run) span(d time.Duration) int { return int(d.Seconds() * float64(r.ear.rate)) }

func (r *run) duration(samples int64) time.Duration {
	return time.Duration(samples) * time.Second / time.Duration(r.ear.rate)
}

// hold keeps what the caller says before the leg has the floor.
func (r *run) hold(i switcher.Input) {
	if s, ok := i.(switcher.SoundIn); ok {
		r.earlyPCM += len(s.PCM)
	}
	r.early = append(r.early, i)
	for n := 0; r.earlyPCM > r.span(heldMost) && n < len(r.early); n++ {
		if s, ok := r.early[n].(switcher.SoundIn); ok {
			r.earlyPCM -= len(s.PCM)
			r.early = append(r.early[:n], r.early[n+1:]...)
			r.counts.earlySound.Add(1)
			n--
		}
	}
	if len(r.early) > 4*socket.MostWords { // beginnings and ends without sound between
		r.early = r.early[1:]
	}
}

// caller takes what the caller says while the leg has the floor.
func (r *run) caller(i switcher.Input) {
	own := r.cfg.ownTurns()
	switch i := i.(type) {
	case switcher.SoundIn:
		if own || r.ear.speaking {
			r.hear(i)
			return
		}
		r.ear.quiet = append(r.ear.quiet, i)
		for len(r.ear.quiet) > 1 && i.At.Sub(r.ear.quiet[0].At) > quietMost {
			r.ear.quiet = r.ear.quiet[1:]
		}
	case switcher.CallerSpeechIn:
		switch {
		case own: // the provider finds them itself
		case i.Started && !r.ear.speaking:
			r.ear.speaking, r.ear.begin = true, i.At
			for _, s := range r.ear.quiet {
				if s.At.Add(r.duration(int64(len(s.PCM)))).After(i.At.Add(-preRoll)) {
					r.hear(s)
				}
			}
			r.ear.quiet = nil
			r.newTurn()
		case i.Final && r.ear.speaking:
			r.ear.speaking = false
			r.flush(1)
			r.ear.begins = append(r.ear.begins, r.ear.begin)
			r.send(&dialect.InputAudioCommit{EventID: r.id("commit")})
			r.respond(nil)
		}
	}
}

// hear appends sound to the provider's buffer, in batches.
func (r *run) hear(s switcher.SoundIn) {
	e := &r.ear
	offset := e.written + int64(len(e.pending))
	if n := len(e.marks); n == 0 || s.At.Sub(e.marks[n-1].at.Add(r.duration(offset-e.marks[n-1].offset))).Abs() > batchLeast {
		e.marks = append(e.marks, mark{offset, s.At})
		if len(e.marks) > mostMarks {
			e.marks = e.marks[1:]
		}
	}
	e.pending = append(e.pending, s.PCM...)
	r.flush(r.span(batchLeast))
}

// flush appends what is pending while there are at least so many samples.
func (r *run) flush(least int) {
	e := &r.ear
	for len(e.pending) >= least && len(e.pending) > 0 {
		n := min(len(e.pending), r.span(batchMost))
		var event []byte
		event, e.bytes = dialect.AppendInput(nil, e.bytes, e.pending[:n])
		r.put(socket.Message{Data: event, Samples: n})
		e.written += int64(n)
		e.pending = append(e.pending[:0], e.pending[n:]...)
	}
}

// spokenAt is when the sound at an offset of the provider's buffer was spoken.
func (r *run) spokenAt(ms dialect.Millis, now time.Time) time.Time {
	offset := int64(ms) * int64(r.ear.rate) / 1000
	for i := len(r.ear.marks) - 1; i >= 0; i-- {
		if m := r.ear.marks[i]; m.offset <= offset || i == 0 {
			return m.at.Add(r.duration(offset - m.offset))
		}
	}
	return now
}

// utterance is a user item that the provider makes of what the caller says.
type utterance struct {
	at      time.Time // its speech began, zero: not known yet
	text    string
	settled bool // final or failed
}

type utterances struct {
	known map[string]*utterance
	order []string // oldest first
}

const mostUtterances = 256

func (u *utterances) get(item string) *utterance {
	if u.known[item] == nil {
		u.known[item] = &utterance{}
		if u.order = append(u.order, item); len(u.order) > mostUtterances {
			delete(u.known, u.order[0])
			u.order = u.order[1:]
		}
	}
	return u.known[item]
}

// callerEvent takes what the provider says of the caller's speech.
func (r *run) callerEvent(e dialect.ServerEvent, now time.Time) {
	switch e := e.(type) {
	case *dialect.SpeechStarted:
		u := r.heard.get(e.ItemID)
		u.at = r.spokenAt(e.AudioStartMs+r.ear.padding, now)
		if u.at.After(now) {
			u.at = now
		}
		r.say(switcher.CallerSpeechOut{Item: socket.ID(e.ItemID), Started: true, At: u.at})
		r.newTurn()
	case *dialect.SpeechStopped:
		r.say(switcher.CallerSpeechOut{Item: socket.ID(e.ItemID), At: r.spokenAt(e.AudioEndMs, now)})
	case *dialect.InputAudioCommitted:
		r.committed(e, now)
	case *dialect.TranscriptionDelta:
		if u := r.heard.get(e.ItemID); !u.settled && e.Delta != "" {
			u.text += e.Delta
			r.say(switcher.TranscriptOut{Item: socket.ID(e.ItemID), Text: u.text, At: u.at})
		}
	case *dialect.TranscriptionCompleted:
		text := strings.TrimSpace(e.Transcript)
		if text == "" {
			r.response.owed = time.Time{} // there may be nothing to answer
		}
		r.settle(e.ItemID, text, text == "") // nothing understood: there will be no transcript
	case *dialect.TranscriptionFailed:
		r.settle(e.ItemID, "", true)
		r.notice("transcription_failed", e.Error.Code+": "+e.Error.Message)
	}
}

// committed gives an utterance its place: when it began, else right behind the item before it.
func (r *run) committed(e *dialect.InputAudioCommitted, now time.Time) {
	u := r.heard.get(e.ItemID)
	if len(r.ear.begins) > 0 {
		u.at, r.ear.begins = r.ear.begins[0], r.ear.begins[1:]
	}
	if u.at.IsZero() {
		u.at = now
		if e.PreviousItemID != nil {
			if before := r.heard.known[*e.PreviousItemID]; before != nil && !before.at.IsZero() && len(r.ear.marks) == 0 {
				u.at = before.at.Add(time.Millisecond)
			}
		}
	}
	switch {
	case r.cfg.ownTurns() && r.response.auto:
		r.response.owed = now
	case r.cfg.ownTurns():
		r.respond(nil)
	}
}

func (r *run) settle(item, text string, failed bool) {
	u := r.heard.get(item)
	if u.settled {
		return
	}
	u.settled, u.text = true, text
	r.say(switcher.TranscriptOut{Item: socket.ID(item), Text: text, Final: !failed, Failed: failed, At: u.at})
}
