package sound

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound/internal/opus"
)

// What an Ingress gives and holds by default.
const (
	FrameTime       = 20 * time.Millisecond // length of what it gives
	DefaultMinDelay = 30 * time.Millisecond
	DefaultMaxDelay = 80 * time.Millisecond
	behindMost      = 500 * time.Millisecond // a Run that is further behind leaves frames out
	slewBack        = 10 * time.Millisecond  // the times of neighbouring frames differ by 20 ms less this
	slewOn          = 20 * time.Millisecond  // to 20 ms and this
)

// inRates are the rates in Hz that an Ingress can give.
var inRates = []int{8000, 16000, 24000, 48000}

// IngressConfig says what an Ingress is to do.
type IngressConfig struct {
	// PayloadType is that of Opus in this track; packets of others (comfort noise, red) are counted and left alone.
	PayloadType uint8
	// Rates in Hz that are wanted at first: 8000, 16000, 24000, 48000. Each costs a decoder.
	Rates []int
	// MinDelay and MaxDelay bound how long sound is held for packets that are late; 0: DefaultMinDelay, DefaultMaxDelay.
	// What is held beyond, after an outage, is given back.
	MinDelay, MaxDelay time.Duration
	// Frame is given each 20 ms of sound at each wanted rate, lowest rate first, from Run's goroutine: PCM16 mono, without
	// gaps, silence too. pcm is its to keep, but is shared: nobody writes to it. at is when its first sample came in, or
	// would have, the fastest way of late: pictures that came in at that time belong to it. It must not wait: Run then falls
	// behind.
	Frame func(rate int, pcm []int16, at time.Time)
	Log   *slog.Logger
}

// Ingress turns the Opus packets of one track into sound at the pace of the clock, whatever comes or does not.
type Ingress struct {
	cfg IngressConfig
	log *slog.Logger

	mu      sync.Mutex
	jitter  *jitter
	rates   []int // wanted, ascending
	foreign uint64
	unread  uint64

	// touched only by Run
	voices  []*voice
	length  int       // ticks decoded and not given yet, the same in every voice
	sound   int       // ticks of packets since the last shortening
	last    time.Time // of the newest frame
	lastSet bool      // the next frame's time keeps close to it
}

// NewIngress makes an Ingress; an error says what is wrong with the configuration.
func NewIngress(cfg IngressConfig) (*Ingress, error) {
	if cfg.MinDelay == 0 {
		cfg.MinDelay = DefaultMinDelay
	}
	if cfg.MaxDelay == 0 {
		cfg.MaxDelay = max(DefaultMaxDelay, cfg.MinDelay)
	}
	if cfg.MinDelay < 0 || cfg.MaxDelay < cfg.MinDelay || cfg.MaxDelay > maxHeld {
		return nil, fmt.Errorf("sound: delays of %v to %v: allowed are 0 to %v, the lower first", cfg.MinDelay, cfg.MaxDelay, maxHeld)
	}
	if cfg.Frame == nil {
		return nil, fmt.Errorf("sound: an ingress without Frame gives sound to nobody")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	in := &Ingress{cfg: cfg, log: cfg.Log, jitter: newJitter(cfg.MinDelay, cfg.MaxDelay)}
	return in, in.SetRates(cfg.Rates...)
}

// Push takes a packet, which is the Ingress's from then on, and the time of its arrival. It never waits; from any goroutine.
func (in *Ingress) Push(p *rtp.Packet, at time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if p.PayloadType != in.cfg.PayloadType {
		in.foreign++
		return
	}
	in.jitter.push(p, at)
}

// SetRates changes the wanted rates, from the next frame on. The rates are 8000, 16000, 24000 and 48000 Hz; with an error
// those of before stay.
func (in *Ingress) SetRates(rates ...int) error {
	for _, r := range rates {
		if !slices.Contains(inRates, r) {
			return fmt.Errorf("sound: a rate of %d Hz is not to be had: allowed are %v", r, inRates)
		}
	}
	wanted := slices.Clone(rates)
	slices.Sort(wanted)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.rates = slices.Compact(wanted)
	return nil
}

// Counts says what became of the packets so far.
func (in *Ingress) Counts() Counts {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := in.jitter.counts
	c.Packets += in.foreign
	c.Foreign, c.Unread = in.foreign, in.unread
	return c
}

// Delay says how long sound is being held.
func (in *Ingress) Delay() Delay {
	in.mu.Lock()
	defer in.mu.Unlock()
	return Delay{Target: in.jitter.delay.target(), Now: in.jitter.behind}
}

// Run gives a frame of every wanted rate each 20 ms until ctx ends, which is no failure.
func (in *Ingress) Run(ctx context.Context) error {
	defer in.close()
	due := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if behind := time.Since(due); behind > behindMost {
			skipped := behind / FrameTime
			due = due.Add(skipped * FrameTime)
			in.lastSet = false
			in.mu.Lock()
			in.unread += uint64(skipped)
			in.mu.Unlock()
		}
		if err := in.tick(due); err != nil {
			return err
		}
		due = due.Add(FrameTime)
		timer.Reset(time.Until(due))
	}
}

func (in *Ingress) close() {
	for _, v := range in.voices {
		_ = v.decoder.Close() // frees memory, cannot fail
	}
	in.voices = nil
}

// tick gives the frame that begins at now.
func (in *Ingress) tick(now time.Time) error {
	if err := in.retune(); err != nil {
		return err
	}
	for in.length < opusFrame {
		in.mu.Lock()
		st := in.jitter.next(now.Add(span(int64(in.length))), opusFrame-in.length)
		in.mu.Unlock()
		in.render(st)
	}
	in.mu.Lock()
	at := in.jitter.came(now, in.length)
	in.mu.Unlock()
	if in.lastSet {
		next := in.last.Add(FrameTime)
		if earliest := next.Add(-slewBack); at.Before(earliest) {
			at = earliest
		} else if latest := next.Add(slewOn); at.After(latest) {
			at = latest
		}
	}
	in.last, in.lastSet = at, true
	for _, v := range in.voices {
		in.cfg.Frame(v.rate, v.give(), at)
	}
	in.length -= opusFrame
	return nil
}

// retune makes and frees decoders, as the wanted rates say.
func (in *Ingress) retune() error {
	in.mu.Lock()
	rates := in.rates // replaced, never changed
	in.mu.Unlock()
	if slices.EqualFunc(rates, in.voices, func(r int, v *voice) bool { return r == v.rate }) {
		return nil
	}
	var voices []*voice
	for _, v := range in.voices {
		if slices.Contains(rates, v.rate) {
			voices = append(voices, v)
		} else {
			_ = v.decoder.Close()
		}
	}
	in.voices = voices
	for _, r := range rates {
		if slices.ContainsFunc(in.voices, func(v *voice) bool { return v.rate == r }) {
			continue
		}
		d, err := opus.NewDecoder(r)
		if err != nil {
			return fmt.Errorf("sound: a decoder for %d Hz: %w", r, err)
		}
		v := &voice{rate: r, decoder: d, pcm: make([]int16, (opusFrame+opus.MaxSamples+slack)/(clockRate/r))}
		v.have = in.length / (clockRate / r) // silence, so that all are at the same place
		in.voices = append(in.voices, v)
	}
	slices.SortFunc(in.voices, func(a, b *voice) int { return a.rate - b.rate })
	return nil
}

// render makes the sound of a step, in every voice.
func (in *Ingress) render(st step) {
	for _, v := range in.voices {
		v.render(st)
	}
	ticks := st.ticks
	if st.kind == stepPacket {
		in.sound += ticks
		if cut := in.shorten(st); cut > 0 {
			ticks -= cut
			in.mu.Lock()
			in.jitter.counts.Shortened += span(int64(cut))
			in.mu.Unlock()
		}
	}
	in.length += ticks
	for _, v := range in.voices {
		v.have = in.length / (clockRate / v.rate)
	}
}
