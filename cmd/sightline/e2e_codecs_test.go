package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/logging"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"

	"sightline/frames/ivf"
	"sightline/gateway/wire"
)

// film is the face clip in one codec, and what ffmpeg's decoder makes of it.
type film struct {
	codec  string // "H264", "VP9", "AV1", "VP8"
	fmtp   string // of the offer
	frames [][]byte
	luma   [][]byte // full-range brightness of each frame, 640×480
}

const (
	filmFrames             = 45
	filmWidth, filmHeight  = 640, 480
	filmTicks              = 3000 // of the RTP clock, a frame
	offeredAsBaseline      = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f"
	offeredAsHigh          = "packetization-mode=1;profile-level-id=64001f"
	leastPSNR              = 42 // dB
	filmedWithVP9, withAV1 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -lag-in-frames 0 -b:v 1500k", "-c:v libaom-av1 -usage realtime -cpu-used 8 -lag-in-frames 0 -b:v 1000k"
)

// shoot encodes the face clip by ffmpeg, key frames 15 apart.
func shoot(t *testing.T, codec, fmtp, encoder string) *film {
	t.Helper()
	name := filepath.Join(t.TempDir(), "film.ivf")
	if codec == "H264" {
		name = strings.TrimSuffix(name, "ivf") + "h264"
		encoder += " -bsf:v h264_metadata=aud=insert" // where to cut
	}
	args := append([]string{"-i", faceClip, "-frames:v", fmt.Sprint(filmFrames), "-g", "15"}, strings.Fields(encoder)...)
	ffmpeg(t, append(args, name)...)
	f := &film{codec: codec, fmtp: fmtp, luma: lumaOf(t, name)}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if codec == "H264" {
		for _, unit := range bytes.Split(data, []byte{0, 0, 0, 1, 9})[1:] {
			f.frames = append(f.frames, append([]byte{0, 0, 0, 1, 9}, unit...))
		}
	} else {
		_, all, err := ivf.ReadAll(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for _, frame := range all {
			f.frames = append(f.frames, frame.Data)
		}
	}
	if len(f.frames) != filmFrames || len(f.luma) != filmFrames {
		t.Fatalf("%s: %d frames, of which ffmpeg decodes %d; want %d", codec, len(f.frames), len(f.luma), filmFrames)
	}
	return f
}

// lumaOf is ffmpeg's decode of a clip.
func lumaOf(t *testing.T, clip string) (all [][]byte) {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "luma.gray")
	ffmpeg(t, "-i", clip, "-vf", "scale=in_range=tv:out_range=pc", "-pix_fmt", "gray", "-f", "rawvideo", raw)
	data, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	for ; len(data) >= filmWidth*filmHeight; data = data[filmWidth*filmHeight:] {
		all = append(all, data[:filmWidth*filmHeight])
	}
	return all
}

// lumaPSNR compares the brightness of a PNG with that of a frame, dB.
func lumaPSNR(t *testing.T, data, truth []byte) float64 {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != filmWidth || b.Dy() != filmHeight {
		t.Fatalf("image of %v, want %d×%d", b, filmWidth, filmHeight)
	}
	flat := image.NewRGBA(img.Bounds())
	draw.Draw(flat, flat.Rect, img, image.Point{}, draw.Src)
	sum := 0.0
	for i, want := range truth {
		rgb := flat.Pix[4*i : 4*i+3 : 4*i+3]
		d := 0.299*float64(rgb[0]) + 0.587*float64(rgb[1]) + 0.114*float64(rgb[2]) - float64(want)
		sum += d * d
	}
	return 10 * math.Log10(255*255*filmWidth*filmHeight/max(sum, 1e-9))
}

// projector publishes packets of one codec by WHIP from a Pion peer of its own.
type projector struct {
	t     *testing.T
	track *webrtc.TrackLocalStaticRTP
	pc    *webrtc.PeerConnection

	mu   sync.Mutex
	sent map[uint32]int // frame by timestamp
}

// project connects a peer that offers one codec in one form.
func (s *served) project(session, codec, fmtp string) *projector {
	s.t.Helper()
	must := func(err error) {
		if err != nil {
			s.t.Helper()
			s.t.Fatal(err)
		}
	}
	c := webrtc.RTPCodecCapability{MimeType: "video/" + codec, ClockRate: 90000, SDPFmtpLine: fmtp, RTCPFeedback: []webrtc.RTCPFeedback{{Type: "nack"}, {Type: "nack", Parameter: "pli"}}}
	media := &webrtc.MediaEngine{}
	must(media.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: c, PayloadType: 106}, webrtc.RTPCodecTypeVideo))
	var settings webrtc.SettingEngine
	settings.LoggerFactory = &logging.DefaultLoggerFactory{DefaultLogLevel: logging.LogLevelDisabled}
	settings.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	settings.SetIncludeLoopbackCandidate(true)
	settings.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	pc, err := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithSettingEngine(settings)).NewPeerConnection(webrtc.Configuration{})
	must(err)
	p := &projector{t: s.t, pc: pc, sent: map[uint32]int{}}
	s.t.Cleanup(func() { _ = pc.GracefulClose() })
	p.track, err = webrtc.NewTrackLocalStaticRTP(c, "camera", "sightline")
	must(err)
	transceiver, err := pc.AddTransceiverFromTrack(p.track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
	must(err)
	connected := make(chan struct{})
	pc.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		if state == webrtc.PeerConnectionStateConnected {
			close(connected)
		}
	})
	offer, err := pc.CreateOffer(nil)
	must(err)
	gathered := webrtc.GatheringCompletePromise(pc)
	must(pc.SetLocalDescription(offer))
	<-gathered
	status, _, body := s.call("POST", "/whip/"+session, "application/sdp", pc.LocalDescription().SDP)
	if status != http.StatusCreated {
		s.t.Fatalf("publishing %s: %d %s", codec, status, body)
	}
	must(pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: string(body)}))
	select {
	case <-connected:
	case <-time.After(20 * time.Second):
		s.t.Fatalf("%s: not connected after 20 s", codec)
	}
	go func() {
		for {
			if _, _, err := transceiver.Sender().ReadRTCP(); err != nil {
				return
			}
		}
	}()
	return p
}

// show plays the film in a loop, 30 frames a second, until the test ends; nobody who asks for a key frame gets one before its turn.
func (p *projector) show(f *film) {
	payloader, err := func() (rtp.Payloader, error) {
		switch f.codec {
		case "H264":
			return &codecs.H264Payloader{}, nil
		case "VP9":
			return &codecs.VP9Payloader{FlexibleMode: true}, nil
		case "AV1":
			return &codecs.AV1Payloader{}, nil
		}
		return nil, fmt.Errorf("no payloader of %q", f.codec)
	}()
	if err != nil {
		p.t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	p.t.Cleanup(func() { close(stop); <-done })
	go func() {
		defer close(done)
		beat := time.NewTicker(time.Second / 30)
		defer beat.Stop()
		sequence, timestamp := uint16(65000), uint32(1<<32-20*filmTicks)
		for n := 0; ; n = (n + 1) % len(f.frames) {
			select {
			case <-beat.C:
			case <-stop:
				return
			}
			p.mu.Lock()
			p.sent[timestamp] = n
			p.mu.Unlock()
			payloads := payloader.Payload(1188, f.frames[n])
			for i, payload := range payloads {
				packet := &rtp.Packet{Payload: payload, Header: rtp.Header{Version: 2, SequenceNumber: sequence, Timestamp: timestamp, Marker: i == len(payloads)-1}}
				sequence++
				if p.track.WriteRTP(packet) != nil {
					return // closed
				}
			}
			timestamp += filmTicks
		}
	}()
}

// relay sends on what another program packetizes; frames are numbered by its timestamps from first on. It ends with the socket.
func (p *projector) relay(socket net.PacketConn) {
	done := make(chan struct{})
	p.t.Cleanup(func() { _ = socket.Close(); <-done })
	go func() {
		defer close(done)
		buffer := make([]byte, 2000)
		first, begun := uint32(0), false
		for {
			n, _, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			packet := &rtp.Packet{}
			if packet.Unmarshal(bytes.Clone(buffer[:n])) != nil {
				continue // RTCP
			}
			if !begun {
				first, begun = packet.Timestamp, true
			}
			p.mu.Lock()
			p.sent[packet.Timestamp] = int((packet.Timestamp - first + filmTicks/2) / filmTicks)
			p.mu.Unlock()
			if p.track.WriteRTP(packet) != nil {
				return
			}
		}
	}()
}

// judge asks for images and holds each against the frame that was sent under its timestamp.
func (p *projector) judge(s *served, session string, luma [][]byte, images int) {
	p.t.Helper()
	agent := s.attach(session, "judge", 0)
	await(p.t, 10*time.Second, "the agent attaches", func() (bool, string) { return agent.Connected(), "not yet" })
	await(p.t, 20*time.Second, "video arrives", func() (bool, string) { return len(s.session(session).Sources) > 0, "none" })
	wait, age := 10000, 0
	worst := math.Inf(1)
	for range images {
		ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
		img, err := agent.RequestImage(ctx, wire.ImageRequest{
			MaxAgeMS: &age, WaitMS: &wait, Encode: wire.Encode{Width: filmWidth, Height: filmHeight, Format: "png"},
		})
		cancel()
		if err != nil {
			p.t.Fatalf("image: %v; %+v", err, s.session(session))
		}
		p.mu.Lock()
		n, ok := p.sent[img.RTPTimestamp]
		p.mu.Unlock()
		if !ok {
			p.t.Fatalf("image of timestamp %d, under which nothing was sent", img.RTPTimestamp)
		}
		db := lumaPSNR(p.t, img.Data, luma[n%len(luma)])
		if worst = min(worst, db); db < leastPSNR {
			p.t.Errorf("image of frame %d has %.1f dB against ffmpeg's decode, want at least %d", n, db, leastPSNR)
		}
	}
	p.t.Logf("%d images, %.1f dB at least", images, worst)
}

// TestE2EEveryCodec: a film in each codec and profile, published over WHIP by a peer that offers nothing else. Images are of the very frame
// that was sent under their timestamp, as ffmpeg decodes it.
func TestE2EEveryCodec(t *testing.T) {
	for _, c := range []struct{ name, codec, fmtp, encoder string }{
		{"h264-baseline", "H264", offeredAsBaseline, "-c:v libx264 -profile:v baseline -preset veryfast -tune zerolatency -b:v 1500k"},
		{"h264-main-slices", "H264", "packetization-mode=1;profile-level-id=4d001f", "-c:v libx264 -profile:v main -preset veryfast -tune zerolatency -slices 4 -b:v 1500k"},
		{"h264-high", "H264", offeredAsHigh, "-c:v libx264 -profile:v high -preset veryfast -bf 0 -b:v 1500k"},
		{"vp9", "VP9", "profile-id=0", filmedWithVP9},
		{"av1", "AV1", "profile=0", withAV1},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := shoot(t, c.codec, c.fmtp, c.encoder)
			s := serve(t)
			p := s.project(c.name, c.codec, c.fmtp)
			p.show(f)
			p.judge(s, c.name, f.luma, 5)
			state := s.session(c.name).Sources[0]
			if state.Codec != c.codec || state.Width != filmWidth || state.Height != filmHeight || state.State != "live" || state.Lost > 0 {
				t.Errorf("source %+v", state)
			}
		})
	}
}

// TestE2EForeignPacketizers: RTP as FFmpeg and GStreamer cut it.
func TestE2EForeignPacketizers(t *testing.T) {
	film := shoot(t, "H264", offeredAsBaseline, "-c:v libx264 -profile:v baseline -preset veryfast -tune zerolatency -b:v 1500k")
	folder := t.TempDir()
	h264, vp9 := filepath.Join(folder, "film.h264"), filepath.Join(folder, "film.ivf")
	ffmpeg(t, append(append([]string{"-i", faceClip, "-frames:v", fmt.Sprint(filmFrames), "-g", "15"}, strings.Fields(filmedWithVP9)...), vp9)...)
	vp9Luma := lumaOf(t, vp9)
	// Each film twenty times over, with times that both programs pace by. ffmpeg's -stream_loop does not rewind a raw stream.
	if err := os.WriteFile(h264, bytes.Repeat(bytes.Join(film.frames, nil), 20), 0o600); err != nil {
		t.Fatal(err)
	}
	ffmpeg(t, "-framerate", "30", "-i", h264, "-c", "copy", "-bsf:v", "setts=pts=N*1000/30:dts=N*1000/30:time_base=1/1000", filepath.Join(folder, "h264.mkv"))
	ffmpeg(t, "-stream_loop", "19", "-i", vp9, "-c", "copy", filepath.Join(folder, "vp9.mkv"))
	ffmpegRTP := func(name string) []string {
		return []string{"ffmpeg", "-nostdin", "-v", "error", "-re", "-i", filepath.Join(folder, name), "-c", "copy", "-strict", "experimental", "-f", "rtp", "rtp://127.0.0.1:PORT?pkt_size=1200"}
	}
	gstRTP := func(name string, pay ...string) []string {
		pipeline := append([]string{"gst-launch-1.0", "-q", "filesrc", "location=" + filepath.Join(folder, name), "!", "matroskademux", "!"}, pay...)
		return append(pipeline, "mtu=1200", "!", "udpsink", "host=127.0.0.1", "port=PORT")
	}
	for _, c := range []struct {
		name, codec, fmtp string
		luma              [][]byte
		command           []string
	}{
		{"ffmpeg-h264", "H264", offeredAsBaseline, film.luma, ffmpegRTP("h264.mkv")},
		{"ffmpeg-vp9", "VP9", "profile-id=0", vp9Luma, ffmpegRTP("vp9.mkv")},
		{"gstreamer-h264", "H264", offeredAsBaseline, film.luma, gstRTP("h264.mkv", "h264parse", "!", "rtph264pay", "config-interval=-1", "aggregate-mode=zero-latency")},
		{"gstreamer-vp9", "VP9", "profile-id=0", vp9Luma, gstRTP("vp9.mkv", "rtpvp9pay", "picture-id-mode=15-bit")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			p := s.project(c.name, c.codec, c.fmtp)
			socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			_, port, _ := net.SplitHostPort(socket.LocalAddr().String())
			p.relay(socket)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for i := range c.command {
				c.command[i] = strings.ReplaceAll(c.command[i], "PORT", port)
			}
			program := exec.CommandContext(ctx, tool(t, c.command[0]), c.command[1:]...)
			var said bytes.Buffer
			program.Stderr = &said
			agent := s.attach(c.name, "early", 30) // so that the first frames are decoded
			await(t, 10*time.Second, "the agent attaches", func() (bool, string) { return agent.Connected(), "not yet" })
			if err := program.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				cancel()
				if err := program.Wait(); err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v: %s", c.command[0], err, said.String())
				}
			}()
			p.judge(s, c.name, c.luma, 3)
		})
	}
}
