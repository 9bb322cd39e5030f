package main

import (
	"bytes"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
)

// chainWitness judges images of a camera's face clip: each must be the very frame that was sent under its timestamp, as it looks
// when every frame before it was decoded.
type chainWitness struct {
	t      *testing.T
	clip   *cameraClip
	intact map[int][]byte // image of each frame over a network without loss
	judged map[string]float64
}

// newChainWitness sees every frame once over a call without loss.
func newChainWitness(t *testing.T, s *served, reel *footage) *chainWitness {
	t.Helper()
	w := &chainWitness{t: t, clip: makeCameraClip(t, faceClip), intact: map[int][]byte{}, judged: map[string]float64{}}
	c := s.publish("intact", reel, cameraOptions{})
	agent := s.attach("intact", "reference", 30)
	await(t, 30*time.Second, "an image of nearly every frame", func() (bool, string) {
		images, _, _ := agent.seen()
		for _, i := range images {
			f, ok := c.frame(i.RTPTimestamp)
			if !ok {
				t.Fatalf("image %d has timestamp %d, under which nothing was sent", i.Seq, i.RTPTimestamp)
			}
			if known := w.intact[f.index]; known != nil && !bytes.Equal(known, i.Data) {
				t.Fatalf("two images of frame %d differ though nothing was lost", f.index)
			}
			w.intact[f.index] = i.Data
		}
		agent.forget()
		return len(w.intact) >= len(reel.frames)*9/10, c.String()
	})
	agent.leave()
	c.leave()
	for index, data := range w.intact {
		w.psnr(index, data)
	}
	return w
}

// psnr compares an image with ffmpeg's decode of that frame, once for the same bytes.
func (w *chainWitness) psnr(index int, data []byte) {
	w.t.Helper()
	if _, done := w.judged[string(data)]; done {
		return
	}
	psnr := psnrOf(w.clip.frame(index), decodeJPEG(w.t, data))
	w.judged[string(data)] = psnr
	if psnr < 30 {
		w.t.Errorf("an image of frame %d has %.1f dB against ffmpeg's decode of that frame, want at least 30", index, psnr)
	}
}

// judge demands that each image is what the camera sent under its timestamp.
func (w *chainWitness) judge(c *camera, images []agentclient.Image) {
	w.t.Helper()
	same := 0
	for n, i := range images {
		f, ok := c.frame(i.RTPTimestamp)
		if !ok {
			w.t.Fatalf("image %d has timestamp %d, under which nothing was sent", i.Seq, i.RTPTimestamp)
		}
		if n > 0 && (i.Seq <= images[n-1].Seq || !i.CapturedAt.After(images[n-1].CapturedAt.Time)) {
			w.t.Errorf("image %d of %v comes after image %d of %v", i.Seq, i.CapturedAt, images[n-1].Seq, images[n-1].CapturedAt)
		}
		if known := w.intact[f.index]; known != nil {
			if same++; !bytes.Equal(known, i.Data) {
				w.t.Errorf("image %d, %v, is not what that frame looks like without loss: it comes from a broken chain", i.Seq, f)
			}
		}
		w.psnr(f.index, i.Data)
	}
	if same < len(images)*8/10 {
		w.t.Errorf("only %d of %d images could be compared byte by byte", same, len(images))
	}
}

func (c *camera) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return "camera has sent " + sentFrame{reel: c.reel, index: c.next}.String()
}

// TestE2ELossNeverShowsABrokenChain: loss and reordering of 5 % with and without repairs, then no network at all for 2 s.
// Every image is the frame that was sent, byte for byte as without loss.
func TestE2ELossNeverShowsABrokenChain(t *testing.T) {
	s := serve(t)
	reel := readFootage(t, faceClip)
	w := newChainWitness(t, s, reel)

	t.Run("repaired", func(t *testing.T) {
		w.t = t
		c := s.publish("repaired", reel, cameraOptions{seed: 5})
		c.network.impair(0.05, 0.05)
		agent := s.attach("repaired", "watcher", 10)
		images := lossyCall(t, agent, 70) // of 100 wanted ones
		w.judge(c, images)
		state := s.session("repaired").Sources[0]
		lost, swapped := c.network.counts()
		t.Logf("%d images in %v; the network lost %d packets and reordered %d; the gateway misses %d packets for good, dropped %d frames, asked for %d key frames",
			len(images), span(images), lost, swapped, state.Lost, state.Dropped, c.keyFramesAskedFor())
		if lost < 20 || swapped < 20 {
			t.Errorf("the network lost %d packets and reordered %d: too few to prove anything", lost, swapped)
		}
		outage(t, w, c, agent)
	})
	t.Run("not repaired", func(t *testing.T) {
		w.t = t
		c := s.publish("unrepaired", reel, cameraOptions{seed: 7, noRepairs: true})
		c.network.impair(0.05, 0.05)
		agent := s.attach("unrepaired", "watcher", 30)
		images := lossyCall(t, agent, 15)
		w.judge(c, images)
		state := s.session("unrepaired").Sources[0]
		lost, _ := c.network.counts()
		t.Logf("%d images in %v; the network lost %d packets; the gateway misses %d packets for good, dropped %d frames, asked for %d key frames",
			len(images), span(images), lost, state.Lost, state.Dropped, c.keyFramesAskedFor())
		if state.Lost < 20 || state.Dropped < 20 || c.keyFramesAskedFor() < 3 {
			t.Errorf("%d lost packets, %d dropped frames, %d key frames asked for: the chain was hardly ever broken", state.Lost, state.Dropped, c.keyFramesAskedFor())
		}
	})
}

// lossyCall gives the images of at least ten seconds.
func lossyCall(t *testing.T, agent *witness, least int) []agentclient.Image {
	t.Helper()
	var images []agentclient.Image
	await(t, 40*time.Second, "images over ten seconds", func() (bool, string) {
		images, _, _ = agent.seen()
		return span(images) >= 10*time.Second, span(images).String()
	})
	if len(images) < least {
		t.Errorf("%d images in %v, want at least %d", len(images), span(images), least)
	}
	return images
}

func span(images []agentclient.Image) time.Duration {
	if len(images) == 0 {
		return 0
	}
	return images[len(images)-1].CapturedAt.Sub(images[0].CapturedAt.Time)
}

// outage takes the network away for 2 s; images must go on within 1.5 s of its return, and be right.
func outage(t *testing.T, w *chainWitness, c *camera, agent *witness) {
	t.Helper()
	c.network.impair(0, 0)
	c.network.cut(true)
	<-time.After(2 * time.Second) // the outage itself
	c.network.cut(false)
	back := time.Now()
	agent.forget()
	images := agent.awaitImages(10*time.Second, "images go on after an outage", 5, func(i agentclient.Image) bool { return i.CapturedAt.After(back) })
	if took := images[0].ReceivedAt.Sub(back); took > 1500*time.Millisecond {
		t.Errorf("the first image came %v after the network was back, want at most 1.5 s", took)
	} else {
		t.Logf("the first image came %v after the network was back", took)
	}
	w.judge(c, images)
}
