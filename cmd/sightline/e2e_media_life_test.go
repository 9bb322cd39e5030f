package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
)

// TestE2EChangingPictures: other sizes in mid-stream, an odd one, black. Each image is a frame of what was shown then.
func TestE2EChangingPictures(t *testing.T) {
	s := serve(t)
	face := readFootage(t, faceClip)
	s.open("change")
	agent := s.attach("change", "watcher", 10)
	c := s.publish("change", face, cameraOptions{})
	for _, step := range []struct {
		reel          *footage
		state         string
		width, height int
	}{
		{face, "live", 640, 480},
		{readFootage(t, "../../scripts/bench.d/media/cam720.vp8.ivf"), "live", 1280, 720},
		{readFootage(t, "../../frames/testdata/odd641.vp8.ivf"), "live", 641, 481},
		{readFootage(t, "../../frames/testdata/black480.vp8.ivf"), "black", 640, 480},
		{face, "live", 640, 480},
	} {
		begun := time.Now()
		c.show(step.reel, nil)
		images := agent.awaitImages(20*time.Second, "images of "+step.reel.name, 4, func(i agentclient.Image) bool {
			f, ok := c.frame(i.RTPTimestamp)
			return ok && f.reel == step.reel && f.last.After(begun)
		})
		var report wire.Source
		await(t, 10*time.Second, "the source has the size of what is shown", func() (bool, string) {
			report = agent.awaitSource(5*time.Second, "the source is "+step.state, "camera", step.state)
			return report.Width == step.width && report.Height == step.height, fmt.Sprint(report)
		})
		worst := 100.0
		for _, i := range images {
			f := c.mustKnow(t, i)
			psnr := ffmpegPSNR(t, step.reel.name, []int{f.index}, [][]byte{i.Data})[0]
			if worst = min(worst, psnr); psnr < 30 || i.Width != side || i.Height != side {
				t.Errorf("image %d, %v, is %d×%d and has %.1f dB against ffmpeg's decode, want %d×%d and at least 30", i.Seq, f, i.Width, i.Height, psnr, side, side)
			}
		}
		t.Logf("%s: %s %d×%d, first image after %v, %.1f dB at least", filepath.Base(step.reel.name), report.State, report.Width, report.Height,
			images[0].ReceivedAt.Sub(begun).Round(time.Millisecond), worst)
		if took := images[0].ReceivedAt.Sub(begun); took > 3*time.Second {
			t.Errorf("the first image of %s came after %v", step.reel.name, took)
		}
		agent.forget()
	}
}

// TestE2EPublisherFallsSilentVanishesAndReturns: no packets is stalled and then live again; a publisher that is gone without a
// word is noticed; one that comes back goes on in the same session; and without anybody the session ends after its grace.
func TestE2EPublisherFallsSilentVanishesAndReturns(t *testing.T) {
	s := serve(t, "--session-grace", "2s")
	face := readFootage(t, faceClip)
	c := s.publish("life", face, cameraOptions{})
	agent := s.attach("life", "watcher", 10)
	agent.awaitImages(20*time.Second, "images", 3, nil)

	c.hush(true)
	agent.awaitSource(5*time.Second, "silence is told", "camera", "stalled")
	s.awaitSession(5*time.Second, "life", "stalled")
	c.hush(false)
	again := time.Now()
	agent.awaitSource(5*time.Second, "the end of the silence is told", "camera", "live")
	agent.awaitImages(5*time.Second, "images go on", 3, func(i agentclient.Image) bool { return i.CapturedAt.After(again) })
	s.awaitSession(5*time.Second, "life", "live")

	c.vanish()
	agent.awaitSource(10*time.Second, "a vanished publisher is told", "camera", "stalled")
	s.awaitSession(5*time.Second, "life", "stalled")
	images, _, _ := agent.seen()
	last := images[len(images)-1].Seq
	logID := s.logID("life")

	returned := time.Now()
	second := s.publish("life", face, cameraOptions{patience: 15 * time.Second})
	t.Logf("the place of the vanished publisher was free after %v", time.Since(returned).Round(time.Millisecond))
	agent.awaitSource(10*time.Second, "the publisher is back", "camera", "live")
	back := agent.awaitImages(10*time.Second, "images of the publisher that came back", 3, func(i agentclient.Image) bool { return i.CapturedAt.After(returned) })
	if back[0].Seq <= last {
		t.Errorf("the first image after the return has seq %d, the last one before had %d", back[0].Seq, last)
	}
	if id := s.logID("life"); id != logID {
		t.Errorf("the publisher came back into another conversation: %s, was %s", id, logID)
	}
	if agent.Stats().Attached != 1 {
		t.Errorf("the agent attached %d times, want once", agent.Stats().Attached)
	}

	agent.leave()
	second.vanish()
	gone := time.Now()
	s.awaitSession(5*time.Second, "life", "stalled")
	s.awaitSession(30*time.Second, "life", "ended")
	t.Logf("the session ended %v after its publisher had vanished", time.Since(gone).Round(time.Millisecond))
	if took := time.Since(gone); took < 2*time.Second {
		t.Errorf("the session ended %v after its publisher had vanished, before the grace of 2 s", took)
	}
}

// awaitSession waits until the session is in that state.
func (s *served) awaitSession(within time.Duration, id, state string) {
	s.t.Helper()
	await(s.t, within, "session "+id+" is "+state, func() (bool, string) {
		got := s.session(id).State
		return got == state, got
	})
}

// logID is the identity of the session's conversation.
func (s *served) logID(id string) string {
	s.t.Helper()
	_, _, body := s.call("GET", "/v1/sessions/"+id, "", "")
	var detail struct {
		LogID string `json:"log_id"`
	}
	if err := json.Unmarshal(body, &detail); err != nil || detail.LogID == "" {
		s.t.Fatalf("session %s: %v in %s", id, err, body)
	}
	return detail.LogID
}
