//go:build bench

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
)

// What headless Chromium, with its own rate control, makes of being asked for a key frame for each image: part of a section of scripts/bench.
// One call each of a camera (a clip) and of a page of small text, an agent that wants an image a second; the policy goes to and fro.

const (
	policyImages = 20
	policyPause  = 5 * time.Second // after a change
)

// policyScript publishes what stream() gives, at up to kbps.
const policyScript = `(async () => {
	window.publishStream = async (stream, kbps) => {
		const pc = window.connection = new RTCPeerConnection();
		const t = pc.addTransceiver(stream.getVideoTracks()[0], { direction: "sendonly", streams: [stream], sendEncodings: [{ maxBitrate: 1000 * kbps }] });
		t.setCodecPreferences(RTCRtpSender.getCapabilities("video").codecs.filter((c) => /vp8|rtx/i.test(c.mimeType)));
		await pc.setLocalDescription();
		await new Promise((ok) => { const look = () => pc.iceGatheringState === "complete" && ok(); pc.onicegatheringstatechange = look; look(); });
		const answer = await fetch("/whip/bench", { method: "POST", headers: { "Content-Type": "application/sdp" }, body: pc.localDescription.sdp });
		const sdp = await answer.text();
		if (answer.status !== 201) return sdp;
		await pc.setRemoteDescription({ type: "answer", sdp });
		return "";
	};
	window.camera = async (kbps) => publishStream(await navigator.mediaDevices.getUserMedia({ video: { width: 640, height: 480, frameRate: 30 } }), kbps);
	window.text = async (kbps, words) => {
		const canvas = window.canvas = document.createElement("canvas"); canvas.width = 1280; canvas.height = 720;
		const g = canvas.getContext("2d", { alpha: false });
		let n = 0;
		setInterval(() => {
			g.fillStyle = "#fff"; g.fillRect(0, 0, 1280, 720); g.fillStyle = "#111"; g.font = "17px DejaVu Sans, sans-serif";
			for (let i = 0; i < words.length; i++) g.fillText(words[i], 40 + 200 * (i %% 6), 60 + 40 * Math.floor(i / 6));
			g.fillRect(40 + n++ %% 600, 700, 8, 14); // something moves
		}, 33);
		const stream = canvas.captureStream(30);
		stream.getVideoTracks()[0].contentHint = "text";
		return publishStream(stream, kbps);
	};
	window.still = () => { // what the page shows
		const d = canvas.getContext("2d").getImageData(0, 0, 1280, 720).data;
		let s = ""; for (let i = 0; i < d.length; i += 4) s += String.fromCharCode(d[i], d[i + 1], d[i + 2]);
		return btoa(s);
	};
	window.sent = async () => { for (const s of (await connection.getStats()).values()) if (s.type === "outbound-rtp" && s.kind === "video")
		return [performance.now(), s.bytesSent, s.framesEncoded, s.keyFramesEncoded, s.qpSum, s.frameWidth, s.frameHeight]; return []; };
	return "";
})()`

func TestBenchPolicy(t *testing.T) {
	fmt.Print("| Chromium sends, at most kbit/s | policy | images | PSNR of the images, mean · worst, dB | words read, of 84 | sent, kbit/s | frames/s · key frames/s | mean quantizer (0–127) | decoded a second |\n|---|---|---|---|---|---|---|---|---|\n")
	clip := makeCameraClip(t, faceClip)
	for _, c := range []struct {
		what string
		kbps int
	}{{"camera, 640×480", 1500}, {"camera, 640×480", 500}, {"text, 1280×720", 2000}, {"text, 1280×720", 600}} {
		t.Run(fmt.Sprintf("%s at %d", c.what, c.kbps), func(t *testing.T) { benchPolicy(t, clip, c.what, c.kbps) })
	}
}

// phase is what was measured while one policy was in effect.
type phase struct {
	psnr        []float64
	words       []int
	before, now []float64 // of sent
	decoded     uint64
	seconds     float64
	effect      string
}

func benchPolicy(t *testing.T, clip *cameraClip, what string, kbps int) {
	s := serve(t, "--no-bitrate-cap")
	p := chromium(t, fakeCamera(clip.Y4M))
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if err := p.load(ctx, s.URL+"/metrics"); err != nil {
		t.Fatal(err)
	}
	p.eval(strings.ReplaceAll(policyScript, "%%", "%"))
	s.call("POST", "/v1/sessions", "application/json", `{"id":"bench"}`)
	agent := s.attach("bench", "watcher", 1)
	camera := strings.HasPrefix(what, "camera")
	publish := fmt.Sprintf("camera(%d)", kbps)
	if !camera {
		list, err := json.Marshal(benchWords)
		if err != nil {
			t.Fatal(err)
		}
		publish = fmt.Sprintf("text(%d, %s)", kbps, list)
	}
	if trouble := get[string](p, publish); trouble != "" {
		t.Fatal(trouble)
	}
	agent.awaitImages(30*time.Second, "the first image", 1, nil)
	<-time.After(12 * time.Second) // the bandwidth estimate has risen
	phases := map[string]*phase{"full": {}, "auto": {}}
	for range 2 {
		for _, policy := range []string{"full", "auto"} {
			measurePhase(t, s, p, agent, clip, policy, camera, phases[policy])
		}
	}
	for _, policy := range []string{"full", "auto"} {
		ph := phases[policy]
		words := "–"
		if !camera {
			words = fmt.Sprintf("%.1f", mean(ph.words))
		}
		fmt.Printf("| %s, %d | `%s`: %s | %d | %.2f · %.2f | %s | %.0f | %.1f · %.2f | %.1f | %.1f |\n", what, kbps, policy, ph.effect, len(ph.psnr), mean(ph.psnr), slices.Min(ph.psnr), words,
			8*ph.now[1]/ph.now[0], 1000*ph.now[2]/ph.now[0], 1000*ph.now[3]/ph.now[0], ph.now[4]/ph.now[2], float64(ph.decoded)/ph.seconds)
	}
	p.eval(`(connection.close(), 0)`)
}

func mean[T int | float64](v []T) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x)
	}
	return sum / math.Max(float64(len(v)), 1)
}

func measurePhase(t *testing.T, s *served, p *page, agent *witness, clip *cameraClip, policy string, camera bool, ph *phase) {
	t.Helper()
	if status, _, body := s.call("PATCH", "/v1/sessions/bench/sources/camera", "application/json", `{"policy":"`+policy+`"}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	<-time.After(policyPause)
	before, decoded, begin := get[[]float64](p, "sent()"), decodedOf(t, s, nil), time.Now()
	images := agent.awaitImages(2*policyImages*time.Second, "images under "+policy, policyImages, func(i agentclient.Image) bool { return i.ReceivedAt.After(begin) })
	after := get[[]float64](p, "sent()")
	if ph.now == nil {
		ph.now = make([]float64, 5)
	}
	for i := range ph.now {
		ph.now[i] += after[i] - before[i]
	}
	ph.seconds += time.Since(begin).Seconds()
	ph.decoded += decodedOf(t, s, &ph.effect) - decoded
	var truth []byte
	if !camera {
		var err error
		if truth, err = base64.StdEncoding.DecodeString(get[string](p, "still()")); err != nil {
			t.Fatal(err)
		}
		truth = truth[:3*1280*690] // above what moves
	}
	for n, i := range images {
		if camera {
			_, psnr := clip.best(decode(t, i))
			ph.psnr = append(ph.psnr, psnr)
			continue
		}
		ph.psnr = append(ph.psnr, psnrOf(truth, rgbOf(t, i)[:len(truth)]))
		if n%4 == 0 {
			ph.words = append(ph.words, wordsRead(t, i.Data))
		}
	}
}

// rgbOf decodes an image of the picture's own size, which is what screens are given in.
func rgbOf(t *testing.T, i agentclient.Image) (rgb []byte) {
	t.Helper()
	picture, err := jpeg.Decode(bytes.NewReader(i.Data))
	if err != nil || picture.Bounds() != image.Rect(0, 0, 1280, 720) {
		t.Fatalf("image %d: %v, want 1280×720", i.Seq, err)
	}
	for y := range 720 {
		for x := range 1280 {
			r, g, b, _ := picture.At(x, y).RGBA()
			rgb = append(rgb, byte(r>>8), byte(g>>8), byte(b>>8))
		}
	}
	return rgb
}

// decodedOf is how many frames were decoded, and what is in effect.
func decodedOf(t *testing.T, s *served, effect *string) uint64 {
	t.Helper()
	var state struct {
		Sources []struct {
			Decoded uint64
			Effect  string `json:"policy_in_effect"`
			Reason  string `json:"policy_reason"`
		}
	}
	_, _, body := s.call("GET", "/v1/sessions/bench", "", "")
	if err := json.Unmarshal(body, &state); err != nil || len(state.Sources) == 0 {
		t.Fatalf("no source in %s", body)
	}
	if effect != nil {
		*effect = state.Sources[0].Effect + ", " + state.Sources[0].Reason
	}
	return state.Sources[0].Decoded
}

// wordsRead counts the words of the page that tesseract reads in an image.
func wordsRead(t *testing.T, data []byte) (n int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "image.jpg")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool(t, "tesseract"), name, "-", "--psm", "11").Output()
	if err != nil {
		t.Fatal(err)
	}
	rest := strings.Fields(string(out))
	for _, w := range benchWords {
		if i := slices.Index(rest, w); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			n++
		}
	}
	return n
}

// benchWords are 84 words of a page of small text.
var benchWords = strings.Fields(`account address balance battery billing browser cabinet calendar camera captain carbon ceiling channel chapter charge circle
	client column comment company control country courier credit current customer database delivery deposit desktop detail device display document
	download election engine envelope evening expense factory feature finance folder forward gallery garden general handle harbour history holiday
	hospital invoice journey kitchen language library machine magazine manager measure member message minute mountain network notebook number office
	package painter payment picture planet program project purchase quality question receipt`)
