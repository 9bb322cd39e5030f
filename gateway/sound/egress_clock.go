package sound

import (
	"math"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound/internal/opus"
	"sightline/switcher"
)

const (
	slotLength = 20 * time.Millisecond
	slotTicks  = 960 // of a slot, at opus.ClockRate

	maxBurst = 3                     // packets sent at once when the clock is late; slots beyond are given up
	cushion  = 20 * time.Millisecond // sound that has to wait beyond its first packet before a spurt starts, or the time it waits for it
	grace    = 20 * time.Millisecond // how much later than its slot sound may come and still have it; browsers hold 40 ms and more
	fadeTime = 10 * time.Millisecond // the rest of the fade's packet pushes it out of the encoder

	progressEvery = 100 * time.Millisecond
	maxTurns      = 64   // open at a time; for more, the oldest that has gone quiet counts as heard to its end, or Play waits
	maxOver       = 64   // ended turns whose late sound is told from sound of a new turn
	maxReports    = 1024 // waiting for a reader
	payloadType   = 111  // the writer puts in what was negotiated
	packetRoom    = 1275 // bytes: of a frame, RFC 6716 §3.2.1
)

// playout is what the egress decides with: sound and times in, packets and reports out. Everything is given to it, also
// the time; not safe for concurrent use.
type playout struct {
	bitrate int
	fec     bool
	loss    int   // percent that FEC is made for, if at all
	coded   int   // what enc makes it for
	limit   ticks // of queue
	write   func(*rtp.Packet) error

	queue    playQueue
	turns    []*turn // open, in the order of their first sound
	over     []switcher.TurnID
	epoch    uint64 // newest that played
	fade     []int16
	fadeRate int
	since    time.Time // when sound began to wait for a spurt to start

	resample  *resampler
	resampled *turn   // whose sound is in it
	scratch   []int16 // of the resampler

	enc   *opus.Encoder
	owed  int  // samples of sound that the encoder still holds
	fresh bool // the next packet is the first that its receiver gets

	start   time.Time // of RTP timestamp base
	base    uint32
	slot    time.Time // of the next packet, while talking; else the end of the last
	talking bool
	dry     bool  // the slot is due and there is no sound for it, yet
	last    *turn // of the last packet
	pcm     [opus.ClockRate / 50]int16
	packet  rtp.Packet
	pending bool // packet is coded and not sent
	owner   *turn
	owns    ticks // of owner's sound in packet
	buf     [packetRoom]byte

	reports []*report
	stats   EgressStats
}

type report struct {
	switcher.HeardTurn
	progress bool // may be replaced by newer
}

// step sends what is due at now.
func (p *playout) step(now time.Time) error {
	for {
		if p.write == nil {
			p.hush()
			return nil
		}
		if !p.talking && !p.begin(now) {
			return nil
		}
		if now.Before(p.slot) {
			return nil
		}
		ok, err := p.prepare(now)
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		p.catchUp(now)
		p.send(now)
	}
}

// begin starts a spurt when there is enough to play.
func (p *playout) begin(now time.Time) bool {
	if !p.ready(now) {
		return false
	}
	if p.slot.IsZero() {
		p.start, p.slot = now, now
	}
	if now.After(p.slot) {
		p.slot = now
	}
	p.talking, p.packet.Marker = true, true
	return true
}

func (p *playout) ready(now time.Time) bool {
	if p.pending || p.fade != nil {
		return true
	}
	if p.queue.n == 0 {
		return false
	}
	first := p.queue.pieces[0].turn
	return first.ended || len(p.queue.pieces) > 1 || p.queue.length >= slotTicks+ticks(cushion*opus.ClockRate/time.Second) ||
		!now.Before(p.since.Add(cushion))
}

// hush ends the spurt; the clock goes on.
func (p *playout) hush() {
	p.talking, p.dry, p.last = false, false, nil
	p.queue.slim()
}

// prepare codes the next packet, unless there is one. It says no when there is nothing to send now; the spurt then waits
// or is over.
func (p *playout) prepare(now time.Time) (bool, error) {
	if p.pending {
		return true, nil
	}
	late := now.Sub(p.slot)
	rate, n, ok := p.take(late >= grace)
	if !ok {
		speaking := p.last
		if p.queue.n > 0 { // less than a packet
			speaking = p.queue.pieces[0].turn
		}
		if speaking != nil && !speaking.ended {
			if late < grace {
				p.dry = true
				return false, nil
			}
			speaking.dried = true
		}
		p.hush()
		return false, nil
	}
	if !p.dry {
		p.stats.late(late)
	}
	p.dry = false
	return true, p.encode(rate, n)
}

// take puts the next 20 ms into pcm: n samples of sound and silence behind them. Without force it leaves less than a
// packet alone when more of the same turn may come.
func (p *playout) take(force bool) (rate, n int, ok bool) {
	p.owner, p.owns = nil, 0
	if p.fade != nil {
		rate, n = p.fadeRate, copy(p.pcm[:], p.fade)
		p.fade = nil
		return rate, n, true
	}
	flush := p.owed > 0 // the end of what was said is still in the encoder
	if p.queue.n == 0 {
		if flush && (force || p.last == nil || p.last.ended) {
			return p.enc.Rate(), 0, true
		}
		return 0, 0, false
	}
	first := p.queue.pieces[0]
	if flush && first.rate != p.enc.Rate() {
		return p.enc.Rate(), 0, true
	}
	if first.n < first.rate/50 && !force && !first.turn.ended && len(p.queue.pieces) == 1 {
		return 0, 0, false
	}
	n = p.queue.pop(p.pcm[:first.rate/50])
	p.owner, p.owns = first.turn, ticksOf(n, first.rate)
	return first.rate, n, true
}

// encode codes n samples of pcm and silence behind them.
func (p *playout) encode(rate, n int) error {
	if p.enc == nil || p.enc.Rate() != rate {
		p.close()
		enc, err := opus.NewEncoder(opus.EncoderConfig{Rate: rate, Bitrate: p.bitrate, FEC: p.fec, ExpectedLoss: p.loss})
		if err != nil {
			return err
		}
		p.enc, p.coded = enc, p.loss
	} else if p.fresh {
		if err := p.enc.Reset(); err != nil {
			return err
		}
	}
	p.fresh = false
	if p.coded != p.loss {
		if err := p.enc.SetExpectedLoss(p.loss); err != nil {
			return err
		}
		p.coded = p.loss
	}
	frame := p.pcm[:rate/50]
	clear(frame[n:])
	size, err := p.enc.Encode(frame, p.buf[:])
	if err != nil {
		return err
	}
	if n == 0 {
		p.owed = 0
	} else {
		p.owed = max(0, p.enc.Lookahead()-(len(frame)-n))
	}
	p.packet.Payload, p.pending = p.buf[:size], true
	return nil
}

// lost takes a report. Bursts come again: what FEC is made for goes down slowly.
func (p *playout) lost(share float64) {
	if !p.fec || math.IsNaN(share) {
		return
	}
	percent := int(math.Ceil(100 * max(0, min(share, 1))))
	p.loss = max(percent, p.loss*3/4)
}

// catchUp gives up slots when more than maxBurst are due.
func (p *playout) catchUp(now time.Time) {
	if due := int(now.Sub(p.slot)/slotLength) + 1; due > maxBurst {
		p.slot = p.slot.Add(time.Duration(due-maxBurst) * slotLength)
		p.stats.SkippedSlots += uint64(due - maxBurst)
		p.packet.Marker = true
	}
}

// send hands the packet to the writer and counts it as heard. One that the writer refuses is tried again in the next slot.
func (p *playout) send(now time.Time) {
	p.packet.Timestamp = p.base + uint32(int64(p.slot.Sub(p.start))*(opus.ClockRate/1000)/int64(time.Millisecond))
	p.slot = p.slot.Add(slotLength)
	if err := p.write(&p.packet); err != nil {
		p.stats.WriteErrors++
		p.packet.Marker = true // timestamps jump
		return
	}
	p.pending = false
	p.packet.Marker = false
	p.packet.SequenceNumber++
	p.stats.Packets++
	p.stats.Bytes += uint64(len(p.packet.Payload))
	if p.owner != nil {
		p.last = p.owner
		p.heard(p.owner, now)
	}
}

// heard counts the packet's sound for its turn and reports it.
func (p *playout) heard(t *turn, now time.Time) {
	t.played += p.owns
	p.stats.Played += p.owns.duration()
	if t.dried {
		t.dried = false
		p.stats.Underruns++
	}
	switch {
	case t.started.IsZero():
		t.started, t.told = now, now
		p.report(&report{HeardTurn: t.heard()})
	case now.Sub(t.told) >= progressEvery && (!t.ended || t.queued > 0):
		t.told = now
		p.report(&report{t.heard(), true})
	}
	p.settle()
}

// settle reports the turns that were heard to their end. One without any sound is done when those before it are.
func (p *playout) settle() {
	waiting, kept := false, p.turns[:0]
	for _, t := range p.turns {
		if t.ended && t.queued == 0 && (!waiting || t.played > 0) && !(p.pending && p.owner == t) {
			h := t.heard()
			h.Done = true
			p.report(&report{HeardTurn: h})
			p.forget(t.id)
			continue
		}
		waiting = waiting || t.queued > 0 || p.pending && p.owner == t
		kept = append(kept, t)
	}
	clear(p.turns[len(kept):])
	p.turns = kept
}

// wake says when step is to be called next; zero: when something changes.
func (p *playout) wake() time.Time {
	switch {
	case p.write == nil:
		return time.Time{}
	case p.talking && p.dry:
		return p.slot.Add(grace)
	case p.talking:
		return p.slot
	case p.pending || p.fade != nil:
		return p.slot
	case p.queue.n > 0:
		return p.since.Add(cushion)
	}
	return time.Time{}
}

func (p *playout) report(r *report) {
	if last := len(p.reports) - 1; last >= 0 && p.reports[last].progress && p.reports[last].TurnID == r.TurnID {
		p.reports[last] = r
		return
	}
	if len(p.reports) >= maxReports {
		p.reports = append(p.reports[:0], p.reports[1:]...)
		p.stats.ReportsDropped++
	}
	p.reports = append(p.reports, r)
}

// fadeOut makes the packet that ends a turn in the middle.
func (p *playout) fadeOut() {
	if !p.talking || p.fade != nil || p.queue.n == 0 || p.queue.pieces[0].turn != p.last {
		return
	}
	rate := p.queue.pieces[0].rate
	n := p.queue.pop(p.pcm[:int(time.Duration(rate)*fadeTime/time.Second)])
	for i, s := range p.pcm[:n] {
		p.pcm[i] = int16(float64(s) * 0.5 * (1 + math.Cos(math.Pi*float64(i+1)/float64(n))))
	}
	p.fade, p.fadeRate = append(p.fade, p.pcm[:n]...), rate
}

func (p *playout) close() {
	if p.enc != nil {
		_ = p.enc.Close() // never fails
		p.enc, p.owed = nil, 0
	}
}
