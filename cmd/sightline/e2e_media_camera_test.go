package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/interceptor"
	"github.com/pion/logging"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"

	"sightline/frames/ivf"
	"sightline/internal/faultnet"
)

// footage is encoded VP8, any bytes: whipclient's clips must be sound, these need not be.
type footage struct {
	name   string
	frames [][]byte
}

func readFootage(t *testing.T, name string) *footage {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, frames, err := ivf.ReadAll(f)
	if err != nil || len(frames) == 0 {
		t.Fatalf("%s: %d frames, %v", name, len(frames), err)
	}
	c := &footage{name: name}
	for _, frame := range frames {
		c.frames = append(c.frames, frame.Data)
	}
	return c
}

// isKey: RFC 6386 §9.1, the lowest bit of the first byte is 0.
func isKey(frame []byte) bool { return len(frame) > 0 && frame[0]&1 == 0 }

// nextKey is the first key frame at or after index i, going round.
func (c *footage) nextKey(i int) int {
	for k := range c.frames {
		if j := (i + k) % len(c.frames); isKey(c.frames[j]) {
			return j
		}
	}
	return 0
}

// camera publishes footage by WHIP from a Pion peer of its own; it knows which frame it sent under which timestamp, and its
// network and its life can be spoilt. whipclient is the well-behaved one of load tests.
type camera struct {
	t        *testing.T
	network  *badNetwork
	pc       *webrtc.PeerConnection
	track    *webrtc.TrackLocalStaticRTP
	location string // session URL
	fps      float64

	stopping chan struct{}
	running  sync.WaitGroup
	once     sync.Once

	mu     sync.Mutex
	reel   *footage
	next   int      // of reel
	after  *footage // played in a loop once reel was shown; nil: reel itself is the loop
	silent bool
	deaf   bool // to requests for key frames
	wanted bool // a key frame
	sent   map[uint32]sentFrame
	plis   int
}

// sentFrame is what was sent under one RTP timestamp.
type sentFrame struct {
	reel  *footage
	index int
	last  time.Time // just before the last packet was written
}

// cameraOptions: zero fields mean the defaults.
type cameraOptions struct {
	fps       float64 // 30
	seed      uint64
	noRepairs bool          // lost packets stay lost: a sender that answers no NACK
	patience  time.Duration // how long to try again while somebody else publishes there
	ignorePLI bool
	relay     *faultnet.Relay // the only way to the gateway; nil: the direct one
}

// publish connects a camera that shows footage in a loop; it leaves when the test ends.
func (s *served) publish(session string, reel *footage, o cameraOptions) *camera {
	s.t.Helper()
	c := &camera{t: s.t, fps: o.fps, reel: reel, deaf: o.ignorePLI, stopping: make(chan struct{}), sent: map[uint32]sentFrame{}}
	if c.fps == 0 {
		c.fps = 30
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		s.t.Fatal(err)
	}
	c.network = newBadNetwork(socket, o.seed)
	quiet := &logging.DefaultLoggerFactory{DefaultLogLevel: logging.LogLevelDisabled}
	mux := webrtc.NewICEUDPMux(quiet.NewLogger("ice"), c.network)
	s.t.Cleanup(func() {
		c.leave()
		_ = mux.Close()
		_ = socket.Close()
	})
	sender := c.connect(mux, quiet, o.noRepairs)
	connected, failed := make(chan struct{}), make(chan struct{})
	c.pc.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		switch state {
		case webrtc.PeerConnectionStateConnected:
			select {
			case <-connected:
			default:
				close(connected)
			}
		case webrtc.PeerConnectionStateFailed:
			close(failed)
		}
	})
	c.running.Go(func() { c.readFeedback(sender) })
	c.signal(s, session, o)
	select {
	case <-connected:
	case <-failed:
		s.t.Fatalf("the camera of session %s found no way to the gateway", session)
	case <-time.After(20 * time.Second):
		s.t.Fatalf("the camera of session %s is not connected after 20 s", session)
	}
	c.running.Go(c.run)
	return c
}

func (c *camera) connect(mux ice.UDPMux, quiet logging.LoggerFactory, noRepairs bool) *webrtc.RTPSender {
	c.t.Helper()
	vp8 := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8, ClockRate: 90000, RTCPFeedback: []webrtc.RTCPFeedback{
		{Type: "goog-remb"}, {Type: "ccm", Parameter: "fir"}, {Type: "nack"}, {Type: "nack", Parameter: "pli"}}}
	media, registry := &webrtc.MediaEngine{}, &interceptor.Registry{}
	must := func(err error) {
		if err != nil {
			c.t.Helper()
			c.t.Fatal(err)
		}
	}
	must(media.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: vp8, PayloadType: 96}, webrtc.RTPCodecTypeVideo))
	if !noRepairs {
		rtx := webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeRTX, ClockRate: 90000, SDPFmtpLine: "apt=96"}
		must(media.RegisterCodec(webrtc.RTPCodecParameters{RTPCodecCapability: rtx, PayloadType: 97}, webrtc.RTPCodecTypeVideo))
		must(webrtc.ConfigureNack(media, registry))
	}
	must(webrtc.ConfigureRTCPReports(registry))
	var settings webrtc.SettingEngine
	settings.LoggerFactory = quiet
	settings.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	settings.SetICEUDPMux(mux)
	settings.SetIncludeLoopbackCandidate(true)
	pc, err := webrtc.NewAPI(webrtc.WithMediaEngine(media), webrtc.WithInterceptorRegistry(registry), webrtc.WithSettingEngine(settings)).
		NewPeerConnection(webrtc.Configuration{})
	must(err)
	c.pc = pc
	c.track, err = webrtc.NewTrackLocalStaticRTP(vp8, "camera", "sightline")
	must(err)
	transceiver, err := pc.AddTransceiverFromTrack(c.track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly})
	must(err)
	return transceiver.Sender()
}

// signal is the WHIP exchange, with every candidate in the offer.
func (c *camera) signal(s *served, session string, o cameraOptions) {
	c.t.Helper()
	offer, err := c.pc.CreateOffer(nil)
	if err != nil {
		c.t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(c.pc)
	if err := c.pc.SetLocalDescription(offer); err != nil {
		c.t.Fatal(err)
	}
	<-gathered
	sdp := c.pc.LocalDescription().SDP
	if o.relay != nil {
		sdp = faultnet.Offer(sdp)
	}
	post := func() (int, http.Header, []byte) { return s.call("POST", "/whip/"+session, "application/sdp", sdp) }
	status, header, body := post()
	for begun := time.Now(); status == http.StatusConflict && time.Since(begun) < o.patience; status, header, body = post() {
		if problem := decodeAs[struct{ Code string }](c.t, body); problem.Code != "already_publishing" {
			c.t.Fatalf("publishing to %s: %d %s", session, status, body)
		}
		<-time.After(100 * time.Millisecond)
	}
	if status != http.StatusCreated {
		c.t.Fatalf("publishing to %s: %d %s", session, status, body)
	}
	c.location = header.Get("Location")
	answer := string(body)
	if o.relay != nil {
		answer, err = o.relay.Answer(answer, true)
		must(c.t, err)
	}
	if err := c.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		c.t.Fatalf("the answer for %s: %v", session, err)
	}
}

func (c *camera) readFeedback(sender *webrtc.RTPSender) {
	for {
		packets, _, err := sender.ReadRTCP()
		if err != nil {
			return
		}
		for _, packet := range packets {
			switch packet.(type) {
			case *rtcp.PictureLossIndication, *rtcp.FullIntraRequest:
				c.mu.Lock()
				c.plis++
				c.wanted = !c.deaf
				c.mu.Unlock()
			}
		}
	}
}

// run sends a frame at each beat, as an encoder does whatever the network is like.
func (c *camera) run() {
	beat := time.NewTicker(time.Duration(float64(time.Second) / c.fps))
	defer beat.Stop()
	payloader := &codecs.VP8Payloader{EnablePictureID: true}
	base, sequence, lastKey := rand.Uint32(), uint16(rand.Uint32()), time.Time{}
	begun := time.Now()
	for {
		select {
		case <-beat.C:
		case <-c.stopping:
			return
		}
		now := time.Now()
		reel, index, ok := c.choose(now, lastKey)
		if !ok {
			continue
		}
		data := reel.frames[index]
		if isKey(data) {
			lastKey = now
		}
		payloads := payloader.Payload(1188, data)
		if len(data) == 0 {
			payloads = [][]byte{{0x10}} // RFC 7741 §4.2: a descriptor that starts a frame, and nothing behind it
		}
		timestamp := base + uint32(now.Sub(begun).Seconds()*90000)
		for i, payload := range payloads {
			if i > 0 && i%10 == 0 {
				time.Sleep(time.Millisecond) // as a pacer does
			}
			packet := &rtp.Packet{Payload: payload, Header: rtp.Header{Version: 2, SequenceNumber: sequence, Timestamp: timestamp, Marker: i == len(payloads)-1}}
			sequence++
			if packet.Marker {
				c.mu.Lock()
				c.sent[timestamp] = sentFrame{reel, index, time.Now()}
				c.mu.Unlock()
			}
			if c.track.WriteRTP(packet) != nil {
				return // closed
			}
		}
	}
}

// choose is the next frame, or the next key frame when one was asked for and the last one is not just out.
func (c *camera) choose(now, lastKey time.Time) (*footage, int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent {
		return nil, 0, false
	}
	if c.next >= len(c.reel.frames) {
		if c.next = 0; c.after != nil {
			c.reel, c.after = c.after, nil
		}
	}
	if c.wanted && c.after == nil && now.Sub(lastKey) >= 300*time.Millisecond {
		c.wanted, c.next = false, c.reel.nextKey(c.next)
	}
	c.next++
	return c.reel, c.next - 1, true
}

// show plays other footage from its start on. With a loop behind it it is played once, whatever is asked for meanwhile.
func (c *camera) show(reel, loop *footage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reel, c.after, c.next = reel, loop, 0
}

// hush stops or resumes sending; the connection stays.
func (c *camera) hush(silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = silent
}

// frame tells what was sent under a timestamp.
func (c *camera) frame(timestamp uint32) (sentFrame, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.sent[timestamp]
	return f, ok
}

func (c *camera) keyFramesAskedFor() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plis
}

// vanish is what a dead battery does: nothing more is sent, not even a goodbye.
func (c *camera) vanish() {
	c.network.cut(true)
	_ = c.network.Close()
	c.location = ""
	c.leave()
}

// leave deletes the publication, as far as it can, and closes the peer.
func (c *camera) leave() {
	c.once.Do(func() {
		close(c.stopping)
		if c.location != "" {
			if request, err := http.NewRequest(http.MethodDelete, c.location, nil); err == nil {
				if answer, err := http.DefaultClient.Do(request); err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			}
		}
		if c.pc != nil {
			_ = c.pc.GracefulClose()
		}
		c.running.Wait()
	})
}

func (f sentFrame) String() string {
	return fmt.Sprintf("frame %d of %s", f.index, f.reel.name[strings.LastIndexByte(f.reel.name, '/')+1:])
}
