package rtc

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtp"
	"github.com/pion/sdp/v3"
)

// FuzzDatagram gives one datagram to everything of ours that reads any: the gates at the socket, the transport-wide number (which must be what
// pion/rtp finds), the guard of layers, our feedback and the reports about our own sound. Nothing panics and nothing is kept of it.
func FuzzDatagram(f *testing.F) {
	p := &rtp.Packet{Header: rtp.Header{Version: 2, PayloadType: 96, SequenceNumber: 65535, Timestamp: 1, SSRC: 7}, Payload: []byte{1, 2, 3}}
	for id, value := range map[uint8][]byte{3: {0x12, 0x34}, 4: []byte("0"), 10: []byte("hi")} {
		if err := p.SetExtension(id, value); err != nil {
			f.Fatal(err)
		}
	}
	raw, err := p.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	p.ExtensionProfile = rtp.ExtensionProfileTwoByte
	if raw, err = p.Marshal(); err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{0x80, 0xc8, 0, 6, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1})                // sender report
	f.Add([]byte{0x81, 0xc9, 0, 7, 0, 0, 0, 7, 0, 0, 0, 7, 0x20, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2}) // receiver report
	f.Add([]byte{0x8f, 0xcd, 0, 4, 0, 0, 0, 7, 0, 0, 0, 7, 0, 1, 0xff, 0xff, 0, 0, 0, 1})                                  // feedback that claims more than there is
	f.Add([]byte{22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1})                                                         // DTLS
	f.Add([]byte{21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0})                                                      // an alert that anybody can send
	f.Add([]byte{0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})                                  // STUN
	from, now := netip.MustParseAddrPort("192.0.2.1:5"), time.Unix(1000, 0)
	f.Fuzz(func(t *testing.T, b []byte) {
		udp := &guardedUDP{packets: newFloodGate(10), checks: newFloodGate(10), dropped: new(atomic.Uint64)}
		if udp.wants(b, from, now) && len(b) == 0 {
			t.Fatal("an empty datagram goes through")
		}
		if len(b) >= 12 && b[0]>>6 == 2 {
			sameNumber(t, b)
		}
		clashed := new(atomic.Uint64)
		guard := &layerGuard{clashed: clashed}
		guard.ids.mid, guard.ids.rid, guard.ids.repaired = 4, 10, 11
		one, other := &packetQueue{guard: guard}, &packetQueue{guard: guard}
		for range 2 {
			if !guard.passes(one, b) {
				t.Fatal("a layer of its own is refused")
			}
		}
		if passes := guard.passes(other, b); passes != (clashed.Load() == 0) {
			t.Fatalf("passes: %v, %d clashes", passes, clashed.Load())
		}

		fb := newFeedback(1)
		info := &interceptor.StreamInfo{SSRC: 7, ClockRate: 90000, RTPHeaderExtensions: []interceptor.RTPHeaderExtension{{ID: 3, URI: sdp.TransportCCURI}}, RTCPFeedback: []interceptor.RTCPFeedback{{Type: "nack"}}}
		read := fb.BindRemoteStream(info, interceptor.RTPReaderFunc(func(to []byte, a interceptor.Attributes) (int, interceptor.Attributes, error) {
			return copy(to, b), a, nil
		}))
		buffer := make([]byte, len(b))
		_, _, _ = read.Read(buffer, nil)
		_, _, _ = fb.BindRTCPReader(interceptor.RTCPReaderFunc(func(to []byte, a interceptor.Attributes) (int, interceptor.Attributes, error) {
			return copy(to, b), a, nil
		})).Read(buffer, nil)
		for _, out := range fb.due(true, time.Second) {
			if _, err := out.Marshal(); err != nil {
				t.Fatalf("%T: %v", out, err)
			}
		}
		s := &speaker{}
		s.ssrc.Store(7)
		s.note(b)
	})
}

// sameNumber holds transportNumber against pion/rtp, where that reads the header at all.
func sameNumber(t *testing.T, b []byte) {
	t.Helper()
	got, ok := transportNumber(b, 3)
	var h rtp.Header
	if _, err := h.Unmarshal(b); err != nil || h.ExtensionProfile > 0x1000 && h.ExtensionProfile <= 0x100f { // RFC 8285 §4.3: application bits, which pion/rtp knows nothing of
		return
	}
	want := h.GetExtension(3)
	if ok != (len(want) >= 2) || ok && got != uint16(want[0])<<8|uint16(want[1]) {
		t.Fatalf("number %d, %v; pion/rtp has % x in % x", got, ok, want, b)
	}
}
