package rtc

import (
	"strings"
	"testing"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtcp"
)

// TestFaultRepairedPacketsAreNotAskedForAgain: of every 20 packets one is lost, and each request is answered once by a retransmission stream.
// None is asked for again after it came by that way (pion/webrtc#3063: 24 times).
func TestFaultRepairedPacketsAreNotAskedForAgain(t *testing.T) {
	const base, repair = 7, 8
	f := newFeedback(1)
	nack := []interceptor.RTCPFeedback{{Type: "nack"}}
	for _, ssrc := range []uint32{base, repair} {
		f.BindRemoteStream(&interceptor.StreamInfo{SSRC: ssrc, ClockRate: 90000, RTCPFeedback: nack}, nil)
	}
	lost, asked := 0, map[uint16]int{}
	for n := range 2000 {
		at := time.Duration(n) * 5 * time.Millisecond
		seq := uint16(65000 + n)
		if n%20 == 10 {
			lost++
		} else {
			f.arrived(base, f.streams[base], []byte{0x80, 96, byte(seq >> 8), byte(seq), 0, 0, 0, 0, 0, 0, 0, base}, at)
		}
		for _, p := range f.requests(nil, at) {
			r, ok := p.(*rtcp.TransportLayerNack)
			if !ok || r.MediaSSRC != base {
				t.Fatalf("request %+v", p)
			}
			for _, pair := range r.Nacks {
				pair.Range(func(seq uint16) bool {
					asked[seq]++
					f.healed(base, repair, seq)
					return true
				})
			}
		}
	}
	if len(asked) != lost {
		t.Errorf("%d packets of %d lost were asked for", len(asked), lost)
	}
	for seq, n := range asked {
		if n != 1 {
			t.Errorf("packet %d was asked for %d times, and came after the first", seq, n)
		}
	}
}

// TestFaultLayersWithoutTheirNames: an offer names layers by RID, and the packets do not (pion/webrtc#2680). Nobody can tell whose they are: they
// are read by nobody and harm nobody, the call stays.
func TestFaultLayersWithoutTheirNames(t *testing.T) {
	e := newEngine(t, nil)
	good := goodNeighbour(t, e)
	_, w, peer, s := goWild(t, e, func(offer string) string {
		return strings.TrimSuffix(withoutSSRCs(offer), "\r\n") + "\r\na=rid:q send\r\na=rid:h send\r\na=simulcast:send q;h\r\n"
	})
	for seq := range uint16(200) {
		w.write(4711, seq)
		w.write(4712, seq)
		time.Sleep(time.Millisecond) // at a sender's pace
	}
	good.unharmed(t)
	if st := peer.Stats(); st.State != StateConnected || s.saw(StateClosed) || e.Stats().StuckCloses != 0 {
		t.Errorf("the peer is %s, engine %+v", st.State, e.Stats())
	}
	peer.Close()
	waitDone(t, peer)
}
