package whip_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"sightline/gateway/rtc"
	"sightline/gateway/whip"
)

const (
	mediaSDP      = "application/sdp"
	mediaFragment = "application/trickle-ice-sdpfrag"
	waitTime      = 30 * time.Second
)

// sessions joins the real WHIP handler to the real engine, as the gateway does.
type sessions struct {
	engine  *rtc.Engine
	packets atomic.Int64
	hold    chan struct{} // not nil: Publish waits for it, or for its context, after the engine has answered

	mu   sync.Mutex
	last *publication
}

type publication struct {
	*rtc.Peer
	id, answer string
}

func (p *publication) SessionID() string   { return p.id }
func (p *publication) Answer() string      { return p.answer }
func (p *publication) RemoteUfrag() string { ufrag, _ := p.ICE(); return ufrag }
func (p *publication) Close(string)        { p.Peer.Close() }

func (s *sessions) Publish(ctx context.Context, id, _, offer string) (whip.Publication, error) {
	peer, answer, err := s.engine.Accept(ctx, offer, rtc.Handlers{Track: func(t *rtc.InTrack) {
		go func() {
			for {
				if _, err := t.ReadRTP(); err != nil {
					return
				}
				s.packets.Add(1)
			}
		}()
	}})
	if err != nil {
		return nil, err
	}
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
		}
	}
	p := &publication{peer, id, answer}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = p
	return p, nil
}

type world struct {
	t       *testing.T
	s       *sessions
	handler *whip.Handler
	server  *httptest.Server
}

func newWorld(t *testing.T, strict bool) *world {
	t.Helper()
	engine, err := rtc.New(rtc.Config{
		AllowLoopback: true, TCPPort: -1,
		KeepAddress: func(_ string, a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.1") },
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, s: &sessions{engine: engine}}
	w.handler = whip.New(whip.Config{Sessions: w.s, Strict: strict})
	w.server = httptest.NewServer(w.handler)
	t.Cleanup(func() {
		w.server.Close()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// do sends a request and wants a status; it gives headers and body.
func (w *world) do(method, url, contentType, body, ifMatch string, status int) (http.Header, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if ifMatch != "" {
		r.Header.Set("If-Match", ifMatch)
	}
	resp, err := w.server.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != status {
		w.t.Fatalf("%s %s: status %d, want %d: %s", method, url, resp.StatusCode, status, answer)
	}
	return resp.Header, string(answer)
}

func (w *world) packetsFlow() {
	w.t.Helper()
	before := w.s.packets.Load()
	w.waitFor("packets", func() bool { return w.s.packets.Load() > before+20 })
}

func (w *world) waitFor(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(waitTime); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("waited %v in vain for: %s", waitTime, what)
		}
	}
}

func (w *world) gone() {
	w.t.Helper()
	w.waitFor("the publication gone", func() bool { return w.s.engine.Stats() == rtc.EngineStats{} && w.handler.Len() == 0 })
}

// client is a Pion publisher of one VP8 track.
type client struct {
	t      *testing.T
	pc     *webrtc.PeerConnection
	track  *webrtc.TrackLocalStaticRTP
	socket net.PacketConn
}

func newClient(t *testing.T) *client {
	t.Helper()
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var s webrtc.SettingEngine
	s.SetICEUDPMux(ice.NewUDPMuxDefault(ice.UDPMuxParams{UDPConn: socket}))
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetNetworkTypes([]webrtc.NetworkType{webrtc.NetworkTypeUDP4})
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	track, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "v", "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pc.AddTransceiverFromTrack(track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.GracefulClose(); _ = socket.Close() })
	return &client{t, pc, track, socket}
}

func (c *client) offer(restart bool) string {
	c.t.Helper()
	o, err := c.pc.CreateOffer(&webrtc.OfferOptions{ICERestart: restart})
	if err != nil {
		c.t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(c.pc)
	if err := c.pc.SetLocalDescription(o); err != nil {
		c.t.Fatal(err)
	}
	<-gathered
	return c.pc.LocalDescription().SDP
}

func (c *client) accept(answer string) {
	c.t.Helper()
	if err := c.pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer}); err != nil {
		c.t.Fatalf("%v\n%s", err, answer)
	}
}

func (c *client) send() {
	ctx, cancel := context.WithCancel(c.t.Context())
	c.t.Cleanup(cancel)
	go func() {
		for seq := uint16(0); ctx.Err() == nil; seq++ {
			_ = c.track.WriteRTP(&rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: seq}, Payload: make([]byte, 500)})
			time.Sleep(5 * time.Millisecond)
		}
	}()
}

// lines of an SDP text with one of the prefixes.
func lines(text string, prefixes ...string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		for _, p := range prefixes {
			if strings.HasPrefix(line, p) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

func without(text string, prefixes ...string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if lines(line, prefixes...) == "" {
			b.WriteString(line)
		}
	}
	return b.String()
}

func fragment(offer string) string {
	return lines(offer, "a=ice-ufrag:", "a=ice-pwd:", "m=", "a=mid:", "a=candidate:", "a=end-of-candidates")
}

func TestWHIPWithARealPublisher(t *testing.T) {
	for _, strict := range []bool{false, true} {
		w, c := newWorld(t, strict), newClient(t)
		offer := c.offer(false)
		header, answer := w.do("POST", w.server.URL+"/whip/demo", mediaSDP, without(offer, "a=candidate", "a=end-of"), "", 201)
		url, etag := header.Get("Location"), header.Get("ETag")
		if !strings.HasPrefix(url, w.server.URL+"/whip/session/") {
			t.Fatalf("Location %q", url)
		}
		w.do("PATCH", url, mediaFragment, fragment(offer), etag, 204) // trickle before the connection
		c.accept(answer)
		c.send()
		w.packetsFlow()
		w.server.CloseClientConnections() // the session does not live in its request
		w.packetsFlow()
		w.do("PATCH", url, mediaFragment, fragment(offer), etag, 204) // and while it is up
		w.do("PATCH", url, mediaFragment, "a=candidate:broken\r\n", etag, 204)
		w.do("PATCH", url, mediaFragment, "garbage", etag, 400)
		w.do("GET", url, "", "", "", 204)

		for range 10 {
			offer = c.offer(true)
			header, frag := w.do("PATCH", url, mediaFragment, fragment(offer), "*", 200)
			if header.Get("ETag") == etag || header.Get("ETag") == "" {
				t.Fatal("a restart without a new tag")
			}
			w.do("PATCH", url, mediaFragment, fragment(offer), etag, 412)
			etag = header.Get("ETag")
			old := without(answer, "a=ice-ufrag", "a=ice-pwd", "a=candidate", "a=end-of")
			answer = strings.Replace(old, "a=mid:", lines(frag, "a=ice-ufrag", "a=ice-pwd", "a=candidate", "a=end-of")+"a=mid:", 1)
			c.accept(answer)
			w.packetsFlow()
		}
		w.do("PATCH", url, mediaFragment, "a=ice-ufrag:newone\r\na=ice-pwd:short\r\n", "*", 400)
		w.packetsFlow() // the failed restart changed nothing

		w.do("DELETE", url, "", "", `"any"`, 200)
		w.do("DELETE", url, "", "", "", 404)
		w.do("PATCH", url, mediaFragment, fragment(offer), etag, 404)
		w.gone()
		w.waitFor("the client told", func() bool {
			s := c.pc.ConnectionState()
			return s == webrtc.PeerConnectionStateClosed || s == webrtc.PeerConnectionStateDisconnected || s == webrtc.PeerConnectionStateFailed
		})
	}
}

func TestPublisherThatVanishesFreesItsURL(t *testing.T) {
	w, c := newWorld(t, false), newClient(t)
	_, answer := w.do("POST", w.server.URL+"/whip", mediaSDP, c.offer(false), "", 201)
	c.accept(answer)
	c.send()
	w.packetsFlow()
	if err := c.pc.Close(); err != nil { // page reload: close_notify, no DELETE
		t.Fatal(err)
	}
	w.gone()
}

func TestPublisherThatAbortsItsPostFreesThePeer(t *testing.T) {
	w, c := newWorld(t, false), newClient(t)
	w.s.hold = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", w.server.URL+"/whip", strings.NewReader(c.offer(false)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", mediaSDP)
	failed := make(chan error, 1)
	go func() { _, err := w.server.Client().Do(r); failed <- err }()
	w.waitFor("the offer accepted", func() bool { return w.s.engine.Stats().Peers == 1 })
	cancel()
	if err := <-failed; err == nil {
		t.Fatal("the POST was answered")
	}
	w.gone()
}

func TestRefusalsOfTheEngineReachTheClient(t *testing.T) {
	w := newWorld(t, false)
	offer := newClient(t).offer(false)
	for name, c := range map[string]struct {
		offer  string
		status int
		words  string
	}{
		"garbage":     {"hello", 400, "line 1 of the offer is not SDP"},
		"300 m-lines": {offer + strings.Repeat("m=video 9 UDP/TLS/RTP/SAVPF 96\r\n", 299), 413, "300 m-lines; at most 8"},
		"1 MB":        {offer + strings.Repeat("a=x:y\r\n", 150_000), 413, "longer than 65536 bytes"},
		"H265 only":   {strings.NewReplacer("VP8/", "H265/", "VP9/", "H265/", "H264/", "H265/", "AV1/", "H265/").Replace(offer), 422, "one of which is needed; it offers H265"},
	} {
		_, body := w.do("POST", w.server.URL+"/whip", mediaSDP, c.offer, "", c.status)
		if !strings.Contains(body, c.words) || !strings.Contains(body, `"code":"`) {
			t.Errorf("%s: %s", name, body)
		}
	}
	if w.s.engine.Stats() != (rtc.EngineStats{}) || w.handler.Len() != 0 {
		t.Errorf("left: %+v", w.s.engine.Stats())
	}
}
