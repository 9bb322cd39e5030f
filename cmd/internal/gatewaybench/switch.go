package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/gatewaybench/caller"
	chatctx "sightline/context"
	"sightline/switcher"
)

// preparing is how long a leg of the part switch takes to be ready: the entry that the switch has begun is durable by then.
const preparing = 30 * time.Millisecond

// around: sound is looked at from the request to so long after the end of a switch.
const around = 300 * time.Millisecond

// floorTaken is when a leg was ready, and when it was told that it has the floor.
type floorTaken struct{ ready, floor time.Time }

// changes is what many switches and aborts took. All are sorted at the end.
type changes struct {
	gaps       []time.Duration // longest pause between two packets around a switch, beyond the 20 ms of a packet
	commits    []time.Duration // from ready to the floor
	appends    []time.Duration // a durable append by the same socket
	told       []time.Duration // from a leg's failure to the answer that the switch is off
	abortGaps  []time.Duration // as gaps, around an abort
	lost       int             // packets
	overlapped int             // packets whose timestamps go back
}

// switches: two legs that talk without an end, in turn; and one that is broken.
func (b *bench) switches(ctx context.Context) error {
	silence, err := caller.Code(ctx, legRate, make([]int16, legRate/5))
	if err != nil {
		return err
	}
	t, ctx := b.newTalks(ctx)
	c, err := b.changeOften(ctx, t, silence)
	if err = errors.Join(err, t.end()); err != nil {
		return err
	}
	for _, d := range [][]time.Duration{c.gaps, c.commits, c.appends, c.told, c.abortGaps} {
		slices.Sort(d)
	}
	p := func(d []time.Duration, q float64) float64 { return ms(quantile(d, q)) }
	fmt.Fprintf(b.out, "%d switches `at: now` in one call, between two remote legs that talk without a pause, %.0f ms ahead of what is heard and ready %.0f ms after they are started; %d that fail:\n\n",
		len(c.gaps), ms(toneLead), ms(preparing), len(c.told))
	fmt.Fprint(b.out, "| | p50 | p99 | longest | wanted |\n|---|---|---|---|---|\n")
	row := func(name string, d []time.Duration, wanted string) {
		fmt.Fprintf(b.out, "| %s | %.1f | %.1f | %.1f | %s |\n", name, p(d, .5), p(d, .99), ms(d[len(d)-1]), wanted)
	}
	row("pause in the sound at the caller beyond the 20 ms between packets, ms", c.gaps, under(p(c.gaps, .99), 20)+" (p99)")
	row("leg says ready → leg has the floor, over loopback, ms", c.commits, "")
	row("a durable append over the same socket, ms", c.appends, "")
	beyond := p(c.commits, .99) - p(c.appends, .5)
	fmt.Fprintf(b.out, "| commit beyond one durable append (p50 of it), ms | %.1f | %.1f | | %s (p99) |\n", p(c.commits, .5)-p(c.appends, .5), beyond, under(beyond, 5))
	row("leg fails → the switch is told to be off, the old leg never having stopped, ms", c.told, under(p(c.told, .99), 5)+" (p99)")
	row("pause in the sound around it, ms", c.abortGaps, "")
	fmt.Fprintf(b.out, "\nOver all of it %d packets were lost and %d overlapped.\n\n", c.lost, c.overlapped)
	return nil
}

func (b *bench) changeOften(ctx context.Context, t *talks, silence caller.Speech) (c changes, err error) {
	floors, failures := make(chan floorTaken, 16), make(chan time.Time, 16)
	told := func(ready, floor time.Time) { keep(floors, floorTaken{ready, floor}) }
	tone := func(name string, hz float64) agentclient.Leg {
		return leg(name, switcher.Realtime, -1, func() switcher.Leg { return &toneLeg{hz: hz, told: told, ready: preparing} })
	}
	broken := leg("broken", switcher.Cascade, -1, func() switcher.Leg { return &brokenLeg{func(at time.Time) { keep(failures, at) }} })
	k, err := t.call(ctx, "bench-switch", caller.Config{Silence: silence}, tone("left", 440), tone("right", 880), broken)
	if err != nil {
		return c, err
	}
	begun := time.Now()
	for i := 0; err == nil && i <= b.switchCount; i++ {
		err = c.change(ctx, t, k, i, floors)
		if i == 0 { // nobody spoke before
			c = changes{}
		}
		if err == nil && i%4 == 3 {
			err = c.abort(ctx, t, k, i, failures)
		}
	}
	packets := k.caller.Packets(begun)
	for i := 1; i < len(packets); i++ {
		if missing := int16(packets[i].Seq-packets[i-1].Seq) - 1; missing > 0 {
			c.lost += int(missing)
		} else if int32(packets[i].Timestamp-packets[i-1].Timestamp) < 960 {
			c.overlapped++
		}
	}
	return c, err
}

// change switches to the other leg, once.
func (c *changes) change(ctx context.Context, t *talks, k *talk, i int, floors <-chan floorTaken) error {
	asked := time.Now()
	if err := k.ask(ctx, fmt.Sprint("switch-", i), []string{"left", "right"}[i%2]); err != nil {
		return err
	}
	taken, err := next(ctx, t, floors, "the floor")
	if err != nil {
		return err
	}
	if _, err := next(ctx, t, k.switched, "the word of a switch"); err != nil {
		return err
	}
	c.commits = append(c.commits, taken.floor.Sub(taken.ready))
	if err := t.pass(ctx, around); err != nil {
		return err
	}
	c.gaps = append(c.gaps, longestPause(k.caller.Packets(asked)))
	begun := time.Now()
	_, err = k.agent.Append(ctx, "", &chatctx.Message{Role: chatctx.RoleSystem, Content: chatctx.TextContent("a note")})
	c.appends = append(c.appends, time.Since(begun))
	return err
}

// abort asks for the leg that is broken.
func (c *changes) abort(ctx context.Context, t *talks, k *talk, i int, failures <-chan time.Time) error {
	asked := time.Now()
	if err := k.ask(ctx, fmt.Sprint("abort-", i), "broken"); err != nil {
		return err
	}
	failed, err := next(ctx, t, failures, "the broken leg")
	if err != nil {
		return err
	}
	if _, err := next(ctx, t, k.aborted, "the word of an abort"); err != nil {
		return err
	}
	c.told = append(c.told, time.Since(failed))
	if err := t.pass(ctx, around); err != nil {
		return err
	}
	c.abortGaps = append(c.abortGaps, longestPause(k.caller.Packets(asked)))
	return nil
}

func next[T any](ctx context.Context, t *talks, from <-chan T, what string) (v T, err error) {
	select {
	case v = <-from:
	case err = <-t.failed:
	case <-time.After(patience):
		err = fmt.Errorf("waited %s for %s", patience, what)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return v, err
}

// longestPause is the longest time between two neighbours, beyond that of a packet.
func longestPause(packets []caller.Packet) (longest time.Duration) {
	for i := 1; i < len(packets); i++ {
		longest = max(longest, packets[i].At.Sub(packets[i-1].At)-caller.FrameTime)
	}
	return longest
}
