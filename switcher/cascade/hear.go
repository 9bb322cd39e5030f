package cascade

import (
	"context"
	"strings"
	"sync"
	"time"

	"sightline/switcher"
	"sightline/switcher/cascade/pcm"
)

// ring keeps the newest sound, for the beginning of an utterance. It keeps the pieces it is given.
type ring struct {
	rate   int
	most   int // samples
	pieces []switcher.SoundIn
	have   int
	end    time.Time // of the newest sound
}

func length(samples, rate int) time.Duration {
	return time.Duration(samples) * time.Second / time.Duration(rate)
}

// overlap is how far a piece may lie before the end of what is there: clocks are read, not counted.
const overlap = 15 * time.Millisecond

// push adds a piece; false: it is there already, as sound is that a session gives once more at a commit.
func (g *ring) push(s switcher.SoundIn) bool {
	if !g.end.IsZero() && s.At.Before(g.end.Add(-overlap)) {
		return false
	}
	g.pieces = append(g.pieces, s)
	g.have += len(s.PCM)
	g.end = s.At.Add(length(len(s.PCM), g.rate))
	for g.have > g.most && len(g.pieces) > 1 {
		g.have -= len(g.pieces[0].PCM)
		g.pieces[0] = switcher.SoundIn{}
		g.pieces = g.pieces[1:]
	}
	return true
}

// since is a copy of the sound from at on.
func (g *ring) since(at time.Time) []int16 {
	var out []int16
	for _, s := range g.pieces {
		if s.At.Add(length(len(s.PCM), g.rate)).After(at) {
			out = append(out, s.PCM...)
		}
	}
	return out
}

// utterance is what the caller says in one go, on its way to text. Its sound is kept, so that another engine can begin again.
type utterance struct {
	id      string
	at      time.Time
	seen    map[string]bool // the items of the conversation when it began
	before  <-chan struct{} // the utterance before it has its text
	settled chan struct{}   // it has its own, or none
	look    <-chan []switcher.Sight

	mu    sync.Mutex
	pcm   []int16
	base  int // samples that were dropped from the front of pcm
	most  int // samples that are kept
	final bool
	wake  chan struct{} // capacity 1
	over  chan struct{} // closed by finish
}

func (u *utterance) write(samples []int16) {
	u.mu.Lock()
	u.pcm = append(u.pcm, samples...)
	if over := len(u.pcm) - u.most; over > u.most/4 { // in strides: copying each time would cost more
		u.pcm = append([]int16(nil), u.pcm[over:]...)
		u.base += over
	}
	u.mu.Unlock()
	u.poke()
}

func (u *utterance) finish() {
	u.mu.Lock()
	u.final = true
	u.mu.Unlock()
	close(u.over)
	u.poke()
}

func (u *utterance) poke() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// next waits for sound behind a position, counted in samples; final: there is no more.
func (u *utterance) next(ctx context.Context, pos int) (samples []int16, end int, final bool, err error) {
	for {
		u.mu.Lock()
		end, final = u.base+len(u.pcm), u.final
		samples = u.pcm[min(max(pos-u.base, 0), len(u.pcm)):] // appended to, never written over: safe to read outside the lock
		u.mu.Unlock()
		if len(samples) > 0 || final {
			return samples, end, final && len(samples) == 0, nil
		}
		select {
		case <-ctx.Done():
			return nil, 0, false, ctx.Err()
		case <-u.wake:
		}
	}
}

// heard is the event that an utterance has its text, "" when there was nothing to understand.
type heard struct {
	u    *utterance
	text string
	err  error
}

// listen turns an utterance into text and says so, after the utterance before it.
func (r *run) listen(u *utterance) {
	_ = r.out(r.ctx, switcher.CallerSpeechOut{Item: u.id, Started: true, At: u.at}) // its place in the order of speech
	var text string
	gate := &partials{r: r, u: u}
	err := r.try(r.ctx, r.stt, u.id, func(ctx context.Context, i int, m *timing) (bool, error) {
		var err error
		text, err = r.recognise(ctx, r.cfg.Recognizers[i], u, gate, m)
		return false, err
	})
	gate.close()
	for _, first := range []<-chan struct{}{u.over, u.before} { // an engine that fails early does not end the speech
		select {
		case <-first:
		case <-r.ctx.Done():
		}
	}
	if text = strings.TrimSpace(text); !sayable([]rune(text)) { // recognisers make a full stop of a breath
		text = ""
	}
	_ = r.out(r.ctx, switcher.TranscriptOut{Item: u.id, Text: text, Final: true, Failed: err != nil, At: u.at})
	close(u.settled)
	r.post(heard{u, text, err})
}

// recognise puts an utterance through one engine from its beginning.
func (r *run) recognise(ctx context.Context, engine Recognizer, u *utterance, gate *partials, m *timing) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := newWatch(ctx, r.cfg.Timeouts.Listen)
	speech, err := engine.Listen(w, gate.open())
	if err != nil {
		return "", w.end(err)
	}
	defer w.end(nil)
	defer speech.Close()
	defer gate.close() // before it: what an engine says as it goes is nothing
	w.hold()
	resampler := pcm.NewResampler(r.start.InRate, engine.Rate())
	for pos := 0; ; {
		samples, end, final, err := u.next(w, pos)
		if err != nil {
			return "", err
		}
		if final {
			break
		}
		pos = end
		if err := speech.Write(resampler.Push(samples)); err != nil {
			return "", err
		}
	}
	if err := speech.Write(resampler.Flush()); err != nil {
		return "", err
	}
	m.begun()
	w.next(r.cfg.Timeouts.Transcript)
	text, err := speech.Finish(w)
	return text, w.end(err)
}

// partials lets what is understood so far through until the text is final, and only of the engine that works now.
type partials struct {
	r *run
	u *utterance

	mu   sync.Mutex
	turn int // counts what opens and closes it
	last string
}

// open gives the next engine its way.
func (p *partials) open() func(string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
	turn := p.turn
	return func(text string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if text = strings.TrimSpace(text); p.turn != turn || text == "" || text == p.last {
			return
		}
		p.last = text
		_ = p.r.out(p.r.ctx, switcher.TranscriptOut{Item: p.u.id, Text: text, At: p.u.at})
	}
}

func (p *partials) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
}
