package rtc

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/sdp/v3"
)

const frameTicks = 3000 // of the 90 kHz clock, 30 frames a second

func newArrivals() *arrivals { return &arrivals{clock: 90000, nack: true} }

// take notes packets, one each 33 ms from at on.
func (a *arrivals) take(at time.Duration, seqs ...uint16) {
	for _, s := range seqs {
		a.note(s, uint32(s)*frameTicks, at)
		at += 33 * time.Millisecond
	}
}

func TestLostPacketsAreAskedForUntilTheyComeOrAreGivenUp(t *testing.T) {
	a := newArrivals()
	a.take(0, 65533, 65534, 1, 2) // 65535 and 0 are missing
	var asked []time.Duration
	for at := 100 * time.Millisecond; at < 3*time.Second; at += 10 * time.Millisecond {
		switch got := a.wanted(at); {
		case len(got) == 0:
		case at < 400*time.Millisecond && !slices.Equal(got, []uint16{65535, 0}), at >= 400*time.Millisecond && !slices.Equal(got, []uint16{65535}):
			t.Errorf("at %v: asked for %v", at, got)
		default:
			asked = append(asked, at)
		}
		if at == 390*time.Millisecond {
			a.take(at, 0) // late, or repeated
		}
	}
	want := []time.Duration{100, 200, 350, 600, 1000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked at %v, want %v", asked, want)
	}
	if len(a.missing) != 0 {
		t.Errorf("still missing: %v", a.missing)
	}
}

func TestWhatIsMissingIsBounded(t *testing.T) {
	a := newArrivals()
	a.take(0, 0, maxMissing+1)
	if n := len(a.missing); n != maxMissing {
		t.Errorf("%d missing, want %d", n, maxMissing)
	}
	a.take(0, maxMissing+4) // two more: the two oldest are given up
	if n := len(a.missing); n != maxMissing || a.missing[0].seq != 3 {
		t.Errorf("%d missing from %d on, want %d from 3 on", n, a.missing[0].seq, maxMissing)
	}
	a.take(0, 3*maxMissing)
	if n := len(a.missing); n != 0 {
		t.Errorf("%d are asked for after a gap of %d", n, 2*maxMissing)
	}
	a.take(0, 30000, 100, 30001, 101, 102, 104) // one packet from far behind is a stray, two in a row are a sender that begins anew
	if got := a.wanted(time.Minute); !slices.Equal(got, []uint16{103}) || uint16(a.top) != 104 {
		t.Errorf("after a new start %v is missing and %d the highest", got, a.top)
	}
}

func TestReportsCountLossAndDelay(t *testing.T) {
	a := newArrivals()
	for s := range uint16(100) {
		if s%4 != 3 {
			a.note(65500+s, uint32(s)*frameTicks, time.Duration(s)*time.Second/30)
		}
	}
	a.lastSR, a.lastSRAt = 7, 3*time.Second
	r := a.report(5, 3500*time.Millisecond)
	// 65500 to 65598 were expected, 99 with the last one of the highest; 24 of them did not come.
	want := rtcp.ReceptionReport{SSRC: 5, FractionLost: 24 * 256 / 99, TotalLost: 24, LastSequenceNumber: 65598, LastSenderReport: 7, Delay: 32768}
	if r.Jitter > 90 {
		t.Errorf("jitter %d of an even stream, in ticks of 11 µs", r.Jitter)
	}
	if r.Jitter = 0; r != want {
		t.Errorf("report %+v, want %+v", r, want)
	}
	a.take(4*time.Second, 64, 65, 66)
	if r = a.report(5, 4*time.Second); r.FractionLost != 256/4 || r.TotalLost != 25 {
		t.Errorf("the next report says %+v, want a quarter lost of what came since", r)
	}
	if a.take(5*time.Second, 66, 66, 66, 66, 66); a.report(5, 5*time.Second).FractionLost != 0 {
		t.Error("packets that came twice are told as lost")
	}
}

// TestTransportNumberIsFoundInAllForms holds the reader of headers against pion/rtp's writer, and cuts every packet short.
func TestTransportNumberIsFoundInAllForms(t *testing.T) {
	for _, profile := range []uint16{rtp.ExtensionProfileOneByte, rtp.ExtensionProfileTwoByte} {
		p := rtp.Packet{Header: rtp.Header{Version: 2, CSRC: []uint32{1, 2}, Extension: true, ExtensionProfile: profile}, Payload: []byte{1}}
		for id, data := range map[uint8][]byte{1: {9, 9, 9}, 3: {0x12, 0x34}, 5: {7}} {
			if err := p.SetExtension(id, data); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := transportNumber(raw, 3); !ok || n != 0x1234 {
			t.Errorf("profile %x: %x, %v", profile, n, ok)
		}
		if _, ok := transportNumber(raw, 4); ok {
			t.Errorf("profile %x: found an extension that is not there", profile)
		}
		for n := 12; n < len(raw); n++ {
			_, _ = transportNumber(raw[:n:n], 3) // must not look past the end
		}
	}
}

func TestNothingIsAllocatedForAPacket(t *testing.T) {
	f := newFeedback(1)
	info := &interceptor.StreamInfo{SSRC: 9, ClockRate: 90000, RTPHeaderExtensions: []interceptor.RTPHeaderExtension{{URI: sdp.TransportCCURI, ID: 3}},
		RTCPFeedback: []interceptor.RTCPFeedback{{Type: "nack"}}}
	p := rtp.Packet{Header: rtp.Header{Version: 2, SSRC: 9}, Payload: make([]byte, 1000)}
	if err := p.SetExtension(3, []byte{0, 0}); err != nil {
		t.Fatal(err)
	}
	raw, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var seq uint16
	reader := f.BindRemoteStream(info, interceptor.RTPReaderFunc(func(b []byte, a interceptor.Attributes) (int, interceptor.Attributes, error) {
		seq++
		n := copy(b, raw)
		binary.BigEndian.PutUint16(b[2:], seq)
		binary.BigEndian.PutUint16(b[17:], seq)
		return n, a, nil
	}))
	b := make([]byte, receiveMTU)
	read := func() { _, _, _ = reader.Read(b, nil) }
	for range 2000 { // the record of arrivals grows to its size
		read()
	}
	if n := testing.AllocsPerRun(1000, read); n > 0.01 {
		t.Errorf("%g allocations for each packet", n)
	}
	packets := f.due(true, time.Second)
	if len(packets) < 2 {
		t.Fatalf("%v is told after 3000 packets, want a report and arrival times", packets)
	}
	if r, ok := packets[0].(*rtcp.ReceiverReport); !ok || len(r.Reports) != 1 || r.Reports[0].SSRC != 9 || r.Reports[0].TotalLost != 0 {
		t.Errorf("report %v", packets[0])
	}
	arrived := 0
	for _, p := range packets[1:] {
		cc, ok := p.(*rtcp.TransportLayerCC)
		if !ok {
			t.Fatalf("%T among the arrival times", p)
		}
		arrived += len(cc.RecvDeltas)
	}
	if arrived < 1000 {
		t.Errorf("%d arrivals are told of 3000", arrived)
	}
}
