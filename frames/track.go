package frames

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"
)

// Codec names a video codec as in SDP.
type Codec string

// The codecs that a track takes.
const (
	CodecVP8  Codec = "VP8"
	CodecVP9  Codec = "VP9"  // profile 0; of layers in space the wanted one
	CodecH264 Codec = "H264" // constrained baseline to high, packetization modes 0 and 1
	CodecAV1  Codec = "AV1"  // main profile with 8 bits; of layers in space the wanted one
)

const (
	defaultStallAfter = 2 * time.Second
	demandHold        = 2 * time.Second // decoding goes on for so long after a request
)

// TrackConfig is what a Track is made from. Zero fields mean the documented default.
type TrackConfig struct {
	Source          string            // name of the video input; goes into every Image
	Codec           Codec             // default CodecVP8
	RequestKeyFrame func()            // sends one PLI; called from one of Run's goroutines, spaced 500 ms to 5 s; nil: the sender takes none
	Images          *atomic.Uint64    // numbers the images; tracks that share it are one source over time; default: one of its own
	Budget          *Budget           // shared by all tracks of the process; default: one of its own
	Log             *slog.Logger      // default: discarded
	Extensions      Extensions        // of its packets' headers
	ParameterSets   string            // of H264: sprop-parameter-sets of the SDP, where it has them
	Policy          Policy            // what is decoded; default PolicyAuto; see SetPolicy
	Screen          bool              // it is a screen, as far as signalling says
	StallAfter      time.Duration     // no packet for so long is stalled; default 2 s
	OnState         func(SourceState) // called on change, from the same goroutine as RequestKeyFrame; must not block
}

// Track turns the packets of one video track into images. Push, Subscribe, Image and Stats may be called from any goroutine, before, during
// and after Run; Push from one at a time, in order of arrival.
type Track struct {
	// inputs
	cfg        TrackConfig
	log        *slog.Logger
	newDecoder func() (decoder, error)

	// wake-ups of Run's two goroutines
	work    chan struct{}
	control chan struct{}
	ended   chan struct{} // closed when Run returns

	mu sync.Mutex // guards everything below; held for microseconds, never across C, I/O or a callback

	lay     layering
	asm     *assembler // of the layer in use
	queue   frameQueue
	running bool
	over    bool
	reqs    keyRequester

	setting    Policy
	chosen     chooser
	gate       admission
	answers    answers
	base       layerMeter
	keyBits    float64 // of a key frame, smoothed
	sizes      catchUp
	made       int       // what sizes found last, see situation.settle; until they have, key frames are taken to be coarse
	less       int       // times in a row that it was less
	looked     int       // what settling found last
	neverUntil time.Time // neverSettle holds
	watchIn    int       // key frames until settling looks again
	watchWait  int       // and from one look to the next
	workedAt   time.Time // a key frame's picture is being made since; zero: none is
	holding    bool      // it is held back for a better one
	held       shown     // the picture that the worker has

	subs       []*Subscription
	waiters    []*waiter
	lastDemand time.Time

	st          TrackStats // counters; Stats fills in the rest
	firstPacket time.Time
	lastFrame   time.Time // when the last whole frame arrived
	black       bool
	still       stillness
	cache       [cachedImages]cachedImage
}

// NewTrack checks the config. Nothing starts before Run.
func NewTrack(cfg TrackConfig) (*Track, error) {
	if cfg.Codec == "" {
		cfg.Codec = CodecVP8
	}
	if cfg.StallAfter == 0 {
		cfg.StallAfter = defaultStallAfter
	}
	if cfg.StallAfter < 0 {
		return nil, fmt.Errorf("stall after %v: must be over 0", cfg.StallAfter)
	}
	if cfg.Policy == "" {
		cfg.Policy = PolicyAuto
	}
	if _, err := ParsePolicy(string(cfg.Policy)); err != nil {
		return nil, err
	}
	if cfg.Images == nil {
		cfg.Images = new(atomic.Uint64)
	}
	if cfg.Budget == nil {
		cfg.Budget = NewBudget(0)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	t := &Track{
		cfg: cfg, log: cfg.Log.With("source", cfg.Source),
		setting: cfg.Policy, made: 1,
		newDecoder: func() (decoder, error) { return newDecoder(cfg.Codec) },
		work:       make(chan struct{}, 1), control: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	l, err := t.newLayer("", cfg.RequestKeyFrame)
	if err != nil {
		return nil, err
	}
	t.lay.all = []*Layer{l}
	t.lay.cur, t.asm = l, &l.asm
	return t, nil
}

// signal wakes the reader of a channel of capacity 1.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Push takes one packet of the first layer that arrived at the given time. It never blocks. A packet that is kept belongs to the track from
// now on; of the others (nobody watches, say) nothing is held.
func (t *Track) Push(p *rtp.Packet, at time.Time) (kept bool) { return t.push(t.lay.first(), p, at) }

func (t *Track) push(l *Layer, p *rtp.Packet, at time.Time) (kept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return false
	}
	if t.st.Packets == 0 {
		t.firstPacket = at
	}
	if at.Sub(t.st.LastPacketAt) >= keyFrameSpacing { // requests sent into an outage were not refused: no back-off for them
		t.reqs.answered()
		t.answers.forget()
		signal(t.control)
	}
	silent := at.Sub(t.st.LastPacketAt) >= t.cfg.StallAfter
	t.st.Packets++
	t.st.LastPacketAt = at
	w, h, needed, screen := t.asm.width, t.asm.height, t.asm.needKey, t.asm.said.screen
	if fs := l.receive(p, at); t.took(l, fs, at) {
		t.enqueue(fs)
	}
	if silent || t.asm.width != w || t.asm.height != h || t.asm.needKey && !needed || t.asm.said.screen != screen {
		signal(t.control)
	}
	return l.asm.holds(p)
}

// enqueue hands assembled frames to the worker.
func (t *Track) enqueue(fs []*frame) {
	for _, f := range fs {
		t.lastFrame = f.receivedAt
		if !t.admit(f) {
			t.st.PolicySkipped++
			t.asm.recycle(f)
			continue
		}
		dropped, ok := t.queue.push(f)
		for _, d := range dropped {
			t.st.FrameDrops.Skipped++
			t.asm.recycle(d)
		}
		if !ok {
			t.st.FrameDrops.QueueFull++
			t.asm.recycle(f)
			t.asm.breakChain()
			continue
		}
		signal(t.work)
	}
}

// watched reports whether anybody wants images; t.mu is held.
func (t *Track) watched(at time.Time) bool {
	return len(t.subs) > 0 || len(t.waiters) > 0 || !t.lastDemand.IsZero() && at.Sub(t.lastDemand) < demandHold
}

// activate begins to assemble and decode; t.mu is held.
func (t *Track) activate() {
	if !t.over && !t.asm.active {
		t.wakeLayer(time.Now())
		t.reqs.answered() // no back-off from the last time somebody watched
		t.gate, t.watchIn = admission{}, 0
	}
	t.choose(time.Now())
	signal(t.control)
	signal(t.work)
}

// deactivate forgets every frame; the worker frees its C memory when it next looks. t.mu is held.
func (t *Track) deactivate() {
	t.queue.take(t.queue.n)
	t.sleepLayers()
	t.gate, t.workedAt, t.holding, t.held = admission{}, time.Time{}, false, shown{}
	t.answers.forget()
	t.black, t.still = false, stillness{}
	signal(t.work)
}

// Run decodes and encodes until ctx ends; it returns with every goroutine gone and all C memory freed (G13). A track runs once.
func (t *Track) Run(ctx context.Context) error {
	t.mu.Lock()
	again := t.running
	t.running = true
	t.mu.Unlock()
	if again {
		return errors.New("track: Run was called before: a track runs once")
	}
	var wg sync.WaitGroup
	wg.Go(func() { t.runWorker(ctx) })
	t.runControl(ctx)
	wg.Wait()

	t.mu.Lock()
	t.over = true
	t.deactivate()
	t.waiters = nil
	state := t.state(time.Now())
	t.mu.Unlock()
	close(t.ended)
	t.tell(state)
	return nil
}
