package main

import (
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
)

// publishAs publishes the camera from the console page's origin with one codec, by a script: the page itself leaves the choice to the
// gateway.
const publishAs = `(async (session, codec, mode) => {
	const stream = await navigator.mediaDevices.getUserMedia({ video: { width: 640, height: 480 } });
	const track = stream.getVideoTracks()[0];
	if (!mode) track.contentHint = "detail"; // keeps the size (and makes it a screen, PROTOCOL §5.6); with it Chromium encodes no layers
	const pc = window.codecTest = new RTCPeerConnection();
	const encoding = { maxBitrate: 2500000 };
	if (mode) encoding.scalabilityMode = mode;
	const transceiver = pc.addTransceiver(track, { direction: "sendonly", streams: [stream], sendEncodings: [encoding] });
	const all = RTCRtpSender.getCapabilities("video").codecs;
	transceiver.setCodecPreferences(all.filter((c) => c.mimeType === "video/" + codec || c.mimeType === "video/rtx"));
	await pc.setLocalDescription();
	await new Promise((ok) => { const look = () => pc.iceGatheringState === "complete" && ok(); pc.onicegatheringstatechange = look; look(); });
	const answer = await fetch("/whip/" + session, { method: "POST", headers: { "Content-Type": "application/sdp" }, body: pc.localDescription.sdp });
	if (answer.status !== 201) return answer.status + " " + await answer.text();
	await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
	return "";
})`

// TestE2EBrowserEveryCodec: Chromium's own encoders and packetizers of H264, VP9 (also with layers in space, of which the highest is wanted)
// and AV1.
func TestE2EBrowserEveryCodec(t *testing.T) {
	clip := makeCameraClip(t, faceClip)
	for _, c := range []struct {
		name, codec, mode string
		width             int
		least             float64 // dB
	}{
		{"h264", "H264", "", 640, 30},
		{"vp9", "VP9", "", 640, 30},
		{"vp9-svc", "VP9", "L3T3_KEY", 640, 28},
		{"av1", "AV1", "", 640, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			p := chromium(t, fakeCamera(clip.Y4M))
			p.open(s, c.name)
			square := wire.WantImage{Source: "*", FPS: 2, Encode: wire.Encode{Width: 1024, Height: 1024, Fit: "stretch"}}
			agent := s.attachWanting(c.name, "watcher", wire.Want{Context: true, Images: []wire.WantImage{square}})
			if refused := get[string](p, publishAs+"("+quote(c.name)+","+quote(c.codec)+","+quote(c.mode)+")"); refused != "" {
				t.Fatalf("the gateway refused: %s", refused)
			}
			first := agent.awaitImages(30*time.Second, "images reach the agent", 1, nil)[0]
			settled := first.CapturedAt.Add(3 * time.Second)
			for _, i := range agent.awaitImages(30*time.Second, "images of a settled call", 3, func(i agentclient.Image) bool { return i.CapturedAt.After(settled) })[:3] {
				frame, psnr := clip.best(decode(t, i))
				t.Logf("image %d: frame %d, %.1f dB", i.Seq, frame, psnr)
				if psnr < c.least {
					t.Errorf("image %d is nearest to frame %d with %.1f dB, want at least %.0f", i.Seq, frame, psnr, c.least)
				}
			}
			state := s.session(c.name).Sources[0]
			t.Logf("%+v", state)
			svc := state.SpatialLayers > 1 && state.SpatialLayer == state.SpatialLayers-1 // its size goes with the machine's load
			if state.Codec != c.codec || state.Width != c.width && c.mode == "" || svc != (c.mode != "") {
				t.Errorf("source %+v, want %s, %d wide, or of layers the highest", state, c.codec, c.width)
			}
			p.eval(`window.codecTest.close()`)
		})
	}
}
