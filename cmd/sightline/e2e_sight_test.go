package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/whipclient"
	"sightline/gateway/wire"
)

// publishing runs a synthetic browser until stop or the test's end.
func publishing(t *testing.T, cfg whipclient.Config) (p *whipclient.Publisher, stop func()) {
	t.Helper()
	p, err := whipclient.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("publisher of %q: %v", cfg.Source, err)
		}
	}
	t.Cleanup(stop)
	await(t, 20*time.Second, "a publisher is connected", func() (bool, string) { return p.Stats().State == "connected", p.Stats().State })
	return p, stop
}

// refused is the status with which an offer is refused.
func refused(t *testing.T, cfg whipclient.Config) int {
	t.Helper()
	p, err := whipclient.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var answer *whipclient.HTTPError
	if err := p.Run(ctx); !errors.As(err, &answer) {
		t.Fatalf("publishing %q ended with %v", cfg.Source, err)
	}
	return answer.Status
}

// sourceFigures is what a session tells of a source, as far as this file looks.
type sourceFigures struct {
	Name           string
	Unchanged      int
	Screen, Frozen bool
	CaptureClock   string `json:"capture_clock"`
	CaptureErrorMS *int   `json:"capture_error_ms"`
}

func (s *served) figures(session, source string) sourceFigures {
	s.t.Helper()
	var all struct{ Sources []sourceFigures }
	if _, _, body := s.call("GET", "/v1/sessions/"+session, "", ""); json.Unmarshal(body, &all) != nil {
		s.t.Fatalf("session %s: %s", session, body)
	}
	for _, f := range all.Sources {
		if f.Name == source {
			return f
		}
	}
	return sourceFigures{}
}

// TestE2ESightFollowsTheCall: a caller whose camera is looked at more often while he speaks; beside him another program that shares a screen,
// of which an agent wants to see changes only; and capture times that are known by sender reports.
func TestE2ESightFollowsTheCall(t *testing.T) {
	const face, sound = "../../frames/testdata/face480_90.vp8.ivf", "../internal/load/speech.opus"
	s := serve(t)
	video, err := os.ReadFile(face)
	must(t, err)
	clip, err := whipclient.ReadIVF("face", bytes.NewReader(video))
	must(t, err)
	still, err := whipclient.NewClip("still", 30, readFootage(t, face).frames[:1])
	must(t, err)
	ogg, err := os.ReadFile(sound)
	must(t, err)
	spoken, err := whipclient.ReadOggOpus("speech", bytes.NewReader(ogg))
	must(t, err)
	silence := make(whipclient.Sound, 100) // 2 s
	for i := range silence {
		silence[i] = []byte{0xf8, 0xff, 0xfe}
	}
	talk := append(append(append(whipclient.Sound{}, silence...), spoken[:min(len(spoken), 125)]...), append(silence, silence...)...)

	s.open("demo")
	eye := s.attachWanting("demo", "eye", wire.Want{Images: []wire.WantImage{
		{Source: "camera", FPS: 0.25, SpeakingFPS: 8, Encode: wire.Encode{Width: 64, Height: 48}},
		{Source: "screen", FPS: 8, OnChange: true},
	}})
	caller, _ := publishing(t, whipclient.Config{URL: s.URL, Session: "demo", Clip: clip, Sound: talk})
	side := whipclient.Config{URL: s.URL, Session: "demo", Source: "screen", Clip: still}
	_, leave := publishing(t, side)

	if got := eye.awaitSource(20*time.Second, "the shared screen", "screen", "live"); !got.Screen || got.Frozen {
		t.Errorf("the screen is told as %+v", got)
	}
	for name, want := range map[string]int{"screen": 409, "camera": 409, "": 409, "a b": 400} {
		if got := refused(t, whipclient.Config{URL: s.URL, Session: "demo", Source: name, Clip: still}); got != want {
			t.Errorf("publishing %q beside them is answered %d, want %d", name, got, want)
		}
	}
	screen := eye.awaitImages(20*time.Second, "the screen", 1, func(i agentclient.Image) bool { return i.Source == "screen" })
	if i := screen[0]; i.Width != 640 || i.Height != 480 { // contain in 1920×1920, not enlarged
		t.Errorf("an image of the screen is %d×%d", i.Width, i.Height)
	}

	follows(t, eye)
	camera := eye.awaitImages(20*time.Second, "capture times by reports", 1, func(i agentclient.Image) bool {
		return i.Source == "camera" && i.CaptureClock == "report" && i.CaptureErrorMS != nil
	})
	i := camera[len(camera)-1]
	first, last, ok := caller.SentAt(i.RTPTimestamp)
	bound := time.Duration(*i.CaptureErrorMS)*time.Millisecond + 250*time.Millisecond // what a loaded machine does to the sender's own clock
	if !ok || i.CapturedAt.Before(first.Add(-bound)) || i.CapturedAt.After(last.Add(bound)) {
		t.Errorf("captured at %v ± %d ms, sent from %v to %v", i.CapturedAt.UTC(), *i.CaptureErrorMS, first.UTC(), last.UTC())
	}

	if all, _, _ := eye.seen(); countOf(all, "screen") != 1 {
		t.Errorf("%d images of a screen on which nothing happens", countOf(all, "screen"))
	}
	if f := s.figures("demo", "screen"); f.Unchanged < 5 || !f.Screen {
		t.Errorf("%+v", f)
	}
	leave()
	eye.awaitSource(20*time.Second, "the screen has gone", "screen", "ended")
	if got := s.session("demo").State; got != "live" {
		t.Errorf("the session is %s", got)
	}
}

func countOf(all []agentclient.Image, source string) (n int) {
	for _, i := range all {
		if i.Source == source {
			n++
		}
	}
	return n
}

// follows waits until images of the camera were rare, then many, then rare again.
func follows(t *testing.T, eye *witness) {
	t.Helper()
	await(t, 40*time.Second, "few images, many while the caller speaks, few again", func() (bool, string) {
		all, _, _ := eye.seen()
		var at []time.Time
		for _, i := range all {
			if i.Source == "camera" {
				at = append(at, i.CapturedAt.Time)
			}
		}
		begin, end := -1, -1 // of the first run of 5 images within 2 s, and the first pause of 2 s behind it
		for n := range at {
			if begin < 0 && n >= 4 && at[n].Sub(at[n-4]) < 2*time.Second {
				begin = n - 4
			}
			if begin >= 0 && n > begin+4 && at[n].Sub(at[n-1]) >= 2*time.Second {
				end = n
				break
			}
		}
		text := fmt.Sprintf("%d images, the many from %d, the pause at %d", len(at), begin, end)
		if begin > 2 { // 2 s of silence come first
			t.Fatalf("too many before the caller spoke: %s", text)
		}
		return end > 0, text
	})
}

// publishDisplay shares the screen without saying so anywhere but where Chromium says it by itself: in the headers of its key frames.
const publishDisplay = `(async () => {
	const stream = await navigator.mediaDevices.getDisplayMedia({video: true});
	const pc = window.plain = new RTCPeerConnection({bundlePolicy: 'max-bundle'});
	pc.addTransceiver(stream.getVideoTracks()[0], {direction: 'sendonly'});
	await pc.setLocalDescription();
	const answer = await fetch('/whip/plain', {method: 'POST', headers: {'Content-Type': 'application/sdp'}, body: pc.localDescription.sdp});
	await pc.setRemoteDescription({type: 'answer', sdp: await answer.text()});
	return answer.status;
})()`

// TestE2EBrowserScreenShare: a screen of Chromium's is told as one, by its name or by its pictures alone, and shown as it is; a camera is not.
// When a picture was taken is known by the browser's own word.
func TestE2EBrowserScreenShare(t *testing.T) {
	s := serve(t)
	p := chromium(t, fakeCamera(makeCamera(t)))
	p.open(s, "shared")
	named, plain := s.attach("shared", "named", 5), s.attach("plain", "plain", 5)
	p.click("share-screen")
	ownSize := func(i agentclient.Image) bool { return i.Width == 800 && i.Height == 450 } // Chromium's stand-in for a screen
	i := named.awaitImages(20*time.Second, "images of the shared screen, with the time by its header", 1, func(i agentclient.Image) bool {
		return i.Source == "screen" && ownSize(i) && i.CaptureClock == "header" && i.CaptureErrorMS != nil
	})[0]
	t.Logf("captured %d ms before it was sent, off by %d ms at most", i.AgeMS, *i.CaptureErrorMS)
	p.click("stop")
	if status := p.eval(publishDisplay); status != "201" {
		t.Fatalf("publishing by hand: %s", status)
	}
	await(t, 20*time.Second, "what calls itself nothing is told as a screen", func() (bool, string) {
		_, _, told := plain.seen()
		return len(told) > 0 && told[len(told)-1].Name == "camera" && told[len(told)-1].Screen, fmt.Sprintf("%+v", told)
	})
	plain.awaitImages(20*time.Second, "and shown as it is", 1, ownSize)

	p.open(s, "filmed")
	filmed := s.attach("filmed", "filmed", 5)
	p.startCamera()
	filmed.awaitImages(20*time.Second, "images of a camera", 1, func(i agentclient.Image) bool { return i.Width == 1024 && i.Height == 1024 })
	if got := filmed.awaitSource(20*time.Second, "the camera", "camera", "live"); got.Screen {
		t.Errorf("a camera is told as %+v", got)
	}
}
