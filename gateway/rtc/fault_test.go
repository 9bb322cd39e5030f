package rtc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/rtp"
	"github.com/pion/stun/v4"
	"github.com/pion/webrtc/v4"

	"sightline/gateway/problem"
)

// neighbour is a good publisher beside a bad one: it must lose nothing.
type neighbour struct {
	peer *Peer
	sink *sink
}

// goodNeighbour publishes until the test ends.
func goodNeighbour(t *testing.T, e *Engine) *neighbour {
	t.Helper()
	peer, s := publish(t, e, newPublisher(t, publisherOptions{}), "camera")
	return &neighbour{peer, s}
}

// unharmed demands that packets go on, in the same connection, without any that is missing.
func (n *neighbour) unharmed(t *testing.T) {
	t.Helper()
	before := n.sink.count("camera")
	waitFor(t, "packets of the neighbour", func() bool { return n.sink.count("camera") > before+20 })
	n.sink.mu.Lock()
	defer n.sink.mu.Unlock()
	if n.peer.Stats().State != StateConnected || len(n.sink.tracks) != 1 || len(n.sink.states) != 1 {
		t.Errorf("the neighbour is %s after %v, with %d tracks", n.peer.Stats().State, n.sink.states, len(n.sink.tracks))
	}
}

// wild is a track that writes whatever it is told, under any SSRC.
type wild struct {
	track *webrtc.TrackLocalStaticRTP
	out   webrtc.TrackLocalWriter
	ssrc  uint32
	bound chan struct{}
}

func (w *wild) Bind(c webrtc.TrackLocalContext) (webrtc.RTPCodecParameters, error) {
	codec, err := w.track.Bind(c)
	w.out, w.ssrc = c.WriteStream(), uint32(c.SSRC())
	close(w.bound)
	return codec, err
}
func (w *wild) Unbind(c webrtc.TrackLocalContext) error { return w.track.Unbind(c) }
func (w *wild) ID() string                              { return w.track.ID() }
func (w *wild) RID() string                             { return "" }
func (w *wild) StreamID() string                        { return w.track.StreamID() }
func (w *wild) Kind() webrtc.RTPCodecType               { return w.track.Kind() }

// write sends a packet of 1002 bytes.
func (w *wild) write(ssrc uint32, seq uint16) {
	_, _ = w.out.WriteRTP(&rtp.Header{Version: 2, PayloadType: 96, SSRC: ssrc, SequenceNumber: seq, Timestamp: uint32(seq) * 3000, Marker: true},
		append([]byte{0x10, 0}, make([]byte, 1000)...)) // fails when the gateway has closed it
}

// goWild connects a publisher whose only track is wild; edit may spoil its offer.
func goWild(t *testing.T, e *Engine, edit func(string) string) (*publisher, *wild, *Peer, *sink) {
	t.Helper()
	p := newPublisher(t, publisherOptions{bare: true, none: true})
	track, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "wild", "stream")
	if err != nil {
		t.Fatal(err)
	}
	w := &wild{track: track, bound: make(chan struct{})}
	if _, err := p.pc.AddTransceiverFromTrack(w, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly}); err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	offer := p.offer(nil)
	if edit != nil {
		offer = edit(offer)
	}
	peer, answer, err := e.Accept(t.Context(), offer, s.handlers())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(peer.Close)
	p.accept(answer)
	waitFor(t, "a connection", func() bool { return peer.Stats().State == StateConnected })
	<-w.bound
	return p, w, peer, s
}

// TestFaultSSRCs: those of the offer and a few that nobody knows do no harm; more than 64 end their peer, and only that.
func TestFaultSSRCs(t *testing.T) {
	e := newEngine(t, nil)
	good := goodNeighbour(t, e)
	_, w, peer, s := goWild(t, e, nil)
	seq := uint16(0)
	for range 40 { // wrong ones, which no line of the offer tells and no MID explains
		w.write(rand.Uint32()|1, seq)
		seq++
	}
	waitFor(t, "packets of the SSRC that was offered", func() bool { w.write(w.ssrc, seq); seq++; return s.count("camera") > 20 })
	if st := peer.Stats(); st.State != StateConnected {
		t.Errorf("after 40 wrong SSRCs the peer is %s", st.State)
	}
	waitFor(t, "the end of a peer with more than 64 SSRCs", func() bool { w.write(rand.Uint32()|1, seq); return s.saw(StateClosed) })
	if got := e.Stats(); got.OverLimit != 1 || got.Peers != 1 {
		t.Errorf("engine %+v, want one peer closed and one left", got)
	}
	good.unharmed(t)

	_, w, peer, s = goWild(t, e, withoutSSRCs) // any SSRC is the camera's, then
	waitFor(t, "packets without an SSRC in the offer", func() bool { w.write(4711, seq); seq++; return s.count("camera") > 20 })
	waitFor(t, "the end of a peer that rotates its SSRC", func() bool { w.write(rand.Uint32()|1, seq); return s.saw(StateClosed) })
	waitDone(t, peer)
	if e.Stats().StuckCloses != 0 {
		t.Errorf("engine %+v", e.Stats())
	}
	good.unharmed(t)
}

func withoutSSRCs(offer string) string {
	var b strings.Builder
	for line := range strings.Lines(offer) {
		if !strings.HasPrefix(line, "a=ssrc") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestFaultRTPToDeath: what a source sends beyond its rate is thrown away at the socket; its neighbour misses nothing.
func TestFaultRTPToDeath(t *testing.T) {
	const limit = 600 // a second; the neighbour sends 200
	e := newEngine(t, func(c *Config) { c.sourcePackets = limit })
	good := goodNeighbour(t, e)
	_, w, peer, s := goWild(t, e, nil)
	begun := time.Now()
	for seq := uint16(0); e.Stats().FloodDrops < 3*limit; seq++ {
		w.write(w.ssrc, seq)
		if time.Since(begun) > waitTime {
			t.Fatalf("only %d packets thrown away", e.Stats().FloodDrops)
		}
	}
	seconds := int(time.Since(begun)/time.Second) + 2 // those it began and ended in
	if got := s.count("camera"); got > seconds*limit {
		t.Errorf("%d packets came through in %d s, want at most %d a second", got, seconds, limit)
	}
	if st := peer.Stats(); st.State != StateConnected {
		t.Errorf("the flooding peer is %s: its checks come through in the next second", st.State)
	}
	good.unharmed(t)
}

// TestFaultFloodGate is the same by the number.
func TestFaultFloodGate(t *testing.T) {
	g := newFloodGate(100)
	at := time.Unix(1000, 0)
	passed := func(source string, n int, now time.Time) (passed int) {
		for range n {
			if g.passes(netip.MustParseAddrPort(source), now) {
				passed++
			}
		}
		return passed
	}
	if got := passed("192.0.2.1:1000", 1000, at); got != 100 {
		t.Errorf("%d packets of a flood pass in a second, want 100", got)
	}
	if got := passed("192.0.2.1:1000", 1000, at.Add(time.Second)); got != 100 {
		t.Errorf("%d pass in the next second, want 100", got)
	}
	whole := 0
	for port := range 200 { // 200 others in 4096 slots: the flood shares its slot with none or hardly any
		if passed(fmt.Sprintf("192.0.2.1:%d", 2000+port), 50, at.Add(time.Second)) == 50 {
			whole++
		}
	}
	if whole < 190 {
		t.Errorf("only %d of 200 sources beside the flood get all through", whole)
	}
}

// TestFaultChecksFromEverywhere: a peer that sends valid checks from hundreds of addresses makes us keep and check each; it is
// closed. Checks that are not valid, and for nobody, change nothing.
func TestFaultChecksFromEverywhere(t *testing.T) {
	e := newEngine(t, nil)
	good := goodNeighbour(t, e)
	peer, s := publish(t, e, newPublisher(t, publisherOptions{}), "camera")
	c, port := generation(peer), e.socks.udpPort
	flood := func(username, password string, sockets int) {
		for range sockets {
			conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			m, err := stun.Build(stun.BindingRequest, stun.TransactionID, stun.NewUsername(username),
				ice.AttrControlling(1), ice.PriorityAttr(1), stun.NewShortTermIntegrity(password), stun.Fingerprint)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write(m.Raw)
		}
	}
	flood(c.local+":"+c.remote, "not the password at all", maxRemotes+50)
	flood("nobody:nowhere", c.localPwd, maxRemotes+50)
	good.unharmed(t)
	if peer.Stats().State != StateConnected || e.Stats().OverLimit != 0 {
		t.Errorf("checks that are not valid: %s, %+v", peer.Stats().State, e.Stats())
	}
	waitFor(t, "the end of the peer", func() bool {
		flood(c.local+":"+c.remote, c.localPwd, maxRemotes/4)
		return s.saw(StateClosed)
	})
	if got := e.Stats(); got.OverLimit != 1 || got.Peers != 1 {
		t.Errorf("engine %+v, want one peer closed and one left", got)
	}
	waitFor(t, "one entry in the mux", func() bool { return muxEntries(e) == 1 })
	good.unharmed(t)
}

// TestFaultGarbageOnTheWire: DTLS, RTP, RTCP and plain noise from the publisher's own socket, before, during and after its
// handshake. It connects, and its packets arrive.
func TestFaultGarbageOnTheWire(t *testing.T) {
	e := newEngine(t, nil)
	good := goodNeighbour(t, e)
	p, s := newPublisher(t, publisherOptions{}), &sink{}
	peer, answer, err := e.Accept(t.Context(), p.offer(nil), s.handlers())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	to := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: e.socks.udpPort}
	var sent atomic.Int64
	noise := func(rng *rand.Rand) {
		b := make([]byte, 1+rng.IntN(200))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		b[0] = []byte{20, 21, 22, 22, 22, 23, 25, 63, 128, 144, 200, 255}[rng.IntN(12)] // RFC 7983 §7: DTLS, RTP and RTCP, others
		if len(b) > 13 && b[0] < 64 {
			copy(b[1:], []byte{254, 253, 0, 0})                  // DTLS 1.2, epoch 0
			b[11], b[12] = byte((len(b)-13)>>8), byte(len(b)-13) // an honest length
			if rng.IntN(2) == 0 && len(b) > 25 {
				b[13] = []byte{1, 2, 11, 16, 20}[rng.IntN(5)] // a handshake message
			}
		}
		if _, err := p.socket.WriteTo(b, to); err == nil {
			sent.Add(1)
		}
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		rng, beat := rand.New(rand.NewPCG(1, 2)), time.NewTicker(time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-stop:
				return
			case <-beat.C:
				noise(rng)
			}
		}
	})
	p.accept(answer)
	p.send()
	waitFor(t, "packets between the garbage", func() bool { return s.count("camera") > 100 && sent.Load() > 1000 })
	close(stop)
	running.Wait()
	good.unharmed(t)
	if st := peer.Stats(); st.State != StateConnected || st.DTLSState != "connected" {
		t.Errorf("after %d packets of garbage: %+v", sent.Load(), st)
	}
}

// TestFaultRestartStorm: restarts and candidates from many sides at once. Each gets an answer or a problem that names it, one
// generation is left, and the call goes on.
func TestFaultRestartStorm(t *testing.T) {
	e := newEngine(t, nil)
	good := goodNeighbour(t, e)
	p := newPublisher(t, publisherOptions{})
	peer, s := publish(t, e, p, "camera")
	var storm sync.WaitGroup
	var restarts, refusals atomic.Int32
	for n := range 60 {
		storm.Go(func() {
			frag := fmt.Sprintf("a=ice-ufrag:storm%d\r\na=ice-pwd:0123456789012345678901\r\n", n)
			call := func() error { _, err := peer.Restart(t.Context(), frag); return err }
			if n%3 == 0 {
				call = func() error { return peer.Trickle(t.Context(), frag+"a=candidate:1 1 udp 1 127.0.0.1 9 typ host\r\n") }
			}
			err := call()
			var refused *problem.Error
			switch {
			case err == nil:
				restarts.Add(1)
			case errors.As(err, &refused) && refused.Code != problem.Internal:
				refusals.Add(1)
			default:
				t.Errorf("call %d of the storm: %v", n, err)
			}
		})
	}
	storm.Wait()
	if restarts.Load() == 0 || restarts.Load()+refusals.Load() != 60 {
		t.Errorf("%d restarts and %d refusals of 60 calls", restarts.Load(), refusals.Load())
	}
	frag, err := peer.Restart(t.Context(), asFragment(p.offer(&webrtc.OfferOptions{ICERestart: true})))
	if err != nil {
		t.Fatal(err)
	}
	p.accept(restartedAnswer(p.pc.CurrentRemoteDescription().SDP, frag))
	before := s.count("camera")
	waitFor(t, "packets after the storm", func() bool { return s.count("camera") > before+20 })
	if n := muxEntries(e); n != 2 {
		t.Errorf("%d entries in the UDP mux, want one for each peer", n)
	}
	good.unharmed(t)
}

// TestFaultDataChannelFlood: dozens of channels and megabytes that nobody reads; the call and its neighbour go on.
func TestFaultDataChannelFlood(t *testing.T) {
	t.Parallel()
	e := newEngine(t, nil)
	good := goodNeighbour(t, e)
	p := newPublisher(t, publisherOptions{})
	var closed atomic.Int32
	open := make(chan *webrtc.DataChannel, 400)
	channel := func(n int) {
		d, err := p.pc.CreateDataChannel(fmt.Sprint("flood ", n), nil)
		if err != nil {
			t.Fatal(err)
		}
		d.OnOpen(func() { open <- d })
		d.OnClose(func() { closed.Add(1) })
	}
	channel(0)
	peer, s := publish(t, e, p, "camera")
	first := <-open
	const channels = 60
	for n := range channels {
		channel(n + 1)
	}
	waitFor(t, "all channels but four are closed", func() bool { return closed.Load() >= channels+1-maxDataChannels })
	message := make([]byte, maxDataMessage/2)
	for range 200 {
		for first.BufferedAmount() > 1<<20 {
			<-time.After(time.Millisecond)
		}
		if err := first.Send(message); err != nil {
			break
		}
	}
	before := s.count("camera")
	waitFor(t, "packets beside the flood", func() bool { return s.count("camera") > before+20 })
	if st := peer.Stats(); st.State != StateConnected {
		t.Errorf("the flooding peer is %s", st.State)
	}
	good.unharmed(t)
}
