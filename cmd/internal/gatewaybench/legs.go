package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"sightline/cmd/internal/gatewaybench/caller"
	"sightline/switcher"
)

// legRate is that of the sound of the benchmark's legs, both ways, in Hz; legPiece are the samples of one of its pieces.
const (
	legRate  = 16000
	legPiece = legRate / 50
)

// A marker is a burst of a tone in silence. It begins in the middle of its packet, so that the coder's delay (6.5 ms) does not carry it
// into the next.
const (
	markerEvery  = 25 // packets
	markerAt     = 10 // in them
	markerOffset = legRate / 200
	markerLength = legRate / 25
	markerLoud   = 4000 // of 12000

	// A marker's times are those at which its first sample would be played by who plays every packet and message when it comes: so
	// nothing depends on where in them it happens to lie, and the 20 ms that are collected for them do not count.
	inPiece  = markerOffset * time.Second / legRate
	inPacket = inPiece + coderDelay
	// coderDelay is by how much Opus shifts sound (RFC 6716, its encoder in the mode for voice).
	coderDelay = 6500 * time.Microsecond
)

// marker writes a burst from i on.
func marker(pcm []int16, i int) {
	for k := range min(markerLength, len(pcm)-i) {
		pcm[i+k] = int16(12000 * math.Sin(2*math.Pi*1000*float64(k)/legRate))
	}
}

// markers is coded sound of bursts, one in every markerEvery packets.
func markers(ctx context.Context) (caller.Speech, error) {
	pcm := make([]int16, 4*markerEvery*legPiece)
	for i := range 4 {
		marker(pcm, (i*markerEvery+markerAt)*legPiece+markerOffset)
	}
	return caller.Code(ctx, legRate, pcm)
}

// echoLeg says what it hears, in one turn without an end; the gateway is to run without barge-in.
type echoLeg struct{ floored func() } // is told that it has the floor

// Run implements switcher.Leg.
func (l *echoLeg) Run(ctx context.Context, _ switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	return hears(ctx, in, out, l.floored, func(sound switcher.SoundIn) error {
		return out(ctx, switcher.SoundOut{Item: "echo", Rate: legRate, PCM: sound.PCM})
	})
}

// afresh is how long a leg lets sound pass that it is given with the floor: the caller's turn so far comes first, faster than it was
// spoken, and answered at once it would be a lead that hides what is late.
const afresh = 500 * time.Millisecond

// hears serves a leg that only listens: with the floor, each piece of sound is given to take.
func hears(ctx context.Context, in *switcher.Inbox, out switcher.Emit, floored func(), take func(switcher.SoundIn) error) error {
	if err := out(ctx, switcher.ReadyOut{}); err != nil {
		return nil // it was stopped
	}
	var floor time.Time
	for {
		i, err := in.Next(ctx)
		if err != nil {
			return nil
		}
		switch i := i.(type) {
		case switcher.FloorIn:
			floor = time.Now()
			floored()
		case switcher.SoundIn:
			if floor.IsZero() || time.Since(floor) < afresh {
				continue
			}
			if err := take(i); err != nil {
				return nil
			}
		}
	}
}

// markerLeg answers each marker that it hears with one of its own, and silence with silence, so that there is one turn without an end.
type markerLeg struct {
	floored func()

	mu    sync.Mutex
	heard []time.Time // of each marker, when it can be played
	said  []time.Time // of each answer
}

// Run implements switcher.Leg.
func (l *markerLeg) Run(ctx context.Context, _ switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	silence, burst := make([]int16, legPiece), make([]int16, 4*legPiece)
	marker(burst, markerOffset)
	var rest []int16
	quiet := 0 // samples since the last loud one
	return hears(ctx, in, out, l.floored, func(sound switcher.SoundIn) error {
		now, begins := time.Now(), false
		for i, v := range sound.PCM {
			if v > markerLoud || v < -markerLoud {
				if quiet > legRate/10 {
					begins, now = true, now.Add(time.Duration(i)*time.Second/legRate)
				}
				quiet = 0
			} else {
				quiet++
			}
		}
		if begins {
			rest = burst
		}
		piece := silence
		if len(rest) > 0 {
			piece, rest = rest[:legPiece], rest[legPiece:]
		}
		if begins {
			l.mu.Lock()
			l.heard, l.said = append(l.heard, now), append(l.said, time.Now().Add(inPiece))
			l.mu.Unlock()
		}
		return out(ctx, switcher.SoundOut{Item: "markers", Rate: legRate, PCM: piece})
	})
}

// delays matches the markers from a time on: caller → leg, leg → caller, and those that did not come within a marker's period.
func (l *markerLeg) delays(c *caller.Caller, from time.Time) (in, out []time.Duration, missing int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const period = markerEvery * caller.FrameTime
	end := time.Now().Add(-period)
	next := func(list []time.Time, at time.Time) (time.Duration, bool) {
		for _, t := range list {
			if !t.Before(at) {
				return t.Sub(at), t.Sub(at) < period
			}
		}
		return 0, false
	}
	add := func(to *[]time.Duration, list []time.Time, at time.Time) {
		if at.Before(from) || at.After(end) {
			return
		}
		if d, ok := next(list, at); ok {
			*to = append(*to, d)
		} else {
			missing++
		}
	}
	for n := markerAt; ; n += markerEvery {
		at, ok := c.SentAt(n)
		if !ok {
			break
		}
		add(&in, l.heard, at.Add(inPacket))
	}
	came := onsets(c.Packets(from.Add(-period)))
	for _, at := range l.said {
		add(&out, came, at)
	}
	return in, out, missing
}

// onsets are when the markers in packets can be played: silence takes fewer bytes.
func onsets(packets []caller.Packet) (at []time.Time) {
	quiet := 0
	for _, p := range packets {
		if p.Size < markerBytes {
			quiet++
			continue
		}
		if quiet >= 5 {
			at = append(at, p.At.Add(inPacket))
		}
		quiet = 0
	}
	return at
}

// markerBytes is between what 20 ms of silence and of a tone take in Opus at the gateway's bitrate.
const markerBytes = 30

// toneLeg talks without an end from the floor on. lead is how far it is ahead, as voices and models are.
type toneLeg struct {
	hz    float64
	told  func(ready, floor time.Time) // from its goroutine, when it has the floor
	ready time.Duration                // how long it takes to be
}

const toneLead = 100 * time.Millisecond

// Run implements switcher.Leg.
func (l *toneLeg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	select {
	case <-time.After(l.ready):
	case <-ctx.Done():
		return nil
	}
	ready := time.Now()
	if err := out(ctx, switcher.ReadyOut{}); err != nil {
		return nil
	}
	for {
		i, err := in.Next(ctx)
		if err != nil {
			return nil
		}
		if _, ok := i.(switcher.FloorIn); ok {
			break
		}
	}
	floor := time.Now()
	var talking sync.WaitGroup
	defer talking.Wait()
	talking.Go(func() { l.talk(ctx, fmt.Sprint("turn-", start.Epoch), floor, out) })
	l.told(ready, floor)
	for {
		if _, err := in.Next(ctx); err != nil {
			return nil
		}
	}
}

func (l *toneLeg) talk(ctx context.Context, item string, began time.Time, out switcher.Emit) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		timer.Reset(time.Until(began.Add(time.Duration(n)*caller.FrameTime - toneLead)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pcm := make([]int16, legPiece)
		for k := range pcm {
			pcm[k] = int16(8000 * math.Sin(2*math.Pi*l.hz*float64(n*legPiece+k)/legRate))
		}
		if out(ctx, switcher.SoundOut{Item: item, Rate: legRate, PCM: pcm}) != nil {
			return
		}
	}
}

// brokenLeg fails instead of getting ready.
type brokenLeg struct{ told func(failed time.Time) }

// Run implements switcher.Leg.
func (l *brokenLeg) Run(context.Context, switcher.Start, *switcher.Inbox, switcher.Emit) error {
	l.told(time.Now())
	return &switcher.LegError{Code: "connect", Message: "this leg is broken on purpose"}
}
