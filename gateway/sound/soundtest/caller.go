// Package soundtest is a caller for tests: a Pion peer with a microphone that speaks what it is told, and an ear that keeps what it hears; it sends no video and judges nothing.
package soundtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"

	"sightline/gateway/sound"
	"sightline/switcher"
)

// Rate of what a Caller hears, in Hz.
const Rate = 16000

// Caller is one call with sound both ways.
type Caller struct {
	t      *testing.T
	pc     *webrtc.PeerConnection
	voice  *sound.Egress
	ctx    context.Context // of the call; a test's object
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	where  string // the WHIP session's URL

	mu      sync.Mutex
	turns   int
	heard   []int16
	began   time.Time // of heard
	packets []Packet
	grown   chan struct{} // capacity 1
}

// Packet is one packet that the caller received.
type Packet struct {
	At        time.Time
	Seq       uint16
	Timestamp uint32
	SSRC      uint32
	Marker    bool
}

// Call publishes to the session of the gateway at url by WHIP, and waits for the connection. It hangs up when the test ends.
func Call(t *testing.T, url, session string) *Caller {
	t.Helper()
	return CallWithVideo(t, url, session, nil)
}

// CallWithVideo is Call with a camera that shows these VP8 frames again and again, 10 a second; the first is a key frame.
func CallWithVideo(t *testing.T, url, session string, frames [][]byte) *Caller {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &Caller{t: t, ctx: ctx, cancel: cancel, grown: make(chan struct{}, 1)}
	var s webrtc.SettingEngine
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	c.pc = pc
	t.Cleanup(c.Hangup)
	mic, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus, ClockRate: 48000, Channels: 2}, "microphone", "caller")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := pc.AddTransceiverFromTrack(mic, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendrecv})
	if err != nil {
		t.Fatal(err)
	}
	if c.voice, err = sound.NewEgress(sound.EgressConfig{}); err != nil {
		t.Fatal(err)
	}
	c.tasks.Go(func() { _ = c.voice.Run(ctx) })
	c.tasks.Go(func() { drain(ctx, c.voice.Heard()) })
	c.tasks.Go(func() { readRTCP(tr.Sender()) })
	camera := c.addCamera(frames)
	pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) { c.listen(track) })
	connected := make(chan struct{})
	var once sync.Once
	pc.OnConnectionStateChange(func(state webrtc.PeerConnectionState) {
		if state == webrtc.PeerConnectionStateConnected {
			once.Do(func() { close(connected) })
		}
	})
	c.negotiate(url + "/whip/" + session)
	select {
	case <-connected:
	case <-time.After(15 * time.Second):
		t.Fatal("the call was not connected in 15 s")
	}
	c.voice.SetWriter(mic.WriteRTP)
	if camera != nil {
		c.tasks.Go(func() { c.film(camera, frames) })
	}
	return c
}

func (c *Caller) addCamera(frames [][]byte) *webrtc.TrackLocalStaticSample {
	if len(frames) == 0 {
		return nil
	}
	camera, err := webrtc.NewTrackLocalStaticSample(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "camera", "caller")
	if err != nil {
		c.t.Fatal(err)
	}
	sender, err := c.pc.AddTrack(camera)
	if err != nil {
		c.t.Fatal(err)
	}
	c.tasks.Go(func() { readRTCP(sender) })
	return camera
}

// film sends the frames in a loop; a request for a key frame is answered by the loop's beginning.
func (c *Caller) film(camera *webrtc.TrackLocalStaticSample, frames [][]byte) {
	const pace = 100 * time.Millisecond
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for i := 0; ; i++ {
		if camera.WriteSample(media.Sample{Data: frames[i%len(frames)], Duration: pace}) != nil {
			return
		}
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func drain(ctx context.Context, heard <-chan switcher.HeardTurn) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
		}
	}
}

func readRTCP(s *webrtc.RTPSender) {
	b := make([]byte, 1500)
	for {
		if _, _, err := s.Read(b); err != nil {
			return
		}
	}
}

func (c *Caller) negotiate(endpoint string) {
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
	res, err := http.Post(endpoint, "application/sdp", strings.NewReader(c.pc.LocalDescription().SDP))
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusCreated {
		c.t.Fatalf("WHIP: %d %s %v", res.StatusCode, answer, err)
	}
	c.where = res.Header.Get("Location")
	if err := c.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: string(answer)}); err != nil {
		c.t.Fatal(err)
	}
}

// listen decodes what comes, at the pace of the clock.
func (c *Caller) listen(track *webrtc.TrackRemote) {
	ear, err := sound.NewIngress(sound.IngressConfig{PayloadType: uint8(track.PayloadType()), Rates: []int{Rate}, Frame: c.hear})
	if err != nil {
		c.t.Error(err)
		return
	}
	c.tasks.Go(func() { _ = ear.Run(c.ctx) })
	c.tasks.Go(func() {
		for {
			packet, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			now := time.Now()
			c.mu.Lock()
			c.packets = append(c.packets, Packet{now, packet.SequenceNumber, packet.Timestamp, packet.SSRC, packet.Marker})
			c.mu.Unlock()
			ear.Push(&rtp.Packet{Header: packet.Header, Payload: packet.Payload}, now)
		}
	})
}

func (c *Caller) hear(_ int, pcm []int16, at time.Time) {
	c.mu.Lock()
	if c.began.IsZero() {
		c.began = at
	}
	c.heard = append(c.heard, pcm...)
	c.mu.Unlock()
	select {
	case c.grown <- struct{}{}:
	default:
	}
}

// Say speaks PCM16 mono of a rate in Hz, behind what it is speaking; it does not wait for its end. pcm is at most 30 s.
func (c *Caller) Say(rate int, pcm []int16) {
	c.t.Helper()
	c.mu.Lock()
	c.turns++
	id := switcher.TurnID{Epoch: 1, Item: fmt.Sprint("said-", c.turns)}
	c.mu.Unlock()
	if err := c.voice.Play(c.ctx, id, rate, pcm); err != nil {
		c.t.Fatal(err)
	}
	c.voice.EndTurn(id)
}

// Heard is all that was heard so far at Rate, silence included, and when it began. Before the first packet it is empty.
func (c *Caller) Heard() (pcm []int16, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int16(nil), c.heard...), c.began
}

// Packets are those that were received so far.
func (c *Caller) Packets() []Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Packet(nil), c.packets...)
}

// Loud is how much of what was heard after from is louder than a whisper, in pieces of 20 ms.
func (c *Caller) Loud(from time.Time) time.Duration {
	pcm, began := c.Heard()
	const piece = Rate / 50
	var loud time.Duration
	for i := 0; i+piece <= len(pcm); i += piece {
		if began.Add(time.Duration(i)*time.Second/Rate).After(from) && loudness(pcm[i:i+piece]) > 200 {
			loud += 20 * time.Millisecond
		}
	}
	return loud
}

func loudness(pcm []int16) (mean int) {
	for _, v := range pcm {
		mean += max(int(v), -int(v))
	}
	return mean / len(pcm)
}

// WaitHeard waits until ok says so of what was heard so far; it fails the test after the timeout.
func (c *Caller) WaitHeard(timeout time.Duration, what string, ok func() bool) {
	c.t.Helper()
	end := time.After(timeout)
	for !ok() {
		select {
		case <-c.grown:
		case <-end:
			c.t.Fatalf("the caller has not heard %s within %s", what, timeout)
		}
	}
}

// Hangup ends the call; a second time it does nothing.
func (c *Caller) Hangup() {
	c.cancel()
	if c.where != "" {
		if req, err := http.NewRequest(http.MethodDelete, c.where, nil); err == nil {
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
		}
		c.where = ""
	}
	_ = c.pc.Close()
	c.tasks.Wait()
}

// Vanish ends the call as a crash does: nothing is said to the gateway.
func (c *Caller) Vanish() {
	c.where = ""
	c.Hangup()
}
