package rtc

import (
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/rtp"
	"github.com/pion/stun/v4"
	"github.com/pion/transport/v5/packetio"
	"github.com/pion/webrtc/v4"
)

const (
	maxSSRCs        = 64      // of one peer in its life; two cameras with three layers and repairs are 14
	fullBuffers     = 16      // SSRCs whose packets may wait in a full buffer
	fullBuffer      = 1000000 // bytes, Pion's own bound
	sparseBuffer    = 64 << 10
	rtcpBuffer      = 100000 // bytes, Pion's own bound
	maxRemotes      = 256    // addresses that one peer sends valid checks from; maxTrickledTotal and room for NATs
	reasonSSRCs     = "a peer sends more SSRCs than allowed and is closed"
	reasonAddresses = "a peer sends from more addresses than allowed and is closed"
)

// watchdog looks at what Pion does not bound: the SSRCs that a peer sends (each costs memory, also when no section wants it) and
// the addresses it sends from. It also follows a peer whose address changes under it.
type watchdog struct {
	tooMuch  func(reason string, limit int) // ends the peer, without waiting
	silent   time.Duration                  // without a word from the address in use, another one may take its place
	ssrcs    atomic.Int64
	selected atomic.Pointer[string]   // the remote address of the pair in use
	remotes  map[string]ice.Candidate // by address; only the ICE agent's own goroutine
	layers   layerGuard
}

// settings are the engine's, with this peer's hooks.
func (w *watchdog) settings(s webrtc.SettingEngine) webrtc.SettingEngine {
	w.remotes = make(map[string]ice.Candidate)
	s.BufferFactory = w.buffer
	s.SetICEBindingRequestHandler(w.checked)
	return s
}

// buffer makes the queue between the network and one SSRC's reader. Streams that nobody reads keep theirs full.
func (w *watchdog) buffer(kind packetio.BufferPacketType, _ uint32) io.ReadWriteCloser {
	size := rtcpBuffer
	if kind == packetio.RTPBufferPacket {
		n := w.ssrcs.Add(1)
		if n > maxSSRCs {
			w.tooMuch(reasonSSRCs, maxSSRCs)
		}
		if size = fullBuffer; n > fullBuffers {
			size = sparseBuffer
		}
	}
	b := packetio.NewBuffer()
	b.SetLimitSize(size)
	q := &packetQueue{Buffer: b}
	if kind == packetio.RTPBufferPacket {
		q.guard = &w.layers
	}
	return q
}

// packetQueue hands packets' attributes through, as Pion's own does.
type packetQueue struct {
	*packetio.Buffer
	guard  *layerGuard // nil: RTCP
	header rtp.Header  // scratch of the guard's, under its lock
}

// Read implements io.Reader.
func (q *packetQueue) Read(b []byte) (int, error) {
	n, _, err := q.Buffer.Read(b, nil)
	return n, err
}

// Write implements io.Writer.
func (q *packetQueue) Write(b []byte) (int, error) { return q.WriteWithAttributes(b, nil) }

// ReadWithAttributes is what Pion looks for.
func (q *packetQueue) ReadWithAttributes(b []byte, a packetio.Attributes) (int, packetio.Attributes, error) {
	return q.Buffer.Read(b, a)
}

// WriteWithAttributes is what Pion looks for.
func (q *packetQueue) WriteWithAttributes(b []byte, a packetio.Attributes) (int, error) {
	if q.guard != nil && !q.guard.passes(q, b) {
		return len(b), nil
	}
	return q.Buffer.Write(b, a)
}

// pairChanged notes which pair is in use.
func (w *watchdog) pairChanged(pair *webrtc.ICECandidatePair) {
	if pair != nil && pair.Remote != nil {
		w.selected.Store(new(address(pair.Remote.Address, int(pair.Remote.Port))))
	}
}

func address(host string, port int) string { return host + " " + strconv.Itoa(port) }

// checked sees every valid check of the peer and says whether its pair is to be used from now on: when the address in use is
// silent while this one has answered us. A NAT that forgets a mapping gives the peer another address, and clients that
// nominate a pair only once (RFC 8445 §8.1.1 asks no more) would be lost.
func (w *watchdog) checked(_ *stun.Message, _, remote ice.Candidate, pair *ice.CandidatePair) bool {
	at := address(remote.Address(), remote.Port())
	if w.remotes[at] != remote {
		if len(w.remotes) >= maxRemotes {
			w.tooMuch(reasonAddresses, maxRemotes)
			return false
		}
		w.remotes[at] = remote // a restart brings new candidates of known addresses
	}
	selected := w.selected.Load()
	if selected == nil || *selected == at || pair.ResponsesReceived() == 0 {
		return false
	}
	old := w.remotes[*selected]
	return old != nil && time.Since(old.LastReceived()) > w.silent
}
