package main

import (
	"encoding/base64"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
)

// TestE2EBrowserCameraToAgent is the main job: a person's camera in the real page, 1024×1024 JPEGs at an agent, the very pictures of
// the camera; and the page shows what the agents get.
func TestE2EBrowserCameraToAgent(t *testing.T) {
	clip := makeCameraClip(t, faceClip)
	s := serve(t)
	p := chromium(t, fakeCamera(clip.Y4M))
	p.open(s, "main-job")
	agent := s.attach("main-job", "watcher", 5)
	p.startCamera()

	// The first images may be of a bitrate that is still climbing; what a call looks like is what comes after two seconds.
	first := agent.awaitImages(20*time.Second, "images reach the agent", 1, nil)[0]
	settled := first.CapturedAt.Add(2 * time.Second)
	images := agent.awaitImages(20*time.Second, "images of a settled call", 6, func(i agentclient.Image) bool { return i.CapturedAt.After(settled) })
	frames := map[int]bool{}
	for _, i := range images {
		frame, psnr := clip.best(decode(t, i))
		frames[frame] = true
		t.Logf("image %d: %d bytes, frame %d, %.1f dB, %d ms old when sent", i.Seq, len(i.Data), frame, psnr, i.AgeMS)
		if psnr < 30 {
			t.Errorf("image %d is nearest to frame %d with %.1f dB, want at least 30", i.Seq, frame, psnr)
		}
		if latency := i.ReceivedAt.Sub(i.CapturedAt.Time); latency > time.Second || latency < 0 || i.AgeMS < 0 || i.AgeMS > 1000 {
			t.Errorf("image %d came %v after its capture, said to be %d ms old: want below 1 s", i.Seq, latency, i.AgeMS)
		}
	}
	if len(frames) < 5 {
		t.Errorf("%d images show only %d frames of the clip: the picture stands still", len(images), len(frames))
	}
	pageShowsTheCall(t, p, s, clip)
}

func pageShowsTheCall(t *testing.T, p *page, s *served, clip *cameraClip) {
	t.Helper()
	p.await(10*time.Second, "the page has its own images", `sightline.lastImage && sightline.imagesReceived >= 3`, `sightline.lastImage`)
	last := get[struct {
		Source        string
		Width, Height int
		LatencyMS     float64
		JPEG          string // base64
		Canvas        []int
	}](p, `(async () => {
		const blob = sightline.lastImageBlob, canvas = document.querySelector("#agent-image");
		const bytes = new Uint8Array(await blob.arrayBuffer());
		return { ...sightline.lastImage, jpeg: btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")), canvas: [canvas.width, canvas.height] };
	})()`)
	data, err := base64.StdEncoding.DecodeString(last.JPEG)
	if err != nil {
		t.Fatal(err)
	}
	if frame, psnr := clip.best(decodeJPEG(t, data)); psnr < 30 {
		t.Errorf("the page's image is nearest to frame %d with %.1f dB, want at least 30", frame, psnr)
	}
	if last.Source != "camera" || last.Width != side || last.Height != side || last.LatencyMS < 0 || last.LatencyMS > 1000 {
		t.Errorf("the page's image is %s %d×%d after %v ms, want camera %d×%d in at most 1000 ms", last.Source, last.Width, last.Height, last.LatencyMS, side, side)
	}
	// The canvas holds that image or a later one: not an empty square.
	shown := get[[]byte](p, `(() => {
		const c = document.querySelector("#agent-image"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let s = ""; for (let i = 0; i < d.length; i += 4) s += String.fromCharCode(d[i], d[i + 1], d[i + 2]);
		return btoa(s);
	})()`)
	if frame, psnr := clip.best(shown); psnr < 30 {
		t.Errorf("what the page shows is nearest to frame %d with %.1f dB, want at least 30", frame, psnr)
	}
	p.awaitText(5*time.Second, "the size of what the agent sees", "fig-size", "1024×1024")
	p.awaitText(5*time.Second, "codec, size and bitrate of the link", "path", "VP8 · 640×480 · ")
	p.awaitText(5*time.Second, "bitrate of the link", "path", "bit/s")
	p.awaitText(5*time.Second, "loss of the link", "path", " · loss ")
	p.awaitText(5*time.Second, "the source at the gateway", "sources", "640×480")
	p.awaitText(5*time.Second, "the decode policy", "path", "decodes every frame")
	p.await(10*time.Second, "images per second", `Math.abs(Number(document.querySelector("[data-testid=fig-rate]").innerText) - 1) <= 0.2`, `document.querySelector("[data-testid=fig-rate]").innerText`)
	p.awaitText(5*time.Second, "the attached agent", "agents", "watcher")
	if text := p.text("notices"); text != "" {
		t.Errorf("a call without trouble shows a notice: %s", text)
	}
}
