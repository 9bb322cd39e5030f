package gateway

import (
	"bytes"
	"context"
	"fmt"
	"image/jpeg"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"

	"sightline/frames"
	"sightline/frames/ivf"
	"sightline/gateway/wire"
)

// loopbackAPI makes PeerConnections that find each other on this machine alone.
func loopbackAPI(t *testing.T) *webrtc.API {
	t.Helper()
	var m webrtc.MediaEngine
	if err := m.RegisterDefaultCodecs(); err != nil {
		t.Fatal(err)
	}
	var s webrtc.SettingEngine
	s.SetIncludeLoopbackCandidate(true)
	return webrtc.NewAPI(webrtc.WithMediaEngine(&m), webrtc.WithSettingEngine(s))
}

// TestEmbedAForeignPeerConnection is Example_embed with a real call: a PeerConnection that the gateway did not make.
func TestEmbedAForeignPeerConnection(t *testing.T) {
	g := startGateway(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	session, err := g.Session(ctx, "embedded")
	if err != nil {
		t.Fatal(err)
	}
	api := loopbackAPI(t)
	caller, ours := mustPeer(t, api), mustPeer(t, api)
	ours.OnTrack(func(track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) {
		if err := session.AddTrack(ours, track, receiver); err != nil {
			t.Error(err)
		}
	})
	video, err := webrtc.NewTrackLocalStaticSample(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "video", "caller")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := caller.AddTrack(video); err != nil {
		t.Fatal(err)
	}
	connect(t, caller, ours)
	go play(ctx, video)

	img, err := imageWhenThere(ctx, session)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := jpeg.DecodeConfig(bytes.NewReader(img.Data))
	if err != nil || cfg.Width != 1024 || cfg.Height != 1024 || img.Source != "camera" {
		t.Fatalf("image of %s: %v %v", img.Source, cfg, err)
	}
	if status, body, _ := g.do("GET", "/v1/sessions/embedded", ""); !bytes.Contains(body, []byte(`"state":"live"`)) {
		t.Errorf("session: %d %s", status, body)
	}
	if status, _, h := g.do("POST", "/whip/embedded", "v=0"); status/100 == 2 {
		t.Errorf("a second publisher was taken: %d %v", status, h)
	}
	besideIt(ctx, t, session, api)
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		session.mu.Lock()
		defer session.mu.Unlock()
		if session.publisher != nil {
			return "the session still has a publisher although its PeerConnection is closed"
		}
		return ""
	})
}

// besideIt shares a screen by a second PeerConnection, which leaves again.
func besideIt(ctx context.Context, t *testing.T, session *Session, api *webrtc.API) {
	t.Helper()
	sharer, ours := mustPeer(t, api), mustPeer(t, api)
	refused := make(chan error, 3)
	ours.OnTrack(func(track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) {
		for _, name := range []string{"", "a b", "camera"} {
			refused <- session.AddSource(name, ours, track, receiver)
		}
		if err := session.AddSource("screen", ours, track, receiver); err != nil {
			t.Error(err)
		}
	})
	video, err := webrtc.NewTrackLocalStaticSample(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "video", "sharer")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sharer.AddTrack(video); err != nil {
		t.Fatal(err)
	}
	connect(t, sharer, ours)
	go play(ctx, video)
	for range 3 {
		if <-refused == nil {
			t.Error("a source without a good name, or of somebody else's, was taken")
		}
	}
	eventually(t, func() string {
		img, err := session.image(ctx, imageRequest{source: "screen", encode: &wire.Encode{}, maxAge: time.Second, wait: time.Second})
		if err != nil || img.Width != 640 || img.Height != 480 {
			return fmt.Sprintf("the screen: %v %v", img, err)
		}
		return ""
	})
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		session.mu.Lock()
		defer session.mu.Unlock()
		if len(session.sides) > 0 || session.publisher == nil {
			return fmt.Sprintf("%d side publishers, publisher %v", len(session.sides), session.publisher)
		}
		return ""
	})
}

// imageWhenThere waits for the source, then for its first image.
func imageWhenThere(ctx context.Context, session *Session) (*frames.Image, error) {
	for {
		img, err := session.Image(ctx, "", frames.DefaultRealtimeEncodeOptions(), time.Second, time.Second)
		if err == nil || ctx.Err() != nil {
			return img, err
		}
		time.Sleep(5 * time.Millisecond) // polls a condition
	}
}

func mustPeer(t *testing.T, api *webrtc.API) *webrtc.PeerConnection {
	t.Helper()
	pc, err := api.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	return pc
}

// connect exchanges offer and answer with all candidates in them.
func connect(t *testing.T, from, to *webrtc.PeerConnection) {
	t.Helper()
	offer, err := from.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(from)
	if err := from.SetLocalDescription(offer); err != nil {
		t.Fatal(err)
	}
	<-gathered
	if err := to.SetRemoteDescription(*from.LocalDescription()); err != nil {
		t.Fatal(err)
	}
	answer, err := to.CreateAnswer(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered = webrtc.GatheringCompletePromise(to)
	if err := to.SetLocalDescription(answer); err != nil {
		t.Fatal(err)
	}
	<-gathered
	if err := from.SetRemoteDescription(*to.LocalDescription()); err != nil {
		t.Fatal(err)
	}
}

// play sends the clip's frames at 30/s, in a loop, until ctx ends.
func play(ctx context.Context, track *webrtc.TrackLocalStaticSample) {
	file, err := os.Open("../frames/testdata/face480_90.vp8.ivf")
	if err != nil {
		return
	}
	defer file.Close()
	ticker := time.NewTicker(time.Second / 30)
	defer ticker.Stop()
	for {
		if _, err := file.Seek(0, 0); err != nil {
			return
		}
		r, err := ivf.NewReader(file)
		if err != nil {
			return
		}
		for {
			f, err := r.Next()
			if err != nil {
				break
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if track.WriteSample(media.Sample{Data: f.Data, Duration: time.Second / 30}) != nil {
				return
			}
		}
	}
}

// TestG13SessionsEndWhateverIsUnderWay deletes sessions at the very moment that somebody publishes to them, and with sockets
// attached that never say hello.
func TestG13SessionsEndWhateverIsUnderWay(t *testing.T) {
	g := startGateway(t, nil)
	api := loopbackAPI(t)
	for n := range 30 {
		id := fmt.Sprintf("s%d", n)
		g.createSession(id)
		silent := g.dial(id)
		offer := offerOf(t, api)
		session, err := g.Session(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		published := make(chan struct{})
		go func() {
			defer close(published)
			req, _ := http.NewRequest("POST", g.url+"/whip/"+id, strings.NewReader(offer))
			req.Header.Set("Content-Type", "application/sdp")
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
			}
		}()
		time.Sleep(time.Duration(n) * 100 * time.Microsecond) // the moment moves through the whole handshake
		session.End("test")
		select {
		case <-session.Done():
		case <-time.After(testTimeout):
			t.Fatalf("session %d has not ended after %v", n, testTimeout)
		}
		<-published
		_ = silent.conn.Close()
	}
}

// offerOf is a sound offer of one video, of a peer that never connects.
func offerOf(t *testing.T, api *webrtc.API) string {
	t.Helper()
	pc := mustPeer(t, api)
	if _, err := pc.AddTransceiverFromKind(webrtc.RTPCodecTypeVideo, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly}); err != nil {
		t.Fatal(err)
	}
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	return offer.SDP
}
