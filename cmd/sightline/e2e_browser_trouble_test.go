package main

import (
	"fmt"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
)

// localTrack is the camera's track as the page holds it: what happens to it here happens in real life by a switch or a cable.
const localTrack = `document.querySelector("[data-testid=local-video]").srcObject.getVideoTracks()[0]`

// TestE2EBrowserMutedAndUnplugged: a muted camera sends black pictures, and is said to; one that goes away ends its source in words.
func TestE2EBrowserMutedAndUnplugged(t *testing.T) {
	s := serve(t)
	p := chromium(t, fakeCamera(makeCamera(t)))
	p.open(s, "muted")
	agent := s.attach("muted", "watcher", 2)
	p.startCamera()
	agent.awaitImages(20*time.Second, "images before the mute", 2, nil)
	agent.awaitSource(5*time.Second, "the camera lives", "camera", "live")

	p.eval(localTrack + `.enabled = false`)
	agent.awaitSource(10*time.Second, "agents are told that the picture is black", "camera", "black")
	p.awaitText(10*time.Second, "the page says so in words", "notices", "camera is black")
	p.awaitText(10*time.Second, "the page says what it may be", "notices", "covered or muted?")
	p.awaitText(10*time.Second, "the page shows where", "camera-state", "black")
	p.picture("black")
	agent.forget()
	black := agent.awaitImages(10*time.Second, "black is still sent, it is what there is to see", 1, nil)[0]
	sum, most := 0, byte(0)
	rgb := decode(t, black)
	for _, v := range rgb {
		sum, most = sum+int(v), max(most, v)
	}
	// The first black picture after a bright one may keep a trace of it, as the encoder is in a hurry.
	if mean := float64(sum) / float64(len(rgb)); mean > 1 || most > 16 {
		t.Errorf("an image of a muted camera has a mean of %.2f and a most of %d, want about 0", mean, most)
	}

	p.eval(localTrack + `.enabled = true`)
	agent.awaitSource(10*time.Second, "the camera lives again", "camera", "live")
	p.await(10*time.Second, "the notice goes", `document.querySelector("[data-testid=notices]").innerText === ""`, pageState)

	// A device that is pulled out ends its track; stop() alone does not tell the page, as the page did it.
	p.eval(`(() => { const t = ` + localTrack + `; t.stop(); t.dispatchEvent(new Event("ended")); })()`)
	p.awaitText(5*time.Second, "the page says that the camera went away", "notices", "The camera went away")
	p.awaitText(5*time.Second, "the page says what to do", "notices", "Plug it in and press Start camera")
	agent.awaitSource(5*time.Second, "agents are told", "camera", "ended")
	p.picture("unplugged")
	p.awaitText(5*time.Second, "the way is shown broken", "camera-state", "not available")

	p.startCamera()
	agent.awaitSource(10*time.Second, "plugged in again, in the same session", "camera", "live")
	agent.forget()
	agent.awaitImages(10*time.Second, "images of the camera that came back", 1, nil)
}

// TestE2EBrowserWithoutCamera: a refused camera and a missing one are told apart, in words that say what to do; the rest of the page works.
func TestE2EBrowserWithoutCamera(t *testing.T) {
	for name, try := range map[string]struct {
		flags             map[string]any
		code, title, what string
	}{
		"denied": {map[string]any{"use-fake-device-for-media-stream": true, "deny-permission-prompts": true},
			"denied", "The browser may not use the camera.", "Allow the camera for this site"},
		"missing": {map[string]any{"use-fake-ui-for-media-stream": true, "use-fake-device-for-media-stream": "device-count=0"},
			"no-camera", "No camera was found.", "Plug one in, or press Share screen"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			p := chromium(t, try.flags)
			p.open(s, "no-camera")
			p.click("start-camera")
			p.awaitText(15*time.Second, "the page says what is wrong", "notices", try.title)
			p.awaitText(5*time.Second, "the page says what to do", "notices", try.what)
			p.await(5*time.Second, "the button offers another try", `document.querySelector("[data-testid=start-camera]").innerText === "Start camera again" && !document.querySelector("[data-testid=start-camera]").hidden`, pageState)
			if code := get[string](p, `sightline.state.trouble`); code != try.code {
				t.Errorf("the trouble is %q, want %q", code, try.code)
			}
			p.click("ask-image")
			p.awaitText(15*time.Second, "an image request without a source is answered in words", "image-said", "Start a camera or share a screen first.")
			p.typeInto("message", "still here")
			p.click("send")
			p.awaitText(10*time.Second, "the conversation works without a camera", "log", "still here")
		})
	}
}

// TestE2EBrowserResolutionChange: Chromium changes the picture's size in mid-stream, by its encoder and by its camera; images go on and
// show the right frames.
func TestE2EBrowserResolutionChange(t *testing.T) {
	clip := makeCameraClip(t, faceClip)
	s := serve(t)
	p := chromium(t, fakeCamera(clip.Y4M))
	p.open(s, "sizes")
	p.eval(`(() => { const Real = RTCPeerConnection; window.RTCPeerConnection = class extends Real { constructor(...a) { super(...a); window.pc = this; } }; })()`)
	agent := s.attach("sizes", "watcher", 5)
	p.startCamera()
	agent.awaitImages(20*time.Second, "images before a change", 2, nil)

	scale := func(by string) string {
		return `(async () => { const s = pc.getSenders().find((s) => s.track?.kind === "video"), p = s.getParameters(); p.encodings[0].scaleResolutionDownBy = ` + by + `; await s.setParameters(p); })()`
	}
	for _, change := range []struct {
		name, script, shown string
		width               int
	}{
		{"the encoder halves it", scale("2"), "320×240", 320},
		{"the encoder gives it back", scale("1"), "640×480", 640},
		{"the camera gives less", localTrack + `.applyConstraints({ width: { exact: 480 }, height: { exact: 360 } })`, "480×360", 480},
	} {
		p.eval(change.script)
		await(t, 15*time.Second, change.name+": agents are told", func() (bool, string) {
			_, _, sources := agent.seen()
			if len(sources) == 0 {
				return false, "no report"
			}
			last := sources[len(sources)-1]
			return last.Width == change.width && last.State == "live", fmt.Sprintf("the last report is %+v", last)
		})
		p.awaitText(10*time.Second, change.name+": the page shows it", "sources", change.shown)
		changed := time.Now().Add(time.Second) // the first pictures of a new size are coarse
		for _, i := range agent.awaitImages(15*time.Second, change.name+": images go on", 2, func(i agentclient.Image) bool { return i.CapturedAt.After(changed) }) {
			frame, psnr := clip.best(decode(t, i))
			t.Logf("%s: image %d, frame %d, %.1f dB", change.name, i.Seq, frame, psnr)
			if psnr < 30 {
				t.Errorf("%s: image %d is nearest to frame %d with %.1f dB, want at least 30", change.name, i.Seq, frame, psnr)
			}
		}
		agent.forget()
	}
}
