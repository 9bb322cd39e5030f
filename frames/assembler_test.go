package frames

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func asleep(c Codec) *assembler {
	a, err := newAssembler(c)
	if err != nil {
		panic(err)
	}
	return &a
}

// check holds whatever was pushed. Tests call it after every step.
func (a *assembler) check() error {
	held, size := 0, 0
	for i := range a.ring {
		if a.held == 0 && a.scan%61 != 0 {
			break // the full sweep is slow: now and then will find what is left behind
		}
		s := &a.ring[i]
		if !s.full {
			if s.pkt.data != nil {
				return fmt.Errorf("slot %d is empty and holds a payload", i)
			}
			continue
		}
		held, size = held+1, size+len(s.pkt.data)
		if s.ext <= a.scan || s.ext >= a.scan+ringPackets || s.ext > a.seq.high {
			return fmt.Errorf("slot %d holds packet %d, outside (%d, %d) or over %d", i, s.ext, a.scan, a.scan+ringPackets, a.seq.high)
		}
	}
	switch {
	case held != a.held || size != a.heldBytes:
		return fmt.Errorf("ring holds %d packets, %d bytes; counted %d, %d", held, size, a.held, a.heldBytes)
	case a.heldBytes > ringBytes:
		return fmt.Errorf("ring holds %d bytes", a.heldBytes)
	case held == 0 && !a.holeAt.IsZero(), held > 0 && a.holeAt.IsZero():
		return fmt.Errorf("%d held, hole since %v", held, a.holeAt)
	case a.cur != nil && a.skip:
		return fmt.Errorf("a frame is in work and skipped")
	case a.cur != nil && a.needKey && !a.cur.key:
		return fmt.Errorf("an inter frame is in work behind a broken chain")
	case a.cur != nil && (len(a.cur.data) > frameBytes || a.packets > framePackets):
		return fmt.Errorf("frame in work has %d bytes in %d packets", len(a.cur.data), a.packets)
	case len(a.spare) > spareFrames:
		return fmt.Errorf("%d spare frames", len(a.spare))
	case !a.active && (held > 0 || a.cur != nil || len(a.spare) > 0):
		return fmt.Errorf("asleep and holding memory")
	}
	return nil
}

// testFrame makes n bytes that pass for a VP8 frame; tag makes each one different.
func testFrame(key bool, tag, n int) []byte {
	b := make([]byte, max(n, 16))
	head := uint32(1<<4 | 1<<5) // shown, first partition of one byte
	if !key {
		head |= 1
	}
	b[0], b[1], b[2] = byte(head), byte(head>>8), byte(head>>16)
	if key {
		copy(b[3:], []byte{0x9d, 0x01, 0x2a, 0x80, 0x02, 0xe0, 0x01}) // 640×480
	}
	binary.BigEndian.PutUint32(b[10:], uint32(tag))
	for i := 14; i < len(b); i++ {
		b[i] = byte(tag + i)
	}
	return b
}

// sender packetizes frames as a publisher does.
type sender struct {
	seq  uint16
	ts   uint32
	mtu  uint16
	pay  codecs.VP8Payloader
	as   *testCodec // nil: VP8 by pay
	sent [][]byte
}

// packets gives one frame's packets and moves 1/30 s on.
func (s *sender) packets(frame []byte) []*rtp.Packet {
	var ps []*rtp.Packet
	var parts [][]byte
	if s.as != nil {
		parts = s.as.pay.Payload(max(s.mtu, 100), frame)
	} else {
		parts = s.pay.Payload(max(s.mtu, 100), frame)
	}
	for i, part := range parts {
		ps = append(ps, &rtp.Packet{
			Header:  rtp.Header{Version: 2, PayloadType: 96, SequenceNumber: s.seq, Timestamp: s.ts, Marker: i == len(parts)-1},
			Payload: part,
		})
		s.seq++
	}
	s.ts += 3000
	s.sent = append(s.sent, frame)
	return ps
}

// frame makes n bytes that pass for a frame of the sender's codec.
func (s *sender) frame(key bool, tag, n int) []byte {
	if s.as != nil {
		return s.as.frame(key, tag, n)
	}
	return testFrame(key, tag, n)
}

// pad gives a padding-only packet, as a bandwidth probe sends.
func (s *sender) pad() *rtp.Packet {
	p := &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: s.seq, Timestamp: s.ts, Padding: true, PaddingSize: 200}}
	s.seq++
	return p
}

// clip packetizes n frames of size bytes; every gop-th is a key frame.
func (s *sender) clip(n, gop, size int) (ps []*rtp.Packet) {
	for i := range n {
		ps = append(ps, s.packets(s.frame(i%gop == 0, len(s.sent), size))...)
	}
	return ps
}

// receiver runs an assembler, checks it after each step and copies what comes out.
type receiver struct {
	t        *testing.T
	a        *assembler
	at       time.Time
	got      [][]byte
	temporal temporal // of the newest
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, a: asleep(CodecVP8), at: t0}
	r.a.wake()
	return r
}

func (r *receiver) push(ps ...*rtp.Packet) {
	r.t.Helper()
	for _, p := range ps {
		r.take(r.a.push(p, r.at))
		r.at = r.at.Add(time.Millisecond)
	}
}

func (r *receiver) wait(d time.Duration) {
	r.t.Helper()
	r.at = r.at.Add(d)
	r.take(r.a.tick(r.at))
}

func (r *receiver) take(fs []*frame) {
	r.t.Helper()
	for _, f := range fs {
		r.got = append(r.got, bytes.Clone(f.data))
		r.temporal = f.temporal
		r.a.recycle(f)
	}
	if err := r.a.check(); err != nil {
		r.t.Fatal(err)
	}
}

// want compares what came with the sent frames of these numbers.
func (r *receiver) want(s *sender, numbers ...int) {
	r.t.Helper()
	var got []int
	for _, g := range r.got {
		n := -1
		for i, f := range s.sent {
			if bytes.Equal(f, g) {
				n = i
			}
		}
		got = append(got, n)
	}
	if fmt.Sprint(got) != fmt.Sprint(numbers) {
		r.t.Fatalf("frames %v came, want %v (packets %+v, frames %+v, lost %d)", got, numbers, r.a.pdrops, r.a.fdrops, r.a.seq.lost)
	}
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

func (r *receiver) clean() {
	r.t.Helper()
	if r.a.pdrops != (PacketDrops{}) || r.a.fdrops != (FrameDrops{}) || r.a.seq.lost != 0 || r.a.needKey || r.a.resets != 0 {
		r.t.Fatalf("drops %+v %+v, lost %d, need key %v, resets %d", r.a.pdrops, r.a.fdrops, r.a.seq.lost, r.a.needKey, r.a.resets)
	}
}

func TestSequenceWrapWithoutLossChangesNothing(t *testing.T) {
	s, r := &sender{seq: 65500, ts: 1<<32 - 30000}, newReceiver(t)
	for i := range 100 {
		for _, p := range s.packets(testFrame(i == 0, i, 300)) {
			r.push(p)
		}
		if len(r.got) != i+1 {
			t.Fatalf("after frame %d: %d came: not the moment it is whole", i, len(r.got))
		}
	}
	r.want(s, upTo(100)...)
	r.clean()
}

func TestReorderedPacketsMakeTheSameFrames(t *testing.T) {
	for distance := 2; distance <= 10; distance++ {
		for _, seq := range []uint16{7, 65500} {
			s, r := &sender{seq: seq, ts: 5}, newReceiver(t)
			ps := s.clip(60, 60, 450)
			r.push(ps[0])
			for rest := ps[1:]; len(rest) > 0; {
				n := min(distance, len(rest))
				for i := n - 1; i >= 0; i-- {
					r.push(rest[i])
				}
				rest = rest[n:]
			}
			r.want(s, upTo(60)...)
			r.clean()
		}
	}
}

func TestDuplicatesAndReplaysAreDropped(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	ps := s.clip(40, 40, 450)
	for i, p := range ps {
		r.push(p, p)
		if i >= 50 {
			r.push(ps[i-50]) // as RTX probing sends it on a loss-free link
		}
	}
	r.want(s, upTo(40)...)
	if d := r.a.pdrops.Duplicate; d != uint64(2*len(ps)-50) {
		t.Errorf("%d duplicates counted, want %d", d, 2*len(ps)-50)
	}
	r.a.pdrops.Duplicate = 0
	r.clean()
}

func TestPaddingCountsForContinuityOnly(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	for i := range 20 {
		ps := s.packets(testFrame(i == 0, i, 450))
		r.push(ps...)
		for range i % 4 {
			r.push(s.pad())
		}
	}
	r.want(s, upTo(20)...)
	r.clean()
}

func TestLossHoldsEverythingBackToTheKeyFrame(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	ps := s.clip(30, 20, 450) // five packets a frame
	for i, p := range ps {
		if i == 5*5+2 {
			continue // the middle of frame 5
		}
		r.push(p)
		r.at = r.at.Add(5 * time.Millisecond)
	}
	r.want(s, 0, 1, 2, 3, 4, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29)
	if d := r.a.fdrops; d.Incomplete != 1 || d.NeedKey != 14 {
		t.Errorf("drops %+v, want 1 incomplete and 14 without a key frame", d)
	}
	r.push(s.clip(40, 100, 450)...)
	if r.a.seq.lost != 1 {
		t.Errorf("%d packets lost, want 1", r.a.seq.lost)
	}
}

func TestGapIsWaitedForAndThenGivenUp(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	ps := s.clip(4, 4, 450)
	r.push(ps[:7]...)
	r.push(ps[8:]...)
	r.want(s, 0)
	r.wait(holeWait - 20*time.Millisecond)
	if r.a.needKey {
		t.Fatal("given up early")
	}
	r.push(ps[7])
	r.want(s, 0, 1, 2, 3)
	r.clean()

	ps = s.clip(1, 2, 450)
	r.push(ps[0])
	r.push(ps[2:]...)
	r.wait(holeWait)
	if !r.a.needKey || r.a.held != 0 {
		t.Fatalf("need key %v, %d packets held: want the gap given up", r.a.needKey, r.a.held)
	}
	r.push(ps[1])
	if r.a.pdrops.Late != 1 {
		t.Errorf("packet drops %+v, want one late", r.a.pdrops)
	}
}

func TestKeyFrameBehindAGapIsNotWaitedFor(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	ps := s.clip(3, 3, 450)
	r.push(ps[:5]...)
	r.push(ps[6:]...)
	r.wait(holeWait) // chain broken
	lost := s.clip(1, 5, 450)
	lost[0].Payload[1] |= 1 // an inter frame
	r.push(lost[1:]...)
	r.push(s.packets(testFrame(true, 99, 450))...)
	r.want(s, 0, 4)
}

func TestEveryFrameLosesEachPacketInTurn(t *testing.T) {
	for lose := range 3 * 5 {
		s, r := &sender{}, newReceiver(t)
		ps := s.clip(3, 100, 450)
		ps = append(ps, s.clip(2, 2, 450)...)
		for i, p := range ps {
			if i != lose {
				r.push(p)
			}
		}
		r.wait(holeWait)
		want := append(upTo(lose/5), 3, 4)
		r.want(s, want...)
	}
}

func TestFrameWithoutMarkerEndsAtTheNextStart(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	ps := s.clip(10, 10, 450)
	for _, p := range ps {
		p.Marker = false
	}
	r.push(ps...)
	r.want(s, upTo(9)...)
}

func TestStartOfALaterPartitionIsNoStartOfAFrame(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	r.push(s.packets(testFrame(true, 0, 450))...)
	ps := s.packets(testFrame(false, 1, 450))
	ps[2].Payload[0] |= 0x12 // S=1, PID=2
	r.push(ps...)
	r.want(s, 0, 1)
	ps = s.packets(testFrame(false, 2, 450))
	ps[2].Payload[0] |= 0x12
	r.push(ps[2:]...) // without its head it must not come out as a frame that starts at the partition
	r.wait(holeWait)
	r.want(s, 0, 1)
}

func TestTwoStartsInOneTimestampAreNoFrame(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	r.push(s.packets(testFrame(true, 0, 450))...)
	ps := s.packets(testFrame(false, 1, 450))
	ps[2].Payload[0] |= 0x10
	r.push(ps...)
	r.want(s, 0)
	if !r.a.needKey {
		t.Error("chain is not broken")
	}
}
