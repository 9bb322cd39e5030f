package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/cmd/internal/testvideo"
	"sightline/cmd/internal/whipclient"
	"sightline/gateway/wire"
)

// layersOf tells the layers of a session's one source: "q320 h640 F1280", the one in use in capitals.
func layersOf(s sessionState) (text string, used int) {
	for _, l := range s.Sources[0].Layers {
		if l.Used {
			used = l.Width
		}
		text += fmt.Sprintf("%s%d used=%v sent=%v packets=%d; ", l.RID, l.Width, l.Used, l.Sent, l.Packets)
	}
	return text, used
}

// awaitUsed waits until the layer in use has this width, and everything that was sent is received.
func (s *served) awaitUsed(session string, width int, switches uint64) sessionState {
	s.t.Helper()
	var state sessionState
	await(s.t, 30*time.Second, fmt.Sprintf("the layer in use is %d wide", width), func() (bool, string) {
		if state = s.session(session); len(state.Sources) == 0 {
			return false, "no source"
		}
		text, used := layersOf(state)
		return used == width && state.Sources[0].Width == width, text
	})
	if got := state.Sources[0].LayerSwitches; got != switches {
		s.t.Errorf("%d wide after %d switches, want %d", width, got, switches)
	}
	return state
}

// TestE2ESimulcast: three layers of Pion's, encoded by libvpx. While nobody watches all are read and none is asked for anything; then the one
// that is large enough for who wants most is used, up at once, down in time.
func TestE2ESimulcast(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var layers []*whipclient.Clip
	for _, width := range []int{320, 640, 1280} {
		clip, err := testvideo.Make(ctx, testvideo.Config{Width: width, Height: width * 9 / 16, Length: time.Second, KeyEvery: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, clip)
	}
	s := serve(t)
	s.open("layers")
	publisher, err := whipclient.New(whipclient.Config{URL: s.URL, Session: "layers", Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- publisher.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the publisher ended with: %v", err)
		}
	}()
	await(t, 30*time.Second, "three layers are received", func() (bool, string) {
		state := s.session("layers")
		if len(state.Sources) == 0 {
			return false, "no source"
		}
		ready := 0
		for _, l := range state.Sources[0].Layers {
			if l.Sent && l.Width > 0 && l.Packets > 100 {
				ready++
			}
		}
		text, _ := layersOf(state)
		return ready == 3, text
	})
	if state := s.session("layers").Sources[0]; state.PLIs != 0 || state.Decoded != 0 {
		t.Errorf("nobody watches: %d requests for key frames, %d pictures", state.PLIs, state.Decoded)
	}
	small := s.attachFor("layers", "small", 256)
	small.awaitImages(30*time.Second, "small images", 2, func(i agentclient.Image) bool { return i.Width == 256 })
	s.awaitUsed("layers", 320, 0)
	large := s.attachFor("layers", "large", 1024)
	s.awaitUsed("layers", 1280, 1)
	large.forget()
	large.awaitImages(30*time.Second, "large images", 2, func(i agentclient.Image) bool { return i.Width == 1024 })
	large.leave()
	s.awaitUsed("layers", 320, 2)
}

// attachFor attaches an agent that wants three images a second of one side.
func (s *served) attachFor(session, id string, side int) *witness {
	s.t.Helper()
	w := s.attach(session, id, 0)
	w.SetWant(wire.Want{Images: []wire.WantImage{{Source: "*", FPS: 3, Encode: wire.Encode{Width: side, Height: side}}}})
	return w
}

// publishLayers publishes the camera with one codec and these encodings.
const publishLayers = `(async (session, codec, encodings) => {
	const stream = await navigator.mediaDevices.getUserMedia({ video: { width: 640, height: 480 } });
	const pc = new RTCPeerConnection();
	(window.layersTest ??= []).push(pc);
	const transceiver = pc.addTransceiver(stream.getVideoTracks()[0], { direction: "sendonly", streams: [stream], sendEncodings: encodings });
	const all = RTCRtpSender.getCapabilities("video").codecs;
	transceiver.setCodecPreferences(all.filter((c) => c.mimeType === "video/" + codec || c.mimeType === "video/rtx"));
	await pc.setLocalDescription();
	await new Promise((ok) => { const look = () => pc.iceGatheringState === "complete" && ok(); pc.onicegatheringstatechange = look; look(); });
	const answer = await fetch("/whip/" + session, { method: "POST", headers: { "Content-Type": "application/sdp" }, body: pc.localDescription.sdp });
	if (answer.status !== 201) return answer.status + " " + await answer.text();
	await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
	return "";
})`

// TestE2EBrowserLayers: Chromium's simulcast, with repairs on streams of their own, and its AV1 with layers in space, told by dependency
// descriptors. The largest layer is wanted and its pictures are right.
func TestE2EBrowserLayers(t *testing.T) {
	clip := makeCameraClip(t, faceClip)
	s := serve(t)
	p := chromium(t, fakeCamera(clip.Y4M))
	p.open(s, "page")
	cases := []struct{ session, codec, encodings string }{
		{"simulcast", "VP8", `[{rid:"h",scaleResolutionDownBy:2},{rid:"f"}]`}, // of this size it sends no third one
		{"svc", "AV1", `[{scalabilityMode:"L3T3",maxBitrate:2500000}]`},
	}
	agents := map[string]*witness{}
	for _, c := range cases {
		s.open(c.session)
		agents[c.session] = s.attach(c.session, "watcher", 2)
		if refused := get[string](p, publishLayers+fmt.Sprintf("(%q,%q,%s)", c.session, c.codec, c.encodings)); refused != "" {
			t.Fatalf("the gateway refused: %s", refused)
		}
	}
	for _, c := range cases {
		var state sessionState
		await(t, 60*time.Second, c.session+": the largest layer is in use", func() (bool, string) {
			if state = s.session(c.session); len(state.Sources) == 0 {
				return false, "no source"
			}
			src := state.Sources[0]
			text, used := layersOf(state)
			whole := len(src.Layers) == 2
			for _, l := range src.Layers {
				whole = whole && l.Sent && l.Packets > 10
			}
			if c.session == "svc" {
				whole = src.SpatialLayers > 1 && src.SpatialLayer == src.SpatialLayers-1
			}
			return whole && used > 320, fmt.Sprintf("%s layer %d of %d in space", text, src.SpatialLayer, src.SpatialLayers)
		})
	}
	settled := time.Now().Add(2 * time.Second)
	for _, c := range cases {
		for _, i := range agents[c.session].awaitImages(30*time.Second, "images of a settled call", 2, func(i agentclient.Image) bool { return i.CapturedAt.After(settled) })[:2] {
			frame, psnr := clip.best(decode(t, i))
			t.Logf("%s, image %d: frame %d, %.1f dB", c.session, i.Seq, frame, psnr)
			if psnr < 27 {
				t.Errorf("%s: image %d is nearest to frame %d with %.1f dB, want at least 27", c.session, i.Seq, frame, psnr)
			}
		}
	}
	// The sender leaves its largest layer out, as it does when its bandwidth falls.
	agents["simulcast"].forget()
	p.eval(`(() => { const s = window.layersTest[0].getSenders()[0], all = s.getParameters(); all.encodings[1].active = false; s.setParameters(all); })()`)
	s.awaitUsed("simulcast", 320, s.session("simulcast").Sources[0].LayerSwitches+1)
	agents["simulcast"].awaitImages(30*time.Second, "images of the smaller layer", 1, nil)
	p.eval(`window.layersTest.forEach((pc) => pc.close())`)
}
