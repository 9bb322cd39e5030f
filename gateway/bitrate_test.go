package gateway

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"sightline/frames"
)

func TestWhatASenderIsAskedFor(t *testing.T) {
	hd := demand{sourceW: 1280, sourceH: 720}
	with := func(d demand, change func(*demand)) demand { change(&d); return d }
	watched := with(hd, func(d *demand) { d.watched, d.fps, d.width, d.height = true, 1, 1024, 1024 })
	for _, c := range []struct {
		name     string
		demand   demand
		low, top int // bits a second
		fps      float64
	}{
		{"nobody", hd, cameraFloor, cameraFloor, quietFPS},
		{"nobody, screen", with(hd, func(d *demand) { d.screen = true }), screenFloor, screenFloor, quietFPS},
		{"somebody may ask", with(hd, func(d *demand) { d.ready = true }), 900_000, 900_000, readyFPS},
		{"the default image", watched, 1_200_000, 1_400_000, 10},
		{"the default image of what is sent small", with(watched, func(d *demand) { d.sourceW, d.sourceH = 320, 180 }), 1_200_000, 1_400_000, 10},
		{"five a second", with(watched, func(d *demand) { d.fps = 5 }), 1_200_000, 1_400_000, 15},
		{"motion", with(watched, func(d *demand) { d.fps = 30 }), 1_500_000, 1_750_000, 30},
		{"the whole picture", with(watched, func(d *demand) { d.width, d.height = 0, 0 }), 1_200_000, 1_200_000, 10},
		{"the whole picture, sent small", with(watched, func(d *demand) { d.width, d.height, d.sourceW, d.sourceH = 0, 0, 320, 180 }), 1_200_000, 1_200_000, 10},
		{"a thumbnail", with(watched, func(d *demand) { d.width, d.height = 64, 64 }), MinVideoBitrate, MinVideoBitrate, 10},
		{"half the size", with(watched, func(d *demand) { d.width, d.height = 640, 360 }), 500_000, 550_000, 10},
		{"text", with(watched, func(d *demand) { d.screen = true }), 2_000_000, 2_300_000, 10},
		{"text by key frames", with(watched, func(d *demand) { d.screen, d.policy = true, frames.PolicyKeyframe }), 2_200_000, 2_500_000, 10},
		{"more than allowed", with(watched, func(d *demand) { d.width, d.height, d.sourceW, d.sourceH = 0, 0, 3840, 2160 }), 2_500_000, 2_500_000, 10},
		{"layers", with(watched, func(d *demand) { d.width, d.height, d.layers = 0, 0, true }), 1_800_000, 1_800_000, 10},
		{"no size known yet", demand{watched: true, fps: 1}, 1_200_000, 1_200_000, 10},
	} {
		a := c.demand.ask(DefaultMaxVideoBitrate)
		if a.bps < c.low || a.bps > c.top || a.fps != c.fps {
			t.Errorf("%s: %d bit/s and %.0f frames/s, want %d to %d and %.0f", c.name, a.bps, a.fps, c.low, c.top, c.fps)
		}
		if a.fps < min(2*c.demand.fps, frames.MaxFPS) {
			t.Errorf("%s: %.0f frames/s for %.0f images", c.name, a.fps, c.demand.fps)
		}
	}
}

// TestAskingNeverLagsBehindMore: up at once in whatever grows, down only after lowerAfter, and then to the most wanted meanwhile.
func TestAskingNeverLagsBehindMore(t *testing.T) {
	at := time.Unix(0, 0)
	e := easing{now: videoAsk{bps: 600_000, fps: 10}}
	after := func(d time.Duration, want, get videoAsk) {
		t.Helper()
		at = at.Add(d)
		if got := e.next(want, at); got != get {
			t.Errorf("at %v: asked for %+v, want %+v", at.Sub(time.Unix(0, 0)), got, get)
		}
	}
	quiet, seen := videoAsk{bps: 150_000, fps: 5}, videoAsk{bps: 1_200_000, fps: 10, width: 1024, height: 1024}
	small := videoAsk{bps: 200_000, fps: 30, width: 320, height: 240}
	after(0, quiet, videoAsk{bps: 600_000, fps: 10})
	after(2*time.Second, seen, videoAsk{bps: 1_200_000, fps: 10}) // its own size was wanted before: still
	after(lowerAfter, seen, seen)
	after(time.Second, small, videoAsk{bps: 1_200_000, fps: 30, width: 1024, height: 1024})
	after(time.Second, quiet, videoAsk{bps: 1_200_000, fps: 30})
	after(time.Second, small, videoAsk{bps: 1_200_000, fps: 30})
	after(lowerAfter-2*time.Second, quiet, videoAsk{bps: 1_200_000, fps: 30})
	after(time.Second, quiet, videoAsk{bps: 200_000, fps: 30}) // small was wanted meanwhile
	after(time.Second, quiet, videoAsk{bps: 200_000, fps: 30})
	after(lowerAfter, quiet, quiet)
	after(time.Millisecond, seen, videoAsk{bps: 1_200_000, fps: 10})
}

// TestAPublisherIsAskedForMoreAtOnce: the cap in the session's state follows who is there and what is wanted, up without delay.
func TestAPublisherIsAskedForMoreAtOnce(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("demo")
	publishClip(t, g, "demo")
	cap := func() int {
		_, body, _ := g.do("GET", "/v1/sessions/demo", "")
		var d sessionDetail
		if err := json.Unmarshal(body, &d); err != nil || len(d.Sources) == 0 {
			return -1
		}
		return d.Sources[0].BitrateCapBPS
	}
	var seen []int
	reaches := func(want int) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); cap() != want; <-time.After(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the cap is %d, want %d; before it was %v", cap(), want, seen)
			}
		}
		seen = append(seen, want)
	}
	ready, small := demand{ready: true}.ask(DefaultMaxVideoBitrate), demand{watched: true, fps: 1, width: 1600, height: 1600}.ask(DefaultMaxVideoBitrate)
	reaches(ready.bps) // an agent may attach at any moment
	if status, _, _ := g.do("GET", "/v1/sessions/demo/image?wait_ms=20000&width=1600&height=1600", ""); status != 200 {
		t.Fatalf("no image: %d", status)
	}
	reaches(small.bps)
	g.attach("demo", "watcher", `"want":{"images":[{"source":"*","fps":20,"width":1600,"height":1600}]}`)
	reaches(demand{watched: true, fps: 20, width: 1600, height: 1600}.ask(DefaultMaxVideoBitrate).bps)
	if !slices.IsSorted(seen) || seen[0] == seen[1] || seen[1] == seen[2] {
		t.Errorf("asked for %v one after the other", seen)
	}
}

// TestOneLargeImageIsForgotten: while small ones go on being asked for.
func TestOneLargeImageIsForgotten(t *testing.T) {
	var a asked
	at := time.Unix(1000, 0)
	wants := func(after time.Duration, width int, still bool) {
		t.Helper()
		at = at.Add(after)
		if box, ok := a.box(at); ok != still || ok && box.width != width {
			t.Errorf("%v later %d pixels are wanted: %v; want %d: %v", after, box.width, ok, width, still)
		}
	}
	ask := func(width int) { a.add(videoAsk{width: width, height: width}, at) }
	wants(0, 0, false)
	ask(4096)
	for range 5 {
		ask(512)
		wants(5*time.Second, 4096, true)
	}
	for range 8 {
		ask(512)
		at = at.Add(5 * time.Second)
	}
	wants(0, 512, true)
	ask(0) // as it is
	ask(512)
	wants(time.Second, 0, true)
	wants(askedHold-2*time.Second, 0, true)
	wants(time.Second, 0, false)
	ask(512)
	wants(0, 512, true)
}
