//go:build captures

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/logging"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// scripts/captures runs this: it records what real programs send as RTP, for the tests of frames. Nothing of it is a test of ours.

const (
	capturedFrames = 30
	capturedRate   = 15 // frames/s
	capturedBits   = 200_000
	capturesFolder = "../../frames/testdata/rtp"
	dependencyURI  = "https://aomediacodec.github.io/av1-rtp-spec/#dependency-descriptor-rtp-header-extension"
)

// capture is one stream while it is recorded. A file is one line of JSON, then of each packet: its length (2 bytes), its arrival in ms
// (4 bytes), RTP as it was within SRTP; all of it by gzip.
type capture struct {
	Codec      string `json:"codec"`
	Program    string `json:"program"`
	Options    string `json:"options"`
	Width      int    `json:"width"`
	Height     int    `json:"height"`
	Dependency int    `json:"dependency"` // id of the dependency descriptor; 0: not agreed upon

	mu     sync.Mutex
	begun  time.Time
	body   bytes.Buffer
	stamps map[uint32]bool
	whole  chan struct{} // closed when enough frames are there
	full   bool
}

func newCapture(codec, program, options string) *capture {
	return &capture{Codec: codec, Program: program, Options: options, Width: 320, Height: 240, stamps: map[uint32]bool{}, whole: make(chan struct{})}
}

// add records one packet unless the capture is whole; it gives the number of frames begun.
func (c *capture) add(raw []byte) int {
	var p rtp.Packet
	if p.Unmarshal(raw) != nil || p.PayloadType >= 72 && p.PayloadType <= 76 { // RTCP on the same port, RFC 5761 §4
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun.IsZero() {
		c.begun = time.Now()
	}
	if !c.stamps[p.Timestamp] && len(p.Payload) > 0 {
		if len(c.stamps) == capturedFrames && !c.full {
			c.full = true
			close(c.whole)
		}
		c.stamps[p.Timestamp] = true
	}
	if !c.full {
		c.body.Write(binary.BigEndian.AppendUint16(nil, uint16(len(raw))))
		c.body.Write(binary.BigEndian.AppendUint32(nil, uint32(time.Since(c.begun).Milliseconds())))
		c.body.Write(raw)
	}
	return len(c.stamps)
}

// save writes the file.
func (c *capture) save(t *testing.T, name string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	head, err := json.Marshal(c)
	must(t, err)
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	must(t, err)
	_, err = z.Write(append(append(head, '\n'), c.body.Bytes()...))
	must(t, err)
	must(t, z.Close())
	must(t, os.WriteFile(filepath.Join(capturesFolder, name+".rtp.gz"), packed.Bytes(), 0o644))
	t.Logf("%s: %d frames, %d bytes; %s, %s", name, min(len(c.stamps), capturedFrames), packed.Len(), c.Program, c.Options)
}

// versionOf is what a program calls itself, with its number.
func versionOf(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).Output()
	must(t, err)
	return regexp.MustCompile(`(?m)^(Chromium|Mozilla Firefox|GStreamer|ffmpeg version) [\w.+-]+`).FindString(string(out))
}

func TestCaptures(t *testing.T) {
	must(t, os.MkdirAll(capturesFolder, 0o755))
	t.Run("chromium", func(t *testing.T) {
		program := versionOf(t, tool(t, "chromium"), "--version")
		for _, c := range [][2]string{{"VP8", ""}, {"VP8", "L1T3"}, {"VP9", ""}, {"H264", ""}, {"AV1", ""}} {
			captureBrowser(t, "chromium", program, func() *page { return chromium(t, nil) }, c[0], c[1])
		}
	})
	t.Run("firefox", func(t *testing.T) {
		program := versionOf(t, tool(t, "firefox-esr"), "--version")
		for _, codec := range []string{"VP8", "VP9", "H264", "AV1"} {
			captureBrowser(t, "firefox", program, func() *page { return firefox(t) }, codec, "")
		}
	})
	t.Run("programs", capturePrograms)
}

// captureScript sends the clip, drawn onto a canvas, to /offer.
const captureScript = `(async (pictures, codec, mode) => {
	const drawn = await Promise.all(pictures.map(async (b) => createImageBitmap(new Blob([Uint8Array.from(atob(b), (c) => c.charCodeAt(0))], { type: "image/jpeg" }))));
	const canvas = document.createElement("canvas"); canvas.width = 320; canvas.height = 240;
	const g = canvas.getContext("2d", { alpha: false });
	let n = 0;
	setInterval(() => g.drawImage(drawn[n++ %% drawn.length], 0, 0), 1000 / %d);
	const stream = canvas.captureStream(%d), track = stream.getVideoTracks()[0];
	if (!mode) track.contentHint = "detail"; // keeps the size
	const pc = window.connection = new RTCPeerConnection();
	const encoding = { maxBitrate: %d };
	if (mode) encoding.scalabilityMode = mode;
	const transceiver = pc.addTransceiver(track, { direction: "sendonly", streams: [stream], sendEncodings: [encoding] });
	const all = RTCRtpSender.getCapabilities("video").codecs.filter((c) => c.mimeType === "video/" + codec);
	if (all.length === 0) return "it has no " + codec;
	transceiver.setCodecPreferences(all);
	await pc.setLocalDescription();
	await new Promise((ok) => { const look = () => pc.iceGatheringState === "complete" && ok(); pc.onicegatheringstatechange = look; look(); });
	const answer = await fetch("/offer", { method: "POST", body: pc.localDescription.sdp });
	if (answer.status !== 200) return await answer.text();
	await pc.setRemoteDescription({ type: "answer", sdp: await answer.text() });
	return "";
})`

func captureBrowser(t *testing.T, name, program string, start func() *page, codec, mode string) {
	t.Helper()
	folder := t.TempDir()
	ffmpeg(t, "-i", faceClip, "-vf", "scale=320:240,fps="+fmt.Sprint(capturedRate), "-q:v", "2", folder+"/%d.jpg")
	files, err := filepath.Glob(folder + "/*.jpg")
	must(t, err)
	var pictures []string
	for i := range files {
		data, err := os.ReadFile(fmt.Sprintf("%s/%d.jpg", folder, i+1))
		must(t, err)
		pictures = append(pictures, base64.StdEncoding.EncodeToString(data))
	}
	list, err := json.Marshal(pictures)
	must(t, err)
	options := fmt.Sprintf("%d frames/s, %d bits/s at most", capturedRate, capturedBits)
	file := name + "_" + strings.ToLower(codec)
	if mode != "" {
		options, file = options+", scalabilityMode "+mode, file+"_"+strings.ToLower(mode)
	}
	c := newCapture(codec, program, options)
	answerer := answerTo(t, c)
	p := start()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	must(t, p.load(ctx, answerer.URL+"/"))
	script := fmt.Sprintf(captureScript, capturedRate, capturedRate, capturedBits)
	if trouble := get[string](p, script+"("+string(list)+","+quote(codec)+","+quote(mode)+")"); trouble != "" {
		t.Logf("%s: %s", file, trouble)
		return
	}
	select {
	case <-c.whole:
	case <-time.After(30 * time.Second):
		t.Errorf("%s: %d frames within 30 s", file, len(c.stamps))
		return
	}
	p.eval(`(connection.close(), 0)`)
	c.save(t, file)
}

// answerTo serves an empty page and answers one offer with a Pion peer that records. A key frame is asked for in the middle.
func answerTo(t *testing.T, c *capture) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>capture</title>")
	})
	mux.HandleFunc("POST /offer", func(w http.ResponseWriter, r *http.Request) {
		offer, _ := io.ReadAll(r.Body)
		answer, err := c.answer(t, string(offer))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, answer)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func (c *capture) answer(t *testing.T, offer string) (string, error) {
	media, registry := &webrtc.MediaEngine{}, &interceptor.Registry{}
	fmtp := map[string]string{"H264": "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f", "VP9": "profile-id=0"}[c.Codec]
	codec := webrtc.RTPCodecParameters{PayloadType: 96, RTPCodecCapability: webrtc.RTPCodecCapability{
		MimeType: "video/" + c.Codec, ClockRate: 90000, SDPFmtpLine: fmtp,
		RTCPFeedback: []webrtc.RTCPFeedback{{Type: "nack", Parameter: "pli"}, {Type: "goog-remb"}},
	}}
	if err := media.RegisterCodec(codec, webrtc.RTPCodecTypeVideo); err != nil {
		return "", err
	}
	for _, uri := range []string{"urn:ietf:params:rtp-hdrext:sdes:mid", "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time",
		"http://www.webrtc.org/experiments/rtp-hdrext/video-content-type", "http://www.webrtc.org/experiments/rtp-hdrext/color-space", dependencyURI} {
		if err := media.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: uri}, webrtc.RTPCodecTypeVideo); err != nil {
			return "", err
		}
	}
	if err := webrtc.ConfigureTWCCSender(media, registry); err != nil {
		return "", err
	}
	var settings webrtc.SettingEngine
	settings.LoggerFactory = &logging.DefaultLoggerFactory{DefaultLogLevel: logging.LogLevelDisabled}
	settings.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	settings.SetIncludeLoopbackCandidate(true)
	settings.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	pc, err := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(settings)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = pc.Close() })
	pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) { c.record(pc, track) })
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeOffer, SDP: offer}); err != nil {
		return "", err
	}
	answer, err := pc.CreateAnswer(nil)
	if err != nil {
		return "", err
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(answer); err != nil {
		return "", err
	}
	<-gathered
	sdp := pc.LocalDescription().SDP
	if found := regexp.MustCompile(`a=extmap:(\d+)(?:/\w+)? ` + regexp.QuoteMeta(dependencyURI)).FindStringSubmatch(sdp); found != nil {
		_, _ = fmt.Sscan(found[1], &c.Dependency)
	}
	return sdp, nil
}

func (c *capture) record(pc *webrtc.PeerConnection, track *webrtc.TrackRemote) {
	buffer, asked := make([]byte, 2000), false
	for {
		n, _, err := track.Read(buffer)
		if err != nil {
			return
		}
		if frames := c.add(bytes.Clone(buffer[:n])); frames == capturedFrames/2 && !asked {
			asked = true
			_ = pc.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: uint32(track.SSRC())}})
		}
	}
}

// capturePrograms records what GStreamer and FFmpeg packetize, from a socket: neither Debian's GStreamer nor its FFmpeg speaks WHIP.
func capturePrograms(t *testing.T) {
	raw := filepath.Join(t.TempDir(), "clip.y4m")
	ffmpeg(t, "-i", faceClip, "-vf", fmt.Sprintf("scale=320:240,fps=%d", capturedRate), "-frames:v", fmt.Sprint(capturedFrames+1), "-pix_fmt", "yuv420p", raw)
	gstreamer, ffmpegs := versionOf(t, "gst-launch-1.0", "--version"), versionOf(t, "ffmpeg", "-version")
	gst := func(rest string) []string {
		return append([]string{"gst-launch-1.0", "-q", "filesrc", "location=" + raw, "!", "y4mdec", "!"}, strings.Fields(rest+" ! udpsink host=127.0.0.1 port=PORT")...)
	}
	ff := func(rest string) []string {
		return append([]string{"ffmpeg", "-nostdin", "-v", "error", "-re", "-i", raw}, strings.Fields(rest+" -strict experimental -f rtp rtp://127.0.0.1:PORT?pkt_size=1200")...)
	}
	for _, c := range []struct{ name, codec, program, options string }{
		{"gstreamer_vp8", "VP8", gstreamer, "vp8enc deadline=1 cpu-used=8 target-bitrate=200000 keyframe-max-dist=15 ! rtpvp8pay picture-id-mode=15-bit mtu=1200"},
		{"gstreamer_vp9", "VP9", gstreamer, "vp9enc deadline=1 cpu-used=8 target-bitrate=200000 keyframe-max-dist=15 lag-in-frames=0 ! rtpvp9pay picture-id-mode=15-bit mtu=1200"},
		{"gstreamer_h264", "H264", gstreamer, "openh264enc bitrate=200000 gop-size=15 ! h264parse ! rtph264pay config-interval=-1 aggregate-mode=zero-latency mtu=1200"},
		{"ffmpeg_vp8", "VP8", ffmpegs, "-c:v libvpx -deadline realtime -cpu-used 8 -b:v 200k -g 15"},
		{"ffmpeg_vp9", "VP9", ffmpegs, "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -lag-in-frames 0 -b:v 200k -g 15"},
		{"ffmpeg_h264", "H264", ffmpegs, "-c:v libx264 -profile:v baseline -preset veryfast -tune zerolatency -b:v 200k -g 15 -bsf:v dump_extra=freq=keyframe"},
	} {
		args := ff(c.options)
		if c.program == gstreamer {
			args = gst(c.options)
		}
		captureProgram(t, newCapture(c.codec, c.program, c.options), c.name, args)
	}
}

func captureProgram(t *testing.T, c *capture, name string, args []string) {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	defer socket.Close()
	_, port, _ := net.SplitHostPort(socket.LocalAddr().String())
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		buffer := make([]byte, 2000)
		for {
			n, _, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			c.add(bytes.Clone(buffer[:n]))
		}
	}()
	if out, err := exec.CommandContext(ctx, tool(t, args[0]), args[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", name, err, out)
		return
	}
	select {
	case <-c.whole:
	case <-time.After(time.Second):
		t.Logf("%s ended after %d frames", name, len(c.stamps))
	}
	c.save(t, name)
}
