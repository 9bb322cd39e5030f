package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
)

// chainWitness judges images of a camera's face clip: each must be the very frame that was sent under its timestamp, as it looks
// when every frame before it was decoded.
type chainWitness struct {
	intact map[int][]byte // image of each frame over a network without loss, held against ffmpeg's decode
}

// newChainWitness sees nearly every frame once, over a call without loss.
func newChainWitness(t *testing.T, s *served, reel *footage) *chainWitness {
	t.Helper()
	w := &chainWitness{intact: map[int][]byte{}}
	c := s.publish("intact", reel, cameraOptions{})
	agent := s.attach("intact", "reference", 30)
	await(t, 30*time.Second, "an image of nearly every frame", func() (bool, string) {
		images, _, _ := agent.seen()
		for _, i := range images {
			f := c.mustKnow(t, i)
			if known := w.intact[f.index]; known != nil && !bytes.Equal(known, i.Data) {
				t.Fatalf("two images of frame %d differ though nothing was lost", f.index)
			}
			w.intact[f.index] = i.Data
		}
		return len(w.intact) >= len(reel.frames)*9/10, fmt.Sprintf("images of %d frames", len(w.intact))
	})
	agent.leave()
	c.leave()
	indices := slices.Sorted(maps.Keys(w.intact))
	data := make([][]byte, len(indices))
	for n, index := range indices {
		data[n] = w.intact[index]
	}
	psnr := ffmpegPSNR(t, reel.name, indices, data)
	t.Logf("%d frames over a network without loss: %.1f dB at least", len(psnr), slices.Min(psnr))
	if worst := slices.Min(psnr); worst < 30 {
		t.Errorf("frame %d has %.1f dB against ffmpeg's decode of that frame, want at least 30", indices[slices.Index(psnr, worst)], worst)
	}
	return w
}

// mustKnow is the frame that an image shows, by its timestamp.
func (c *camera) mustKnow(t *testing.T, i agentclient.Image) sentFrame {
	t.Helper()
	f, ok := c.frame(i.RTPTimestamp)
	if !ok {
		t.Fatalf("image %d has timestamp %d, under which nothing was sent", i.Seq, i.RTPTimestamp)
	}
	return f
}

// judge demands that each image is what the camera sent under its timestamp.
func (w *chainWitness) judge(t *testing.T, c *camera, images []agentclient.Image) {
	t.Helper()
	var others []int // frames that the intact call did not show
	var data [][]byte
	for n, i := range images {
		f := c.mustKnow(t, i)
		if n > 0 && i.RTPTimestamp == images[n-1].RTPTimestamp {
			t.Errorf("images %d and %d show the same picture, %v", images[n-1].Seq, i.Seq, f)
		} else if n > 0 && (i.Seq <= images[n-1].Seq || !i.CapturedAt.After(images[n-1].CapturedAt.Time)) {
			t.Errorf("image %d of %v comes after image %d of %v", i.Seq, i.CapturedAt, images[n-1].Seq, images[n-1].CapturedAt)
		}
		known := w.intact[f.index]
		switch {
		case known == nil && !slices.Contains(others, f.index):
			others, data = append(others, f.index), append(data, i.Data)
		case known != nil && !bytes.Equal(known, i.Data):
			t.Errorf("image %d, %v, is not what that frame looks like without loss: it comes from a broken chain", i.Seq, f)
		}
	}
	for n, index := range slices.Sorted(slices.Values(others)) {
		if psnr := ffmpegPSNR(t, faceClip, []int{index}, data[slices.Index(others, index):][:1])[0]; psnr < 30 {
			t.Errorf("an image of frame %d (%d of %d not seen before) has %.1f dB, want at least 30", index, n+1, len(others), psnr)
		}
	}
}

// ffmpegPSNR compares images with ffmpeg's decode of these frames of a clip (indices ascending), scaled to the images' size: dB
// over R, G and B. ffmpeg does it because Go would need a second per image under the race detector.
func ffmpegPSNR(t *testing.T, clip string, indices []int, images [][]byte) []float64 {
	t.Helper()
	folder := t.TempDir()
	stream, stats := filepath.Join(folder, "images.mjpeg"), filepath.Join(folder, "psnr.txt")
	if err := os.WriteFile(stream, bytes.Join(images, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	var chosen []string
	for _, i := range indices {
		chosen = append(chosen, fmt.Sprintf("eq(n,%d)", i))
	}
	ffmpeg(t, "-f", "image2pipe", "-c:v", "mjpeg", "-i", stream, "-i", clip, "-filter_complex",
		"[0:v]format=gbrp,settb=1/25,setpts=N[seen];[1:v]select='"+strings.Join(chosen, "+")+
			fmt.Sprintf("',scale=%d:%d:in_range=tv:in_color_matrix=bt601,format=gbrp,settb=1/25,setpts=N[truth];", side, side)+
			"[seen][truth]psnr=stats_file="+stats, "-f", "null", "-")
	text, err := os.ReadFile(stats)
	if err != nil {
		t.Fatal(err)
	}
	var psnr []float64
	for line := range strings.Lines(string(text)) {
		for field := range strings.FieldsSeq(line) {
			if value, ok := strings.CutPrefix(field, "psnr_avg:"); ok {
				db, err := strconv.ParseFloat(value, 64)
				if err != nil {
					t.Fatalf("ffmpeg's statistics: %v in %s", err, line)
				}
				psnr = append(psnr, db)
			}
		}
	}
	if len(psnr) != len(images) {
		t.Fatalf("ffmpeg compared %d pictures, want %d", len(psnr), len(images))
	}
	return psnr
}

// TestE2ELossNeverShowsABrokenChain: loss and reordering of 5 % with and without repairs, then no network at all for 2 s.
// Every image is the frame that was sent, byte for byte as without loss.
func TestE2ELossNeverShowsABrokenChain(t *testing.T) {
	s := serve(t)
	reel := readFootage(t, faceClip)
	w := newChainWitness(t, s, reel)

	t.Run("repaired", func(t *testing.T) {
		c := s.publish("repaired", reel, cameraOptions{seed: 5})
		c.network.impair(0.05, 0.05)
		agent := s.attach("repaired", "watcher", 10)
		images := lossyCall(t, agent, 70) // of 100 wanted ones
		w.judge(t, c, images)
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
		c := s.publish("unrepaired", reel, cameraOptions{seed: 7, noRepairs: true})
		c.network.impair(0.05, 0.05)
		agent := s.attach("unrepaired", "watcher", 30)
		images := lossyCall(t, agent, 15)
		w.judge(t, c, images)
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
	w.judge(t, c, images)
}
