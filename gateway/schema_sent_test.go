package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/pion/ice/v4"
	"github.com/pion/rtcp"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"

	chatctx "sightline/context"
	"sightline/frames/ivf"
	"sightline/gateway/wire"
)

// publishClip publishes a real clip over WHIP, again and again, until the test ends; it returns when images could be had.
func publishClip(t *testing.T, g *gatewayUnderTest, session string) {
	t.Helper()
	var s webrtc.SettingEngine
	s.SetIncludeLoopbackCandidate(true)
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled)
	s.SetIPFilter(func(ip net.IP) bool { return ip.IsLoopback() })
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(s)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	track, err := webrtc.NewTrackLocalStaticSample(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "camera", "stream")
	if err != nil {
		t.Fatal(err)
	}
	sender, err := pc.AddTrack(track)
	if err != nil {
		t.Fatal(err)
	}
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		t.Fatal(err)
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(offer); err != nil {
		t.Fatal(err)
	}
	<-gathered
	res, err := http.Post(g.url+"/whip/"+session, "application/sdp", strings.NewReader(pc.LocalDescription().SDP))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusCreated {
		t.Fatalf("WHIP: %d %s %v", res.StatusCode, answer, err)
	}
	if err := pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: string(answer)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); sendClip(ctx, t, track, sender) }()
	t.Cleanup(func() { cancel(); _ = pc.Close(); <-done })
	eventually(t, func() string {
		status, body, _ := g.do("GET", "/v1/sessions/"+session+"/image?width=32&height=32", "")
		if status != 200 {
			return fmt.Sprintf("no image: %d %s", status, body)
		}
		return ""
	})
}

// sendClip plays 90 frames of a face at 30 a second, from the start again at the end and when a key frame is asked for.
func sendClip(ctx context.Context, t *testing.T, track *webrtc.TrackLocalStaticSample, sender *webrtc.RTPSender) {
	var restart atomic.Bool
	go func() {
		for {
			packets, _, err := sender.ReadRTCP()
			if err != nil {
				return
			}
			for _, p := range packets {
				if _, ok := p.(*rtcp.PictureLossIndication); ok {
					restart.Store(true)
				}
			}
		}
	}()
	tick := time.NewTicker(time.Second / 30)
	defer tick.Stop()
	for ctx.Err() == nil {
		file, err := os.Open("../frames/testdata/face480_90.vp8.ivf")
		if err != nil {
			t.Error(err)
			return
		}
		clip, err := ivf.NewReader(file)
		for err == nil && !restart.Swap(false) {
			var frame ivf.Frame
			if frame, err = clip.Next(); err != nil {
				break
			}
			select {
			case <-tick.C:
				err = track.WriteSample(media.Sample{Data: frame.Data, Duration: time.Second / 30})
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		_ = file.Close()
		if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
			t.Error(err)
			return
		}
	}
}

// brokenStore answers no append once it is broken.
type brokenStore struct {
	*chatctx.MemStore
	broken atomic.Bool
}

func (s *brokenStore) Append(ctx context.Context, session string, e chatctx.Entry) error {
	if s.broken.Load() {
		return errors.New("disk full")
	}
	return s.MemStore.Append(ctx, session, e)
}

// TestEverythingTheGatewaySendsFitsItsSchema has a whole call: video, two agents, each kind of message and HTTP answer.
func TestEverythingTheGatewaySendsFitsItsSchema(t *testing.T) {
	s := schemasFor(t)
	store := &brokenStore{MemStore: chatctx.NewMemStore()}
	g := startGateway(t, func(c *Config) { c.Store = store })
	g.createSession("demo")
	publishClip(t, g, "demo")
	seen := map[wire.Type]int{}
	checkHTTP := func(schema, method, path, body string) {
		t.Helper()
		_, answer, _ := g.do(method, path, body)
		if err := s.sent(schema, answer); err != nil {
			t.Errorf("%s %s: %v", method, path, err)
		}
	}
	c := g.dial("demo")
	// until reads and checks messages up to the first of a type; of a binary one, its header.
	until := func(want wire.Type) []byte {
		t.Helper()
		for {
			_ = c.conn.SetReadDeadline(time.Now().Add(testTimeout))
			kind, data, err := c.conn.ReadMessage()
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if kind == websocket.BinaryMessage {
				if _, data, _, err = wire.DecodeBinary(data); err != nil {
					t.Fatal(err)
				}
			}
			got, err := wire.TypeOf(data)
			if err == nil {
				err = s.sent(string(got), data)
			}
			if err != nil {
				t.Error(err)
			}
			seen[got]++
			if got == want {
				return data
			}
		}
	}
	c.send(`{"type":"hello","agent_id":"a","want":{"context":true,"images":[{"source":"*","fps":30,"width":64,"height":64}],"audio":{"in":true,"rate":16000},"transcripts":true}}`)
	until(wire.TypeWelcome)
	until(wire.TypeImage)
	for n, item := range []string{
		`{"type":"message","role":"system","content":"be brief"}`,
		`{"type":"message","role":"user","content":[{"type":"text","text":"this"},{"type":"image","url":"https://example.org/a.png","captured_at":"2026-01-02T03:04:05Z","source":"camera","width":4,"height":3,"detail":"low"}]}`,
		`{"type":"message","role":"assistant","content":"I s","agent_id":"a","interrupted":true,"text_generated":"I see"}`,
		`{"type":"function_call","call_id":"c","name":"look","arguments":"{}","agent_id":"a"}`,
		`{"type":"function_call_output","call_id":"c","name":"look","output":"a cat"}`,
		`{"type":"handoff","from_agent":"a","to_agent":"b","reason":"asked","summary":"a cat"}`,
		`{"type":"config_update","instructions":"be kind","tools":[{"name":"look"}]}`,
		`{"type":"summary","text":"they said this","covers":[2,3]}`,
	} {
		c.send(fmt.Sprintf(`{"type":"context.append","op_id":"op%d","item":%s}`, n, item))
		until(wire.TypeAck)
	}
	var ack wire.Ack
	c.send(`{"type":"image.request","request_id":"r","attach":true,"width":64,"height":48,"format":"png"}`)
	if err := json.Unmarshal(until(wire.TypeAck), &ack); err != nil {
		t.Fatal(err)
	}
	c.send(`{"type":"context.update","op_id":"u","item_id":"` + ack.ItemID + `","changes":{"interrupted":true}}`)
	until(wire.TypeAck)
	c.send(`{"type":"context.remove","op_id":"r","item_id":"` + ack.ItemID + `"}`)
	until(wire.TypeAck)
	c.send(`{"type":"context.truncate","op_id":"t","max_items":5}`)
	until(wire.TypeAck)
	for seen[wire.TypeContextEntry] < 12 {
		until(wire.TypeContextEntry)
	}
	c.send(`{"type":"context.update","op_id":"u2","item_id":"` + ack.ItemID + `","changes":{"content":"x"}}`)
	until(wire.TypeError)
	store.broken.Store(true)
	c.send(`{"type":"context.truncate","op_id":"t2","max_items":4}`)
	if m := until(wire.TypeError); !strings.Contains(string(m), `"engine_unavailable"`) {
		t.Errorf("append to a store that fails: %s", m)
	}
	store.broken.Store(false)
	c.send(`{"type":"ping","id":"p"}`)
	until(wire.TypePong)

	checkHTTP("sessions", "GET", "/v1/sessions", "")
	checkHTTP("session", "GET", "/v1/sessions/demo", "")
	checkHTTP("session", "POST", "/v1/sessions", "")
	checkHTTP("ack", "POST", "/v1/sessions/demo/context", `{"op_id":"h","item":{"type":"message","role":"user","content":"hello"}}`)
	for _, format := range []string{"items", "transport", "text"} {
		checkHTTP("context", "GET", "/v1/sessions/demo/context?inline=true&format="+format, "")
	}
	checkHTTP("problem", "GET", "/v1/sessions/demo/image?source=screen", "")
	checkHTTP("problem", "POST", "/whip/demo", "v=0")
	checkHTTP("session", "DELETE", "/v1/sessions/demo", "") // the publisher leaves with it: its source ends
	until(wire.TypeBye)
	checkHTTP("sessions", "GET", "/v1/sessions", "")

	g.createSession("demo")
	c = g.dial("demo")
	c.send(`{"type":"hello","agent_id":"a","want":{}}`)
	until(wire.TypeWelcome)
	publishClip(t, g, "demo")
	until(wire.TypeSource)
	for _, kind := range fromGateway {
		if seen[kind] == 0 {
			t.Errorf("the call had no %s", kind)
		}
	}
}
