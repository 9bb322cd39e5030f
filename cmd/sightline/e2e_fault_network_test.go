package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	chatctx "sightline/context"

	"sightline/cmd/internal/agentclient"
	"sightline/internal/faultnet"
)

// faultyCall is a call over a network of its own.
type faultyCall struct {
	relay  *faultnet.Relay
	camera *camera
	agent  *witness
}

// TestE2EFaultNetworks: eight calls at once over as many bad networks, beside one over a good one. Every image of each is the frame
// that was sent, byte for byte as without the faults; each call comes back to itself when its network does; and the good call
// misses no packet and no entry, and its images go on.
func TestE2EFaultNetworks(t *testing.T) {
	s := serve(t)
	reel := readFootage(t, faceClip)
	good := newNeighbour(t, s, reel)
	faults := map[string]faultnet.Faults{
		"loss":        {LossUp: 0.20, LossDown: 0.05},
		"far":         {Delay: 200 * time.Millisecond},
		"reordered":   {Jitter: 60 * time.Millisecond, Duplicate: 0.05},
		"narrow":      {Rate: 500_000},
		"down":        {Down: true},
		"one-way":     {LossDown: 1},
		"deaf":        {LossUp: 0.05, LossDown: 0.05},
		"new-address": {},
	}
	calls := map[string]*faultyCall{}
	for name := range faults {
		relay := newRelay(t)
		o := cameraOptions{fps: 15, relay: relay, ignorePLI: name == "deaf", noRepairs: name == "deaf"}
		if name == "narrow" {
			o.fps = 30 // about 800 kbit/s, whatever gets through: hardly a whole frame, until the network is back
		}
		calls[name] = &faultyCall{relay: relay, camera: s.publish(name, reel, o)}
		calls[name].agent = s.attach(name, "watcher", 5)
	}
	for _, c := range calls {
		c.agent.awaitImages(30*time.Second, "images before the fault", 2, nil)
	}
	begun := time.Now()
	for name, f := range faults {
		must(t, calls[name].relay.Set(f))
	}
	must(t, calls["new-address"].relay.Rebind())
	<-time.After(8 * time.Second) // the outage itself
	s.awaitSession(10*time.Second, "down", "stalled")
	must(t, calls["down"].relay.Set(faultnet.Faults{})) // the others may take their time: after 15 s without a packet this call would be over
	after := map[string]int{"loss": 10, "far": 15, "reordered": 15, "one-way": 20, "deaf": 1, "new-address": 10}
	for name, least := range after { // of about forty that were wanted
		calls[name].agent.awaitImages(30*time.Second, "images during the fault of "+name, least, func(i agentclient.Image) bool { return i.ReceivedAt.After(begun) })
	}
	up := time.Now()
	for _, c := range calls {
		must(t, c.relay.Set(faultnet.Faults{}))
	}
	for name, c := range calls {
		images := c.agent.awaitImages(30*time.Second, "images when the network of "+name+" is back", 5, func(i agentclient.Image) bool { return i.CapturedAt.After(up.Add(time.Second)) })
		sent, got := c.relay.Stats()
		t.Logf("%s: image %d %v after the network was back; relay %+v up, %+v down", name, images[0].Seq, images[0].ReceivedAt.Sub(up).Round(time.Millisecond), sent, got)
	}
	s.awaitSession(10*time.Second, "down", "live")
	reference := good.unharmed(t)
	for name, c := range calls {
		images, _, _ := c.agent.seen()
		reference.judge(t, c.camera, images)
		if c.agent.Stats().Attached != 1 {
			t.Errorf("%s: the agent attached %d times", name, c.agent.Stats().Attached)
		}
	}
	for name, happened := range map[string]func(up, down faultnet.Counts) bool{
		"loss":      func(up, _ faultnet.Counts) bool { return up.Lost > 50 },
		"reordered": func(up, _ faultnet.Counts) bool { return up.Duplicated > 10 },
		"narrow":    func(up, _ faultnet.Counts) bool { return up.OverRate > 0 },
		"down":      func(up, _ faultnet.Counts) bool { return up.Lost > 100 },
		"one-way":   func(up, down faultnet.Counts) bool { return up.Lost == 0 && down.Lost > 10 },
	} {
		if up, down := calls[name].relay.Stats(); !happened(up, down) {
			t.Errorf("%s: %+v up, %+v down: the fault did not happen", name, up, down)
		}
	}
}

// newRelay is a network without faults, for now; it ends with the test.
func newRelay(t *testing.T) *faultnet.Relay {
	t.Helper()
	relay, err := faultnet.New(faultnet.Config{Seed: 7})
	must(t, err)
	must(t, relay.Open())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	return relay
}

// neighbour is a call that nothing is wrong with, beside others: an agent sees nearly every frame, another writes.
type neighbour struct {
	s      *served
	camera *camera
	agent  *witness
	writer *witness
	stop   chan struct{}
	writes sync.WaitGroup
	acked  int
}

func newNeighbour(t *testing.T, s *served, reel *footage) *neighbour {
	t.Helper()
	n := &neighbour{s: s, camera: s.publish("good", reel, cameraOptions{}), agent: s.attach("good", "watcher", 30), writer: s.attach("good", "writer", 0), stop: make(chan struct{})}
	n.agent.awaitImages(20*time.Second, "images of the good call", 1, nil)
	n.writes.Go(func() {
		for {
			select {
			case <-n.stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			text := fmt.Sprint("entry ", n.acked)
			if _, err := n.writer.Append(t.Context(), fmt.Sprint("op-", n.acked), &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}); err != nil {
				t.Errorf("the good call's writer: %v", err)
				return
			}
			n.acked++
		}
	})
	t.Cleanup(func() { n.end(); n.writes.Wait() })
	return n
}

func (n *neighbour) end() {
	select {
	case <-n.stop:
	default:
		close(n.stop)
	}
}

// unharmed demands that nothing is missing of the good call, and gives what each frame looks like when nothing is lost.
func (n *neighbour) unharmed(t *testing.T) *chainWitness {
	t.Helper()
	n.agent.awaitImages(20*time.Second, "the good call's images go on", 3, func(i agentclient.Image) bool { return time.Since(i.CapturedAt.Time) < 2*time.Second })
	n.end()
	n.writes.Wait()
	await(t, 20*time.Second, "the good call's agent has every entry", func() (bool, string) {
		_, entries, _ := n.agent.seen()
		return len(entries) >= n.acked, fmt.Sprintf("%d of %d", len(entries), n.acked)
	})
	images, entries, _ := n.agent.seen()
	for i, e := range entries {
		message, ok := e.Item.(*chatctx.Message)
		if e.Seq != uint64(i+1) || !ok || message.Content.Text() != fmt.Sprint("entry ", i) {
			t.Fatalf("entry %d of the good call is seq %d, %v", i+1, e.Seq, e.Item)
		}
	}
	state := n.s.session("good")
	if src := state.Sources[0]; state.Seq != uint64(n.acked) || src.Lost != 0 || n.agent.Stats().Attached != 1 {
		t.Errorf("the good call: %d entries acknowledged, head %d, %d packets lost, attached %d times", n.acked, state.Seq, src.Lost, n.agent.Stats().Attached)
	}
	gap := time.Duration(0)
	for i := 1; i < len(images); i++ {
		gap = max(gap, images[i].ReceivedAt.Sub(images[i-1].ReceivedAt))
	}
	if gap > 2*time.Second {
		t.Errorf("the good call had no image for %v", gap)
	}
	w := &chainWitness{intact: map[int][]byte{}}
	for _, i := range images {
		w.intact[n.camera.mustKnow(t, i).index] = i.Data
	}
	t.Logf("the good call: %d images of %d frames, longest gap %v, %d entries", len(images), len(w.intact), gap.Round(time.Millisecond), n.acked)
	return w
}
