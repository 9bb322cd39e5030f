package whipclient_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
	"go.uber.org/goleak"

	"sightline/cmd/internal/testvideo"
	"sightline/cmd/internal/whipclient"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var clip = sync.OnceValue(func() *whipclient.Clip {
	c, err := testvideo.Make(context.Background(), testvideo.Config{Width: 320, Height: 240, Length: 2 * time.Second})
	if err != nil {
		panic(err)
	}
	return c
})

// receiver is a WHIP endpoint on a real Pion peer that passes on what arrives.
type receiver struct {
	*httptest.Server
	packets chan *rtp.Packet
	deleted chan string
	mu      sync.Mutex
	pc      *webrtc.PeerConnection
	ssrc    webrtc.SSRC
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{packets: make(chan *rtp.Packet, 1<<14), deleted: make(chan string, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /whip/{session}", func(w http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Content-Type") != "application/sdp" || request.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("headers %v", request.Header)
		}
		offer, _ := io.ReadAll(request.Body)
		answer, err := r.answer(string(offer))
		if err != nil {
			t.Errorf("answer: %v", err)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Location", "/secret/"+request.PathValue("session")) // relative is allowed
		w.Header().Set("Content-Type", "application/sdp")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, answer)
	})
	mux.HandleFunc("DELETE /secret/{session}", func(_ http.ResponseWriter, request *http.Request) {
		r.deleted <- request.PathValue("session")
	})
	r.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		r.Close()
		if r.pc != nil {
			_ = r.pc.GracefulClose()
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

func (r *receiver) answer(offer string) (string, error) {
	var settings webrtc.SettingEngine
	settings.SetIncludeLoopbackCandidate(true)
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(settings)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	r.pc = pc
	r.mu.Unlock()
	pc.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		r.mu.Lock()
		r.ssrc = track.SSRC()
		r.mu.Unlock()
		for {
			packet, _, err := track.ReadRTP()
			if err != nil {
				return
			}
			select {
			case r.packets <- packet:
			default: // the test has seen enough
			}
		}
	})
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
	return pc.LocalDescription().SDP, nil
}

func (r *receiver) next(t *testing.T) *rtp.Packet {
	t.Helper()
	select {
	case p := <-r.packets:
		return p
	case <-time.After(20 * time.Second):
		t.Fatal("no packet within 20 s")
		return nil
	}
}

func publish(t *testing.T, cfg whipclient.Config) (p *whipclient.Publisher, stop func() error) {
	t.Helper()
	cfg.Session, cfg.Token, cfg.Clip = "demo", "secret", clip()
	p, err := whipclient.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = stop() })
	return p, stop
}

// startsKey: RFC 7741 §4.2–4.3, the start of partition 0 of a key frame (picture id of 15 bits present).
func startsKey(p *rtp.Packet) bool {
	return len(p.Payload) > 4 && p.Payload[0]&0x17 == 0x10 && p.Payload[4]&1 == 0
}

func TestPublishesAnswersPLIAndLeavesCleanly(t *testing.T) {
	r := receive(t)
	p, stop := publish(t, whipclient.Config{URL: r.URL})

	first := r.next(t)
	if !startsKey(first) {
		t.Errorf("the first packet does not start a key frame: % x", first.Payload[:8])
	}
	frames, timestamps := 0, map[uint32]bool{}
	expected := first.SequenceNumber + 1
	var last *rtp.Packet
	for frames < 20 {
		last = r.next(t)
		if last.SequenceNumber != expected {
			t.Errorf("sequence %d, want %d", last.SequenceNumber, expected)
		}
		expected = last.SequenceNumber + 1
		timestamps[last.Timestamp] = true
		if last.Marker {
			frames++
		}
	}
	if len(timestamps) < 19 || len(timestamps) > 21 {
		t.Errorf("%d timestamps in 20 frames", len(timestamps))
	}
	if a, b, ok := p.SentAt(last.Timestamp); !ok || b.Before(a) || time.Since(b) > 10*time.Second {
		t.Errorf("sent %v to %v (%v)", a, b, ok)
	}

	// The clip has a key frame each second; asked for in between, one comes long before.
	r.mu.Lock()
	pc, ssrc := r.pc, r.ssrc
	r.mu.Unlock()
	if err := pc.WriteRTCP([]rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: uint32(ssrc)}}); err != nil {
		t.Fatal(err)
	}
	for asked := 0; ; {
		packet := r.next(t)
		if startsKey(packet) {
			break
		}
		if packet.Marker {
			asked++
		}
		if asked > 8 {
			t.Error("no key frame within 8 frames of the request")
			break
		}
	}

	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if session := <-r.deleted; session != "demo" {
		t.Errorf("deleted %q", session)
	}
	s := p.Stats()
	if s.PLI != 1 || s.KeyFrames < 2 || s.ConnectedIn <= 0 || s.Lost != 0 || s.Frames < 20 || s.State != "closed" {
		t.Errorf("stats %+v", s)
	}
}

func TestImpairmentLosesAndReorders(t *testing.T) {
	r := receive(t)
	p, stop := publish(t, whipclient.Config{URL: r.URL, Impair: &whipclient.Impairment{Loss: 0.1, Reorder: 0.2, Seed: 7}})
	seen, backwards := map[uint16]bool{}, 0
	newest := r.next(t).SequenceNumber
	for len(seen) < 150 {
		n := r.next(t).SequenceNumber
		seen[n] = true
		if int16(n-newest) < 0 {
			backwards++
		} else {
			newest = n
		}
	}
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if s := p.Stats(); s.Lost == 0 || s.Reordered == 0 || backwards == 0 {
		t.Errorf("lost %d, reordered %d, seen out of order %d", s.Lost, s.Reordered, backwards)
	}
}

func TestRefusalsAreTyped(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"code":"already_publishing","detail":"somebody publishes there"}`)
	}))
	t.Cleanup(func() { server.Close(); http.DefaultClient.CloseIdleConnections() })
	p, err := whipclient.New(whipclient.Config{URL: server.URL, Session: "demo", Clip: clip()})
	if err != nil {
		t.Fatal(err)
	}
	var refused *whipclient.HTTPError
	if err := p.Run(t.Context()); !errors.As(err, &refused) || refused.Status != http.StatusConflict || refused.Code != "already_publishing" {
		t.Errorf("Run: %v", err)
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		cfg  whipclient.Config
		want string
	}{
		{whipclient.Config{URL: "http://h"}, "needs a clip"},
		{whipclient.Config{URL: "localhost:8080", Clip: clip()}, "must be http://HOST"},
		{whipclient.Config{URL: "http://h", Clip: clip(), FPS: 1000}, "240"},
	} {
		if _, err := whipclient.New(test.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}
