package sound

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound/internal/opus"
	"sightline/switcher"
)

// Defaults of an EgressConfig.
const (
	DefaultQueue        = 30 * time.Second
	DefaultBitrate      = opus.DefaultBitrate
	DefaultExpectedLoss = 5
)

// ErrEgressOver is what Play answers after Run has returned.
var ErrEgressOver = errors.New("the session's sound is over")

// EgressConfig says how a session's legs are heard.
type EgressConfig struct {
	Queue        time.Duration // of sound that may wait, 1 s to 10 min; 0: DefaultQueue
	Bitrate      int           // bits/s, 6000 to 128000; 0: DefaultBitrate
	ExpectedLoss int           // percent of packets that in-band FEC is made for until Lost says better, 1 to 100; 0: DefaultExpectedLoss, negative: never any FEC
}

func (c EgressConfig) withDefaults() (EgressConfig, error) {
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	if c.Bitrate == 0 {
		c.Bitrate = DefaultBitrate
	}
	if c.ExpectedLoss == 0 {
		c.ExpectedLoss = DefaultExpectedLoss
	}
	switch {
	case c.Queue < time.Second || c.Queue > 10*time.Minute:
		return c, fmt.Errorf("egress: a queue of %v, must be 1s to 10m", c.Queue)
	case c.Bitrate < 6000 || c.Bitrate > 128000:
		return c, fmt.Errorf("egress: %d bits/s, must be 6000 to 128000", c.Bitrate)
	case c.ExpectedLoss > 100:
		return c, fmt.Errorf("egress: expected loss of %d percent, must be at most 100", c.ExpectedLoss)
	}
	return c, nil
}

// Egress plays the sound of a session's legs to the caller and knows what was heard: it is the session's
// [switcher.Speaker]. Its methods may be called from any goroutine.
type Egress struct {
	wake chan struct{}           // capacity 1: look again
	room chan struct{}           // capacity 1: the queue may have room
	turn chan struct{}           // capacity 1, a lock that can be given up: one Play at a time
	told chan switcher.HeardTurn // to the reader of Heard
	over chan struct{}           // closed when Run has returned

	mu sync.Mutex
	p  playout // guarded by mu
}

// NewEgress makes an egress that nobody hears yet: see SetWriter. It plays while Run runs.
func NewEgress(cfg EgressConfig) (*Egress, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Egress{
		wake: make(chan struct{}, 1), room: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		told: make(chan switcher.HeardTurn), over: make(chan struct{}),
	}
	e.p = playout{bitrate: cfg.Bitrate, fec: cfg.ExpectedLoss > 0, loss: max(0, cfg.ExpectedLoss), limit: ticks(cfg.Queue * opus.ClockRate / time.Second), base: rand.Uint32()}
	e.p.packet.Version, e.p.packet.PayloadType = 2, payloadType
	e.p.packet.SSRC, e.p.packet.SequenceNumber = rand.Uint32(), uint16(rand.Uint32())
	return e, nil
}

// Run sends until ctx ends and then returns nil; any other return is that of a codec that cannot be made. Call it once.
// When it has returned, no C memory is left and Play fails.
func (e *Egress) Run(ctx context.Context) error {
	defer e.finish()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, first, err := e.step()
		if err != nil {
			return fmt.Errorf("egress: %w", err)
		}
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		var told chan<- switcher.HeardTurn
		var h switcher.HeardTurn
		if first != nil {
			told, h = e.told, first.HeardTurn
		}
		select {
		case <-ctx.Done():
			return nil
		case <-due:
		case <-e.wake:
		case told <- h:
			e.reported(first)
		}
	}
}

// step sends what is due, and says when to call it again (zero: when woken) and which report waits first.
func (e *Egress) step() (next time.Time, first *report, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.p.queue.length
	if err := e.p.step(time.Now()); err != nil {
		return time.Time{}, nil, err
	}
	if e.p.queue.length < before {
		signal(e.room)
	}
	if len(e.p.reports) > 0 {
		first = e.p.reports[0]
	}
	return e.p.wake(), first, nil
}

// reported takes a report from the list, unless Stop or newer progress has done so meanwhile.
func (e *Egress) reported(r *report) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.p.reports) > 0 && e.p.reports[0] == r {
		e.p.reports = append(e.p.reports[:0], e.p.reports[1:]...)
	}
}

func (e *Egress) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.p.close()
	e.p.write = nil
	close(e.over)
}

// signal sets a flag that somebody waits for.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// SetWriter says where packets go from now on, from the next one on: to a publisher's PeerConnection, or nowhere (nil).
// Sequence numbers, timestamps and the clock go on. While there is no writer nothing is heard: what is queued waits, and
// Play waits when the queue is full. (A session whose caller listens in another way sets a writer that does nothing.)
//
// write is called with a lock held: it must not wait and must not call the Egress. It must not keep the packet or its
// payload. It may change SSRC and PayloadType of a copy only. A packet that it refuses is offered again 20 ms later and is
// not heard.
func (e *Egress) SetWriter(write func(*rtp.Packet) error) {
	e.mu.Lock()
	e.p.write, e.p.fresh = write, true
	e.mu.Unlock()
	signal(e.wake)
}

// Lost takes the share of packets, 0 to 1, that did not arrive by a report of the caller's side: FEC is made for that from the
// next packet on. It goes up at once and down by a quarter a report; where nothing is lost there is none, which sounds better
// at the same bitrate and takes half the time. Each report is given once.
func (e *Egress) Lost(share float64) {
	e.mu.Lock()
	e.p.lost(share)
	e.mu.Unlock()
}

// Play queues sound of a turn behind what is queued; pcm may be used again when it returns. rate is 8000 to 48000 Hz, a
// multiple of 25. It waits while the queue is full; when ctx ends meanwhile, the sound up to there is queued. Sound of a
// turn that is over (stopped, ended, or of an epoch older than one that played) is dropped, counted, and no error. The
// first sound of a newer epoch stops what is left of an older one, which Heard reports.
func (e *Egress) Play(ctx context.Context, turn switcher.TurnID, rate int, pcm []int16) error {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return ctx.Err()
	case <-e.over:
		return ErrEgressOver
	}
	for len(pcm) > 0 {
		n, err := e.push(turn, rate, pcm)
		if err != nil {
			return err
		}
		if n > 0 {
			pcm = pcm[n:]
			signal(e.wake)
			continue
		}
		select {
		case <-e.room:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.over:
			return ErrEgressOver
		}
	}
	return nil
}

func (e *Egress) push(turn switcher.TurnID, rate int, pcm []int16) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.p.push(time.Now(), turn, rate, pcm)
}

// EndTurn says that no more sound of the turn comes: when it has been heard to its end, Heard reports it as done, also
// when it never had any sound.
func (e *Egress) EndTurn(turn switcher.TurnID) {
	e.mu.Lock()
	e.p.end(turn)
	e.mu.Unlock()
	signal(e.wake)
}

// Stop ends playback: one more packet, in which the sound fades out within 10 ms, then nothing. It forgets what is queued
// and says what was heard of each turn that was not done, the fade not counted; Heard reports nothing of them any more,
// except what its reader was being given. Sound of these turns that comes later is dropped.
func (e *Egress) Stop() []switcher.HeardTurn {
	e.mu.Lock()
	heard := e.p.stop()
	e.mu.Unlock()
	signal(e.room)
	signal(e.wake)
	return heard
}

// Commit makes epoch the oldest that is heard: it stops what is left of older ones, as Stop does, and drops what comes
// of them later (G5). An epoch that is not newer than the last changes nothing.
func (e *Egress) Commit(epoch uint64) []switcher.HeardTurn {
	e.mu.Lock()
	var heard []switcher.HeardTurn
	if epoch > e.p.epoch {
		heard, e.p.epoch = e.p.stop(), epoch
	}
	e.mu.Unlock()
	signal(e.room)
	signal(e.wake)
	return heard
}

// Heard is the channel of what was heard of turns: the first packet, progress at most ten times a second, and the end.
// One goroutine reads it; while it does not, only the newest progress is kept, of anything else up to 1024 reports. The
// channel is never closed.
func (e *Egress) Heard() <-chan switcher.HeardTurn { return e.told }

// Stats gives a snapshot.
func (e *Egress) Stats() EgressStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.p.stats
	s.Queued, s.OpenTurns, s.Connected = e.p.queue.length.duration(), len(e.p.turns), e.p.write != nil
	return s
}
