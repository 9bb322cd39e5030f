package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"sightline/cmd/internal/gatewaybench/caller"
	"sightline/cmd/internal/gatewaybench/probe"
	"sightline/switcher"
)

// markersEvery: one in so many calls of the load sends markers instead of speech, so that delays are measured under it.
const markersEvery = 10

// legsWant is what the parts with legs ask of the gateway.
const legsWant = "serve --pipeline none --barge-in off"

// mouth is the sound of the calls.
func (b *bench) mouth(ctx context.Context) (speech, marks caller.Speech, err error) {
	rate, pcm, err := caller.ReadWAV(b.speechFile)
	if err != nil {
		return nil, nil, err
	}
	if speech, err = caller.Code(ctx, rate, pcm); err != nil {
		return nil, nil, err
	}
	marks, err = markers(ctx)
	return speech, marks, err
}

// voiceLoad is calls that echo, and of some of them the markers.
type voiceLoad struct {
	*talks
	marked map[*talk]*markerLeg
}

// echo begins n calls whose legs have the floor; those that marked says send markers.
func (b *bench) echo(ctx context.Context, name string, n int, marked func(i int) bool, speech, marks caller.Speech) (*voiceLoad, error) {
	t, ctx := b.newTalks(ctx)
	load := &voiceLoad{t, map[*talk]*markerLeg{}}
	for i := range n {
		floor := make(chan struct{})
		floored := sync.OnceFunc(func() { close(floor) })
		cfg, offer := caller.Config{Loop: speech}, switcher.Leg(&echoLeg{floored})
		var m *markerLeg
		if marked(i) {
			m = &markerLeg{floored: floored}
			cfg, offer = caller.Config{Loop: marks}, m
		}
		k, err := t.call(ctx, fmt.Sprintf("bench-%s-%d", name, i), cfg, leg("echo", switcher.Realtime, legRate, func() switcher.Leg { return offer }))
		if err == nil {
			err = k.ask(ctx, "floor", "echo")
		}
		if err == nil {
			err = t.await(ctx, floor, k.id+"'s leg to have the floor")
		}
		if err != nil {
			return nil, errors.Join(err, t.end())
		}
		if m != nil {
			load.marked[k] = m
		}
		<-time.After(startEvery)
	}
	return load, nil
}

// heardLoad is what a stretch of a voiceLoad was like.
type heardLoad struct {
	stream
	in, out        []time.Duration // of markers, sorted
	missing        int             // markers
	took, cpu      time.Duration   // cpu: of the gateway
	ours           time.Duration   // CPU of the callers and the legs
	sent, sentLate int             // packets of the callers
}

func (l *voiceLoad) measure(ctx context.Context, settle time.Duration) (h heardLoad, err error) {
	if err = l.pass(ctx, settle); err != nil {
		return h, err
	}
	self := probe.Process{PID: os.Getpid()}
	before, err := l.b.gateway.CPU()
	if err != nil {
		return h, err
	}
	mine, err := self.CPU()
	if err != nil {
		return h, err
	}
	begun := time.Now()
	for _, k := range l.all {
		packets, late := k.caller.Sent()
		h.sent, h.sentLate = h.sent-packets, h.sentLate-late
	}
	if err = l.pass(ctx, l.b.seconds); err != nil {
		return h, err
	}
	h.took = time.Since(begun)
	after, err := l.b.gateway.CPU()
	if err != nil {
		return h, err
	}
	h.cpu = after - before
	after, err = self.CPU()
	h.ours = after - mine
	for _, k := range l.all {
		packets, late := k.caller.Sent()
		h.sent, h.sentLate = h.sent+packets, h.sentLate+late
		h.add(k.caller.Packets(begun))
	}
	for k, m := range l.marked {
		in, out, missing := m.delays(k.caller, begun)
		h.in, h.out, h.missing = append(h.in, in...), append(h.out, out...), h.missing+missing
	}
	h.sort()
	slices.Sort(h.in)
	slices.Sort(h.out)
	return h, err
}

// voice: many calls that echo at once.
func (b *bench) voice(ctx context.Context) error {
	speech, marks, err := b.mouth(ctx)
	if err != nil {
		return err
	}
	load, err := b.echo(ctx, "voice", b.voiceCalls, func(i int) bool { return i%markersEvery == 0 }, speech, marks)
	if err != nil {
		return err
	}
	h, err := load.measure(ctx, min(3*time.Second, b.seconds))
	if err = errors.Join(err, load.end()); err != nil {
		return err
	}
	if len(h.gaps) == 0 {
		return errors.New("no caller has heard anything: the gateway is to run as " + legsWant)
	}
	fmt.Fprintf(b.out, "%d calls at once for %.0f s, speech in Opus both ways; a remote leg each that echoes, by binary audio of %d Hz (all callers and legs in one other process; %d of the calls send markers):\n\n",
		b.voiceCalls, h.took.Seconds(), legRate, len(load.marked))
	fmt.Fprint(b.out, "| | measured | wanted |\n|---|---|---|\n")
	fmt.Fprintf(b.out, "| underruns: sound that went on after it had run out, by the RTP timestamps | %d | %s |\n", h.underruns, under(float64(h.underruns), 0))
	fmt.Fprintf(b.out, "| packets that the callers got · of those that were due | %d · %.2f %% | |\n", len(h.late), 100*float64(len(h.late))*0.02/h.took.Seconds()/float64(b.voiceCalls))
	fmt.Fprintf(b.out, "| lost on the way | %d | |\n", h.lost)
	fmt.Fprintf(b.out, "| between two packets at the caller, p50 · p99 · longest, ms | %.1f · %.1f · %.1f | |\n", ms(quantile(h.gaps, .5)), ms(quantile(h.gaps, .99)), ms(h.gaps[len(h.gaps)-1]))
	fmt.Fprintf(b.out, "| gaps above 40 ms | %d | |\n", above(h.gaps, 40*time.Millisecond))
	fmt.Fprintf(b.out, "| packets later than the call's fastest, by their timestamps, p99 · longest, ms | %.1f · %.1f | |\n", ms(quantile(h.late, .99)), ms(h.late[len(h.late)-1]))
	perCall := func(cpu time.Duration) float64 { return 100 * cpu.Seconds() / h.took.Seconds() / float64(b.voiceCalls) }
	fmt.Fprintf(b.out, "| CPU for one call, of the gateway · of the callers and legs on the same machine, %% of a core | %.2f · %.2f | |\n", perCall(h.cpu), perCall(h.ours))
	b.delayRows(h, "under this load: ")
	fmt.Fprintln(b.out)
	b.busy(h)
	return nil
}

// delay: what the gateway adds, without any other load.
func (b *bench) delay(ctx context.Context) error {
	marks, err := markers(ctx)
	if err != nil {
		return err
	}
	load, err := b.echo(ctx, "delay", b.delayCalls, func(int) bool { return true }, nil, marks)
	if err != nil {
		return err
	}
	h, err := load.measure(ctx, min(5*time.Second, b.seconds))
	if err = errors.Join(err, load.end()); err != nil {
		return err
	}
	if len(h.in) == 0 || len(h.out) == 0 {
		return fmt.Errorf("%d markers came to legs and %d to callers: the gateway is to run as %s", len(h.in), len(h.out), legsWant)
	}
	fmt.Fprintf(b.out, "What the gateway adds to sound, %d calls, %d bursts of a tone each way in %.0f s; how much later it can be played than if packets and messages went straight from one to the other, with the %.1f ms of the gateway's own coder:\n\n",
		b.delayCalls, len(h.in), h.took.Seconds(), ms(coderDelay))
	fmt.Fprint(b.out, "| | measured | wanted |\n|---|---|---|\n")
	b.delayRows(h, "")
	fmt.Fprintln(b.out)
	b.busy(h)
	return nil
}

func (b *bench) delayRows(h heardLoad, when string) {
	for _, way := range []struct {
		name   string
		delays []time.Duration
	}{{"caller's packet sent → at the leg, p50 · p99, ms", h.in}, {"leg's message sent → at the caller, p50 · p99, ms", h.out}} {
		p99 := ms(quantile(way.delays, .99))
		fmt.Fprintf(b.out, "| %s%s | %.1f · %.1f | %s |\n", when, way.name, ms(quantile(way.delays, .5)), p99, under(p99, 40))
	}
	if h.missing > 0 {
		fmt.Fprintf(b.out, "| %smarkers that did not come within %s | %d | |\n", when, markerEvery*caller.FrameTime, h.missing)
	}
}

// busy says when the callers themselves were late.
func (b *bench) busy(h heardLoad) {
	if share := float64(h.sentLate) / float64(max(h.sent, 1)); share > 0.001 {
		fmt.Fprintf(b.out, "%.1f %% of the callers' packets were sent more than 10 ms late: this machine was too busy for these figures.\n\n", 100*share)
	}
}
