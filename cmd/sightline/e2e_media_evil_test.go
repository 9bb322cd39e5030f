package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
)

// TestE2EBadInputBesideALiveCall: every kind of bad input gets its precise refusal, memory stays flat, and the call next to it
// goes on without a gap.
func TestE2EBadInputBesideALiveCall(t *testing.T) {
	gateway := serveProcess(t)
	s := gateway.served
	face := readFootage(t, faceClip)
	c := s.publish("live", face, cameraOptions{})
	live := s.attach("live", "watcher", 10)
	live.awaitImages(20*time.Second, "images of the live call", 5, nil)
	live.forget()
	memory := gateway.watchMemory()

	t.Run("offers", func(t *testing.T) { badOffers(t, s, c) })
	t.Run("sockets", func(t *testing.T) { badMessages(t, s) })
	t.Run("frames", func(t *testing.T) { badFrames(t, s, face) })

	memory.flat(t, 64<<20)
	images, _, _ := live.seen()
	gap, until := time.Duration(0), time.Now()
	for n, i := range images {
		f := c.mustKnow(t, i)
		if f.reel != face {
			t.Errorf("image %d of the live call shows %v", i.Seq, f)
		}
		if n > 0 {
			gap = max(gap, i.ReceivedAt.Sub(images[n-1].ReceivedAt))
		}
	}
	gap = max(gap, until.Sub(images[len(images)-1].ReceivedAt))
	t.Logf("the live call: %d images in %v, longest gap %v", len(images), span(images).Round(time.Millisecond), gap.Round(time.Millisecond))
	if gap > time.Second || live.Stats().Attached != 1 {
		t.Errorf("the live call had a gap of %v (want at most 1 s), its agent attached %d times (want once)", gap, live.Stats().Attached)
	}
}

// badOffers: what WHIP refuses, with status and code; nothing of it makes a session.
func badOffers(t *testing.T, s *served, c *camera) {
	good := c.pc.LocalDescription().SDP
	many := good + strings.Repeat(good[strings.Index(good, "m=video"):], 299)
	for _, bad := range []struct {
		name, contentType, body, session string
		status                           int
		code, says                       string
	}{
		{"garbage", "application/sdp", "\x00\x01 this is no SDP \xff\xfe", "none", 400, "invalid_argument", "SDP"},
		{"empty", "application/sdp", "", "none", 400, "invalid_argument", "offer"},
		{"1 MB", "application/sdp", good + strings.Repeat("a=x:0123456789\r\n", 1<<16), "none", 413, "too_large", "65536"},
		{"300 m-lines", "application/sdp", shorten(many), "none", 413, "too_large", "300"},
		{"wrong content type", "text/plain", good, "none", 415, "unsupported_media_type", "application/sdp"},
		{"no content type", "", good, "none", 415, "unsupported_media_type", "application/sdp"},
		{"wrong session id", "application/sdp", good, "no%20such%20id", 400, "invalid_argument", "session id"},
		{"somebody publishes", "application/sdp", good, "live", 409, "already_publishing", "live"},
	} {
		status, header, body := s.call("POST", "/whip/"+bad.session, bad.contentType, bad.body)
		problem := decodeAs[struct{ Code, Detail string }](t, body)
		if status != bad.status || problem.Code != bad.code || !strings.Contains(problem.Detail, bad.says) || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %d %s and a word about %q", bad.name, status, body, bad.status, bad.code, bad.says)
		}
	}
	if status, _, body := s.call("GET", "/v1/sessions/none", "", ""); status != http.StatusNotFound {
		t.Errorf("refused offers left a session: %d %s", status, body)
	}
}

// shorten keeps of an SDP only what makes an m-line, so that the number of them is what is wrong, not the bytes.
func shorten(sdp string) string {
	var kept []string
	for line := range strings.Lines(sdp) {
		if !strings.HasPrefix(line, "a=candidate") && !strings.HasPrefix(line, "a=ssrc") && !strings.HasPrefix(line, "a=rtcp") &&
			!strings.HasPrefix(line, "a=fmtp") && !strings.HasPrefix(line, "a=rtpmap:97") && !strings.HasPrefix(line, "a=msid") {
			kept = append(kept, line)
		}
	}
	mid := 0
	for i, line := range kept {
		if strings.HasPrefix(line, "a=mid:") {
			kept[i] = fmt.Sprintf("a=mid:%d\r\n", mid)
			mid++
		}
	}
	return strings.Join(kept, "")
}

// badMessages: what the agent socket refuses, and whether it stays open.
func badMessages(t *testing.T, s *served) {
	for _, bad := range []struct {
		name   string
		kind   int
		data   string
		code   string // of the error message, which keeps the socket open
		closes int    // or the close code
	}{
		{"unknown type", websocket.TextMessage, `{"type":"dance","op_id":"op-1"}`, "unknown_type", 0},
		{"no type", websocket.TextMessage, `{"op_id":"op-1"}`, "unknown_type", 0},
		{"bad field", websocket.TextMessage, `{"type":"image.request","request_id":"r","width":-1}`, "invalid_argument", 0},
		{"unknown role", websocket.TextMessage, `{"type":"context.append","op_id":"op-2","item":{"type":"message","role":"king","content":"x"}}`, "invalid_argument", 0},
		{"invalid JSON", websocket.TextMessage, `{"type":"context.append",`, "", wire.CloseProtocolError},
		{"no object", websocket.TextMessage, `["hello"]`, "", wire.CloseProtocolError},
		{"invalid UTF-8", websocket.TextMessage, "{\"type\":\"\xff\xfe\"}", "", wire.CloseInvalidUTF8},
		{"binary noise", websocket.BinaryMessage, "\xff\xff\xff\xffnoise", "", wire.CloseProtocolError},
	} {
		conn := dialSocket(t, s, "live", &websocket.Dialer{Subprotocols: []string{wire.Subprotocol}})
		must(t, conn.WriteJSON(wire.Hello{Type: wire.TypeHello, AgentID: "bad"}))
		readUntil(t, conn, func(kind wire.Type, _ []byte) bool { return kind == wire.TypeWelcome })
		must(t, conn.WriteMessage(bad.kind, []byte(bad.data)))
		if bad.closes != 0 {
			wantClose(t, conn, bad.name, bad.closes)
			continue
		}
		readUntil(t, conn, func(kind wire.Type, data []byte) bool {
			if kind != wire.TypeError {
				return false
			}
			if refusal := decodeAs[wire.Error](t, data); string(refusal.Code) != bad.code || refusal.Message == "" {
				t.Errorf("%s: %s, want code %s", bad.name, data, bad.code)
			}
			return true
		})
		must(t, conn.WriteJSON(wire.Ping{Type: wire.TypePing, ID: "after"}))
		readUntil(t, conn, func(kind wire.Type, _ []byte) bool { return kind == wire.TypePong })
		conn.Close()
	}
	for name, first := range map[string]string{"no hello first": `{"type":"ping"}`, "no JSON first": `hello`} {
		conn := dialSocket(t, s, "live", &websocket.Dialer{Subprotocols: []string{wire.Subprotocol}})
		must(t, conn.WriteMessage(websocket.TextMessage, []byte(first)))
		wantClose(t, conn, name, wire.CloseProtocolError)
	}
	conn := dialSocket(t, s, "live", &websocket.Dialer{Subprotocols: []string{wire.Subprotocol}})
	must(t, conn.WriteJSON(wire.Hello{Type: wire.TypeHello, AgentID: "bad", Want: wire.Want{Images: []wire.WantImage{{Source: "*", FPS: 1e6}}}}))
	readUntil(t, conn, func(kind wire.Type, data []byte) bool {
		if refusal := decodeAs[wire.Error](t, data); kind != wire.TypeError || refusal.Detail == nil || refusal.Detail.Field != "want.images.fps" {
			t.Errorf("an impossible wish: %s, want an error about want.images.fps", data)
		}
		return true
	})
	wantClose(t, conn, "an impossible wish", wire.CloseProtocolError)

	_, answer, err := websocket.DefaultDialer.DialContext(t.Context(), strings.Replace(s.URL, "http", "ws", 1)+"/v1/agent?session=nowhere", nil)
	if err == nil || answer == nil || answer.StatusCode != http.StatusNotFound {
		t.Fatalf("attaching to no session: %v %v, want 404 before the upgrade", answer, err)
	}
	body, _ := io.ReadAll(answer.Body)
	if problem := decodeAs[struct{ Code string }](t, body); problem.Code != "not_found" {
		t.Errorf("attaching to no session: %s, want not_found", body)
	}
	hugeMessage(t, s)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantClose(t *testing.T, conn *websocket.Conn, name string, code int) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		_, data, err := conn.ReadMessage()
		if websocket.IsCloseError(err, code) {
			return
		}
		if err != nil {
			t.Errorf("%s: %v, want close %d", name, err, code)
			return
		}
		if kind, _ := wire.TypeOf(data); kind == wire.TypeError {
			t.Errorf("%s: %s, want close %d and no error message", name, data, code)
		}
	}
}

// hugeMessage sends a text message of 100 MB, as much of it as the gateway takes: close 1009.
func hugeMessage(t *testing.T, s *served) {
	t.Helper()
	var raw net.Conn
	dialer := &websocket.Dialer{Subprotocols: []string{wire.Subprotocol}, NetDial: func(network, addr string) (c net.Conn, err error) {
		raw, err = net.Dial(network, addr)
		return raw, err
	}}
	conn := dialSocket(t, s, "live", dialer)
	must(t, conn.WriteJSON(wire.Hello{Type: wire.TypeHello, AgentID: "huge"}))
	readUntil(t, conn, func(kind wire.Type, _ []byte) bool { return kind == wire.TypeWelcome })
	const size = 100 << 20
	header := binary.BigEndian.AppendUint64([]byte{0x81, 0x80 | 127}, size) // RFC 6455 §5.2: final text frame, masked, 64 bits of length
	_, err := raw.Write(append(header, 0, 0, 0, 0))                         // a mask of zeros
	must(t, err)
	_ = raw.SetWriteDeadline(time.Now().Add(20 * time.Second))
	sent, chunk := 0, bytes.Repeat([]byte("x"), 64<<10)
	for sent < size {
		n, err := raw.Write(chunk)
		if sent += n; err != nil {
			break // the gateway does not want the rest
		}
	}
	t.Logf("the gateway took %d kB of a message of 100 MB", sent>>10)
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, wire.CloseTooBig) {
		t.Errorf("a message of 100 MB: %v, want close %d", err, wire.CloseTooBig)
	}
}

// badFrames sends hostile VP8 as RTP, then a sound clip: no image of what is not sound, and the right images afterwards.
func badFrames(t *testing.T, s *served, sound *footage) {
	const all = -1
	cases := map[string]struct {
		least   int  // images, at least
		upTo    int  // only frames before this one may be shown; all = any
		refused bool // something of it is dropped and a key frame asked for
	}{
		"vp8-key-16383":          {0, 0, true},
		"vp8-key-16383-10-bytes": {0, 0, true},
		"vp8-key-0x0":            {0, 0, true},
		"vp8-truncated":          {1, 1, true},
		"vp8-garbage":            {1, 1, true},
		"vp8-no-key":             {0, 0, true},
		"vp8-empty-frame":        {1, all, false},
		"vp8-2-byte-frame":       {1, 1, true},
		"vp8-bad-start-code":     {0, 0, true},
		"vp8-version-7":          {0, all, false},
		"vp8-size-change":        {3, all, false},
		"vp8-is-vp9":             {0, 0, true},
	}
	files, err := filepath.Glob("testdata/evil/*.ivf")
	if err != nil || len(files) != len(cases) {
		t.Fatalf("%d hostile files, want %d (%v)", len(files), len(cases), err)
	}
	bomb := &footage{name: "key frame of 200 bytes that claims 16383×16383, and what follows", frames: append([][]byte{make([]byte, 200)}, sound.frames[1:6]...)}
	copy(bomb.frames[0], []byte{0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0xff, 0x3f, 0xff, 0x3f}) // RFC 6386 §9.1
	reels := []*footage{bomb}
	for _, file := range files {
		reels = append(reels, readFootage(t, file))
	}
	for n, reel := range reels {
		name := strings.TrimSuffix(filepath.Base(reel.name), ".ivf")
		expect := cases[name]
		if reel == bomb {
			expect.refused = true
		}
		session := fmt.Sprintf("evil-%d", n)
		c := s.publish(session, sound, cameraOptions{fps: 12})
		agent := s.attach(session, "watcher", 30)
		agent.awaitImages(20*time.Second, "images before "+name, 1, nil)
		before, asked := s.session(session).Sources[0], c.keyFramesAskedFor()
		c.show(reel, sound)
		shown := time.Now()
		after := agent.awaitImages(20*time.Second, "images of the sound frames after "+name, 2, func(i agentclient.Image) bool {
			f, ok := c.frame(i.RTPTimestamp)
			return ok && f.reel == sound && f.last.After(shown)
		})
		state := s.session(session).Sources[0]
		images, _, _ := agent.seen()
		var frames []int
		for n, i := range images {
			if f := c.mustKnow(t, i); f.reel == reel {
				frames = append(frames, f.index)
			}
			if n > 0 && i.RTPTimestamp == images[n-1].RTPTimestamp {
				t.Errorf("%s: images %d and %d are both of timestamp %d", name, images[n-1].Seq, i.Seq, i.RTPTimestamp)
			}
		}
		t.Logf("%s: images of frames %v of %d; %d dropped, %d key frames asked for", name, frames, len(reel.frames), state.Dropped-before.Dropped, c.keyFramesAskedFor()-asked)
		if len(frames) < expect.least || expect.upTo != all && len(frames) > 0 && slices.Max(frames) >= expect.upTo {
			t.Errorf("%s: images of frames %v, want at least %d and only of the first %d", name, frames, expect.least, expect.upTo)
		}
		if expect.refused && (state.Dropped == before.Dropped || c.keyFramesAskedFor() == asked) {
			t.Errorf("%s: %d frames dropped and %d key frames asked for, want some of both", name, state.Dropped-before.Dropped, c.keyFramesAskedFor()-asked)
		}
		first := c.mustKnow(t, after[0])
		if psnr := ffmpegPSNR(t, faceClip, []int{first.index}, [][]byte{after[0].Data})[0]; psnr < 30 {
			t.Errorf("the first image after %s, %v, has %.1f dB, want at least 30", name, first, psnr)
		}
		agent.leave()
		c.leave()
	}
}

// memoryWatch looks at the gateway's resident memory.
type memoryWatch struct {
	gateway  *process
	before   int // bytes
	peak     int
	stop     chan struct{}
	watching sync.WaitGroup
}

func (p *process) watchMemory() *memoryWatch {
	m := &memoryWatch{gateway: p, before: p.resident(), stop: make(chan struct{})}
	m.watching.Go(func() {
		beat := time.NewTicker(20 * time.Millisecond)
		defer beat.Stop()
		for {
			m.peak = max(m.peak, p.resident())
			select {
			case <-beat.C:
			case <-m.stop:
				return
			}
		}
	})
	return m
}

// flat demands that memory was at no moment more than growth above the start.
func (m *memoryWatch) flat(t *testing.T, growth int) {
	t.Helper()
	close(m.stop)
	m.watching.Wait()
	t.Logf("the gateway's resident memory: %d MB before, %d at its peak, %d after", m.before>>20, m.peak>>20, m.gateway.resident()>>20)
	if m.peak-m.before > growth {
		t.Errorf("resident memory grew by %d MB, want at most %d", (m.peak-m.before)>>20, growth>>20)
	}
}
