package sound

import (
	"context"
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"sightline/gateway/rtc"
	"sightline/switcher"
)

// hearer is a real Pion client whose offer has audio both ways; it keeps what it hears.
type hearer struct {
	t  *testing.T
	pc *webrtc.PeerConnection

	mu      sync.Mutex
	packets []sent
}

func newHearer(t *testing.T) *hearer {
	t.Helper()
	var s webrtc.SettingEngine
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() && ip.To4() != nil })
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	h := &hearer{t: t, pc: pc}
	t.Cleanup(func() { _ = pc.GracefulClose() })
	microphone, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeOpus}, "microphone", "stream")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pc.AddTransceiverFromTrack(microphone, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendrecv}); err != nil {
		t.Fatal(err)
	}
	pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		for {
			p, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			h.mu.Lock()
			h.packets = append(h.packets, sent{*p, time.Now()})
			h.mu.Unlock()
		}
	})
	return h
}

// connect lets the client publish to the engine and waits until its peer is connected.
func (h *hearer) connect(e *rtc.Engine) *rtc.Peer {
	h.t.Helper()
	offer, err := h.pc.CreateOffer(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(h.pc)
	if err := h.pc.SetLocalDescription(offer); err != nil {
		h.t.Fatal(err)
	}
	<-gathered
	peer, answer, err := e.Accept(h.t.Context(), h.pc.LocalDescription().SDP, rtc.Handlers{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(peer.Close)
	if err := h.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		h.t.Fatal(err)
	}
	within(h.t, "connected", func() bool { return peer.Stats().State == rtc.StateConnected })
	return peer
}

func (h *hearer) heard() []sent {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]sent(nil), h.packets...)
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * ms) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// words are the first four seconds of the recording, at 16 kHz.
func words(t *testing.T) []int16 {
	t.Helper()
	const header = 44
	b, err := os.ReadFile("testdata/speech/jfk.wav")
	if err != nil {
		t.Fatal(err)
	}
	pcm := make([]int16, 4*16000)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(b[header+2*i:]))
	}
	return pcm
}

// sameWords is the highest correlation of the loudness of want (16 kHz) with that of got (48 kHz), in pieces of 10 ms,
// over shifts of up to 60 ms. Opus keeps the spectrum and not the wave: loudness is what stays.
func sameWords(want, got []int16) float64 {
	a, b := loudnesses(want, 160), loudnesses(got, 480)
	best := 0.0
	for shift := 0; shift <= 6; shift++ {
		var n, sa, sb, saa, sbb, sab float64
		for i := 0; i < len(a) && i+shift < len(b); i++ {
			x, y := a[i], b[i+shift]
			n, sa, sb, saa, sbb, sab = n+1, sa+x, sb+y, saa+x*x, sbb+y*y, sab+x*y
		}
		best = max(best, (n*sab-sa*sb)/math.Sqrt((n*saa-sa*sa)*(n*sbb-sb*sb)))
	}
	return best
}

func loudnesses(pcm []int16, step int) []float64 {
	var e []float64
	for ; len(pcm) >= step; pcm = pcm[step:] {
		e = append(e, loudness(pcm[:step]))
	}
	return e
}

// closeUp takes the pauses out that a busy machine made.
func closeUp(packets []sent) []sent {
	for i := range packets {
		packets[i].Timestamp, packets[i].Marker = packets[0].Timestamp+uint32(i*slotTicks), i == 0
	}
	return packets
}

func TestARealPeerHearsSpeechAndItsEnd(t *testing.T) {
	engine, err := rtc.New(rtc.Config{
		AllowLoopback: true, AllowPrivate: true, TCPPort: -1,
		KeepAddress: func(_ string, a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.1") },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	e, err := NewEgress(EgressConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	// What is said before anybody listens waits.
	speech := words(t)
	said := turnOf(1, "said")
	if err := e.Play(ctx, said, 16000, speech); err != nil {
		t.Fatal(err)
	}
	e.EndTurn(said)

	client := newHearer(t)
	write, ok := client.connect(engine).Speaker()
	if !ok {
		t.Fatal("no speaker")
	}
	e.SetWriter(func(p *rtp.Packet) error { return write(p) })
	var end switcher.HeardTurn
	for !end.Done {
		end = <-e.Heard()
	}
	if length := time.Duration(len(speech)) * time.Second / 16000; (end.Played - length).Abs() > ms {
		t.Errorf("heard %v of %v", end.Played, length)
	}
	count := len(speech)/320 + 1 // one that empties the encoder
	within(t, "all packets", func() bool { return len(client.heard()) == count })
	if l := sameWords(speech, listen(t, closeUp(client.heard()))); l < 0.97 {
		t.Errorf("the speech arrives with a likeness of %.3f", l)
	} else {
		t.Logf("the speech arrives with a likeness of %.4f", l)
	}

	// Barge-in.
	before := len(client.heard())
	if err := e.Play(ctx, turnOf(1, "cut"), 24000, tone(800, 24000, 10*time.Second)); err != nil {
		t.Fatal(err)
	}
	within(t, "half a second of the next turn", func() bool { return len(client.heard()) >= before+25 })
	heard := e.Stop()
	stopped := time.Now()
	if err := e.Play(ctx, turnOf(1, "cut"), 24000, tone(800, 24000, time.Second)); err != nil {
		t.Fatal(err)
	}
	sentThen := int(heard[0].Played / slotLength)
	within(t, "the fade", func() bool { return len(client.heard()) >= before+sentThen+1 })
	// A turn of another kind shows that nothing else came in between.
	if err := e.Play(ctx, turnOf(1, "after"), 24000, tone(1500, 24000, 400*ms)); err != nil {
		t.Fatal(err)
	}
	e.EndTurn(turnOf(1, "after"))
	within(t, "the turn behind it", func() bool { return len(client.heard()) >= before+sentThen+1+20 })
	cut := client.heard()[before:]
	if d := cut[sentThen].at.Sub(stopped); d > 60*ms {
		t.Errorf("the last packet of a stopped turn came %v after Stop", d)
	} else {
		t.Logf("the fade arrived %v after Stop", d)
	}
	if line := listen(t, closeUp(cut[sentThen+1:][:20])); strength(800, line) > 100 || strength(1500, at(line, 20, 400)) < 9000 {
		t.Errorf("after the fade %.0f of the stopped turn, %.0f of the next", strength(800, line), strength(1500, at(line, 20, 400)))
	}
	if st := e.Stats(); st.LateSound != 1 || st.LateTime != time.Second || st.Underruns != 0 {
		t.Errorf("%+v", st)
	}
}
