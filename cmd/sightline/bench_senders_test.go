//go:build bench

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// What senders make of what they are asked for (PROTOCOL.md §2.1): a section of scripts/bench. Each run is a fresh gateway and a fresh
// sender; the sender's own counters are read, four times a second.

const (
	senderCap   = 500_000          // bits/s that TIAS alone allows
	settleTime  = 12 * time.Second // of a fresh sender
	quietTime   = 20 * time.Second // 10 s until less is asked for, and a while
	measureTime = 4 * time.Second
	raiseTime   = 20 * time.Second // to come back up at most
)

// senderScript is a camera of real pictures (moved a little from frame to frame, so that a codec has work), two ways to publish it and a
// record of what was sent. %s are the pictures, base64 JPEG.
const senderScript = `(async () => {
	const pictures = await Promise.all([%s].map(async (b) => createImageBitmap(new Blob([Uint8Array.from(atob(b), (c) => c.charCodeAt(0))], { type: "image/jpeg" }))));
	const canvas = document.createElement("canvas"); canvas.width = 1280; canvas.height = 720;
	const g = canvas.getContext("2d", { alpha: false });
	let n = 0;
	setInterval(() => { const i = n++ %% (2 * pictures.length - 2); g.drawImage(pictures[i < pictures.length ? i : 2 * pictures.length - 2 - i], 0, 0); }, 33);
	const camera = canvas.captureStream(30);
	navigator.mediaDevices.getUserMedia = async () => camera.clone();
	const Real = RTCPeerConnection;
	window.sent = [];
	window.RTCPeerConnection = function (c) { const pc = window.connection = new Real(c); return pc; };
	setInterval(async () => {
		if (!window.connection) return;
		for (const s of (await window.connection.getStats()).values()) if (s.type === "outbound-rtp" && s.kind === "video" && s.bytesSent)
			window.sent.push([performance.now(), s.bytesSent + (s.headerBytesSent ?? 0), s.framesEncoded ?? 0, s.frameWidth ?? 0]);
	}, 250);
	window.plain = async (session, without) => {
		const pc = new RTCPeerConnection(), stream = camera.clone();
		const cut = (sdp, what) => sdp.split("\r\n").filter((l) => !what.test(l)).join("\r\n");
		const t = pc.addTransceiver(stream.getVideoTracks()[0], { direction: "sendonly", streams: [stream] });
		const all = RTCRtpSender.getCapabilities("video").codecs;
		t.setCodecPreferences(all.filter((c) => /vp8|rtx/i.test(c.mimeType)));
		await pc.setLocalDescription();
		await new Promise((ok) => { const look = () => pc.iceGatheringState === "complete" && ok(); pc.onicegatheringstatechange = look; look(); });
		const offer = without.includes("REMB") ? cut(pc.localDescription.sdp, /goog-remb/) : pc.localDescription.sdp;
		const answer = await fetch("/whip/" + session, { method: "POST", headers: { "Content-Type": "application/sdp" }, body: offer });
		let sdp = await answer.text();
		if (answer.status !== 201) return sdp;
		if (without.includes("TIAS")) sdp = cut(sdp, /^b=/);
		await pc.setRemoteDescription({ type: "answer", sdp });
		return "";
	};
	window.ours = async (session) => {
		const { Publisher } = await import("/js/whip.js"), { Api } = await import("/js/api.js");
		window.publisher = new Publisher(new Api(""));
		await window.publisher.start({ session, kind: "camera" });
		return publisher.trouble?.title ?? "";
	};
	return "";
})()`

// sample is one reading: ms, bytes, frames, width.
type sample [4]float64

// way is how a sender is made to send, what of the gateway's wishes it is kept from, and the gateway's flags.
type way struct {
	name    string
	without string // of a plain page
	ours    bool   // through our own page's code
	args    []string
	watched bool // from the start, and no raise is measured
}

var ways = []way{
	{name: "nothing asked", args: []string{"--no-bitrate-cap"}, watched: true},
	{name: "TIAS and AS", without: "REMB", args: []string{"--max-video-bitrate", fmt.Sprint(senderCap)}, watched: true},
	{name: "REMB", without: "TIAS"},
	{name: "both"},
	{name: "both, our page", ours: true},
}

func TestBenchSenders(t *testing.T) {
	fmt.Print("| sender | asked by | asked, kbit/s | sent, kbit/s | frames/s | wide | an agent comes: asked, kbit/s | half of it after, s | 80 % of it after, s |\n|---|---|---|---|---|---|---|---|---|\n")
	pictures := benchPictures(t)
	for _, browser := range []struct {
		name  string
		start func(*testing.T) *page
	}{
		{"Chromium", func(t *testing.T) *page { return chromium(t, fakeCamera("")) }},
		{"Firefox", firefox},
	} {
		for _, w := range ways {
			t.Run(browser.name+"/"+w.name, func(t *testing.T) {
				s := serve(t, w.args...)
				p := browser.start(t)
				ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
				defer cancel()
				if err := p.load(ctx, s.URL+"/metrics"); err != nil { // a page of the gateway's origin, without our own page's policy
					t.Fatal(err)
				}
				p.eval(fmt.Sprintf(senderScript, pictures))
				publish := `plain("bench", ` + quote(w.without) + `)`
				if w.ours {
					publish = `ours("bench")`
				}
				measureSender(t, s, browser.name, w, func() {
					if trouble := get[string](p, publish); trouble != "" {
						t.Fatal(trouble)
					}
				}, func() []sample { return get[[]sample](p, `sent`) })
				p.eval(`(connection.close(), 0)`)
			})
		}
	}
	for _, peer := range []string{"aiortc", "gstreamer"} {
		for _, w := range ways[:4] {
			t.Run(peer+"/"+w.name, func(t *testing.T) { benchPeer(t, peer, w) })
		}
	}
}

// measureSender prints one row.
func measureSender(t *testing.T, s *served, name string, w way, publish func(), sent func() []sample) {
	t.Helper()
	settle := quietTime
	if w.watched {
		s.call("POST", "/v1/sessions", "application/json", `{"id":"bench"}`)
		s.attach("bench", "watcher", 2)
		settle = settleTime
	}
	publish()
	<-time.After(settle)
	before := last(sent())
	<-time.After(measureTime)
	after := last(sent())
	asked := capOf(t, s)
	fmt.Printf("| %s | %s | %s | %.0f | %.0f | %.0f |", name, w.name, kbit(asked), kbps(before, after), (after[2]-before[2])/(after[0]-before[0])*1000, after[3])
	if w.watched {
		fmt.Print(" | | |\n")
		return
	}
	at := after[0]
	s.attach("bench", "watcher", 2)
	half, most := "never", "never"
	wanted := 0.0
	for end := time.Now().Add(raiseTime); time.Now().Before(end) && most == "never"; <-time.After(200 * time.Millisecond) {
		wanted = float64(capOf(t, s)) / 1000
		all := sent()
		for i := range all { // a window of half a second
			if i < 2 || all[i][0] < at || wanted <= float64(asked)/1000 {
				continue
			}
			r, after := kbps(all[i-2], all[i]), fmt.Sprintf("%.1f", (all[i][0]-at)/1000)
			if half == "never" && r >= wanted/2 {
				half = after
			}
			if most == "never" && r >= wanted*0.8 {
				most = after
			}
		}
	}
	fmt.Printf(" %.0f | %s | %s |\n", wanted, half, most)
}

func last(s []sample) sample {
	if len(s) == 0 {
		return sample{}
	}
	return s[len(s)-1]
}

// kbps is the rate between two readings in kbit/s.
func kbps(a, b sample) float64 {
	if b[0] <= a[0] {
		return 0
	}
	return 8 * (b[1] - a[1]) / (b[0] - a[0])
}

func kbit(bps int) string {
	if bps == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f", float64(bps)/1000)
}

func capOf(t *testing.T, s *served) int {
	t.Helper()
	var state struct {
		Sources []struct {
			Cap int `json:"bitrate_cap_bps"`
		}
	}
	_, _, body := s.call("GET", "/v1/sessions/bench", "", "")
	if err := json.Unmarshal(body, &state); err != nil || len(state.Sources) == 0 {
		t.Fatalf("no source in %s", body)
	}
	return state.Sources[0].Cap
}

// benchPictures are a second of a real camera as base64 JPEG strings of JavaScript.
func benchPictures(t *testing.T) string {
	folder := t.TempDir()
	ffmpeg(t, "-i", "../../scripts/bench.d/media/cam720.vp8.ivf", "-frames:v", "24", "-q:v", "3", folder+"/%d.jpg")
	var list []string
	for i := 1; i <= 24; i++ {
		data, err := os.ReadFile(fmt.Sprintf("%s/%d.jpg", folder, i))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, quote(base64.StdEncoding.EncodeToString(data)))
	}
	return strings.Join(list, ",")
}

// benchPeer runs scripts/bench.d/sender_PEER.py, which prints what it has sent as JSON lines of the same four numbers.
func benchPeer(t *testing.T, peer string, w way) {
	s := serve(t, w.args...)
	command := exec.Command("/usr/bin/python3", "../../scripts/bench.d/sender_"+peer+".py", s.URL+"/whip/bench", "../../scripts/bench.d/media/cam720.vp8.ivf", w.without)
	var said lockedBuffer
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = &said
	var lines lockedBuffer
	started := make(chan struct{})
	measureSender(t, s, peer, w, func() {
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
		go func() {
			r := bufio.NewReader(output)
			if first, err := r.ReadString('\n'); err == nil {
				fmt.Fprint(&lines, first)
				close(started)
				_, _ = io.Copy(&lines, r)
			}
		}()
		select {
		case <-started:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s sends nothing within 30 s: %s", peer, said.tail(2<<10))
		}
	}, func() (all []sample) {
		for line := range bytes.Lines([]byte(lines.String())) {
			var one sample
			if json.Unmarshal(line, &one) == nil {
				all = append(all, one)
			}
		}
		return all
	})
}
