package frames

import (
	"bytes"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
)

func TestJumps(t *testing.T) {
	t.Run("sequence", func(t *testing.T) {
		s, r := &sender{}, newReceiver(t)
		r.push(s.clip(3, 3, 450)...)
		s.seq += 30000
		r.push(s.clip(3, 3, 450)...)
		r.want(s, upTo(6)...)
		if r.a.resets != 1 || r.a.seq.lost != 0 {
			t.Errorf("%d resets, %d lost: want 1, 0", r.a.resets, r.a.seq.lost)
		}
	})
	t.Run("sequence, a little back", func(t *testing.T) {
		s, r := &sender{seq: 10000}, newReceiver(t)
		r.push(s.clip(3, 3, 450)...)
		s.seq -= 2000
		r.push(s.clip(3, 3, 450)...)
		r.want(s, upTo(6)...)
	})
	t.Run("sequence, to an inter frame", func(t *testing.T) {
		s, r := &sender{}, newReceiver(t)
		r.push(s.clip(3, 3, 450)...)
		s.seq -= 20000
		for i := range 3 {
			r.push(s.packets(testFrame(false, 50+i, 450))...)
		}
		r.want(s, 0, 1, 2)
		if !r.a.needKey {
			t.Error("no key frame wanted")
		}
	})
	t.Run("one stray packet", func(t *testing.T) {
		s, r := &sender{}, newReceiver(t)
		ps := s.clip(4, 4, 450)
		r.push(ps[:8]...)
		r.push(&rtp.Packet{Header: rtp.Header{SequenceNumber: 40000, Timestamp: 77}, Payload: []byte{0x10, 1}})
		r.push(ps[8:]...)
		r.want(s, 0, 1, 2, 3)
		if r.a.pdrops.Stray != 1 {
			t.Errorf("packet drops %+v, want one stray", r.a.pdrops)
		}
	})
	t.Run("timestamp", func(t *testing.T) {
		s, r := &sender{}, newReceiver(t)
		r.push(s.clip(3, 3, 450)...)
		s.ts += 20 * videoClock
		r.push(s.packets(testFrame(false, 50, 450))...)
		r.push(s.clip(3, 3, 450)...)
		r.want(s, 0, 1, 2, 4, 5, 6)
	})
	t.Run("timestamp after a pause as long", func(t *testing.T) {
		s, r := &sender{}, newReceiver(t)
		r.push(s.clip(3, 3, 450)...)
		s.ts += 60 * videoClock
		r.at = r.at.Add(60 * time.Second)
		r.push(s.packets(testFrame(false, 50, 450))...)
		r.want(s, 0, 1, 2, 3)
		r.clean()
	})
	t.Run("gap within the sequence's reach", func(t *testing.T) {
		s, r := &sender{}, newReceiver(t)
		r.push(s.clip(3, 3, 450)...)
		s.seq += 2000
		r.push(s.clip(3, 3, 450)...)
		r.want(s, upTo(6)...)
		if r.a.seq.lost < 2000-settleBehind {
			t.Errorf("%d lost, want 2000 or nearly", r.a.seq.lost)
		}
	})
}

func TestFrameWithNeitherEndNorStartBetween(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	r.push(s.packets(testFrame(true, 0, 450))...)
	a, b := s.packets(testFrame(false, 1, 450)), s.packets(testFrame(false, 2, 450))
	for i, p := range b[1:] { // numbered as if nothing was missing: the sender's own fault
		p.SequenceNumber = a[3].SequenceNumber + uint16(i)
	}
	r.push(a[:3]...)
	r.push(b[1:]...)
	r.want(s, 0)
	if !r.a.needKey {
		t.Error("chain is not broken")
	}
}

func TestPictureIDs(t *testing.T) {
	t.Run("counting ids betray a frame taken out", func(t *testing.T) {
		s, r := &sender{pay: codecs.VP8Payloader{EnablePictureID: true}}, newReceiver(t)
		r.push(s.clip(20, 100, 450)...)
		s.pay.Payload(1000, []byte{1, 2, 3}) // uses up one id, but no sequence number
		r.push(s.packets(testFrame(false, 50, 450))...)
		r.push(s.clip(2, 2, 450)...)
		r.want(s, append(upTo(20), 21, 22)...)
	})
	t.Run("ids that stand still mean nothing", func(t *testing.T) {
		s, r := &sender{}, newReceiver(t)
		for i := range 40 {
			ps := s.packets(testFrame(i == 0, i, 450))
			for _, p := range ps {
				p.Payload = append([]byte{p.Payload[0] | 0x80, 0x80, 5}, p.Payload[1:]...)
			}
			r.push(ps...)
		}
		r.want(s, upTo(40)...)
		r.clean()
	})
	t.Run("ids of 7 and 15 bits wrap", func(t *testing.T) {
		for _, long := range []bool{false, true} {
			s, r := &sender{}, newReceiver(t)
			for i := range 300 {
				id := []byte{byte(i) & 0x7f}
				if long {
					n := 32700 + i
					id = []byte{byte(n>>8) | 0x80, byte(n)}
				}
				ps := s.packets(testFrame(i == 0, i, 150))
				for _, p := range ps {
					p.Payload = append(append([]byte{p.Payload[0] | 0x80, 0x80}, id...), p.Payload[1:]...)
				}
				r.push(ps...)
			}
			r.want(s, upTo(300)...)
			r.clean()
		}
	})
}

// descriptors are valid ones of every shape, each with one byte of data.
var descriptors = [][]byte{
	{0x10, 0xaa},
	{0x90, 0x80, 0x05, 0xaa},
	{0x90, 0x80, 0x81, 0x94, 0xaa},
	{0x90, 0xc0, 0x81, 0x94, 0x07, 0xaa},
	{0x90, 0xe0, 0x81, 0x94, 0x07, 0x40, 0xaa},
	{0x90, 0xf0, 0x81, 0x94, 0x07, 0x41, 0xaa},
	{0x90, 0x10, 0x01, 0xaa},
	{0x90, 0x20, 0x40, 0xaa},
	{0x90, 0x40, 0x07, 0xaa},
	{0x90, 0x00, 0xaa},
	{0x81, 0x81, 0x94}, // pion/rtp#254
}

func TestEveryPrefixOfADescriptorIsCounted(t *testing.T) {
	for _, d := range descriptors[:len(descriptors)-1] {
		p, err := parseVP8(d)
		if err != nil || len(p.data) != 1 || !p.start {
			t.Errorf("% x: %+v, %v", d, p, err)
		}
	}
	for _, d := range descriptors {
		for n := 1; n <= len(d); n++ {
			if _, err := parseVP8(d[:n]); err == nil {
				continue
			}
			s, r := &sender{}, newReceiver(t)
			r.push(s.clip(2, 2, 450)...)
			r.push(&rtp.Packet{Header: rtp.Header{SequenceNumber: s.seq, Timestamp: s.ts, Marker: true}, Payload: d[:n]})
			s.seq++
			r.push(s.packets(testFrame(false, 50, 450))...)
			r.push(s.clip(2, 2, 450)...)
			r.want(s, 0, 1, 3, 4)
			if r.a.pdrops.Malformed != 1 || r.a.fdrops.Incomplete != 1 || r.a.fdrops.NeedKey != 1 {
				t.Errorf("% x: %+v %+v", d[:n], r.a.pdrops, r.a.fdrops)
			}
		}
	}
	for n := range 3 {
		if _, err := parseVP8([]byte{0x81, 0x81, 0x94}[:n+1]); err == nil {
			t.Errorf("81 81 94 cut to %d bytes passes", n+1)
		}
	}
}

func TestImpossibleFramesAreRefusedBeforeADecoder(t *testing.T) {
	huge := testFrame(true, 1, 200)
	copy(huge[6:], []byte{0xff, 0x3f, 0xff, 0x3f})
	garbage := bytes.Repeat([]byte{0x5a, 0x21}, 100)
	cut := testFrame(true, 1, 200)
	cut[1], cut[2] = 0xff, 0xff
	for name, bad := range map[string][]byte{"16383×16383 of 200 bytes": huge, "random bytes": garbage, "first partition cut": cut, "one byte": {0}} {
		t.Run(name, func(t *testing.T) {
			s, r := &sender{}, newReceiver(t)
			r.push(s.clip(2, 2, 450)...)
			r.push(s.packets(bad)...)
			r.push(s.packets(testFrame(false, 50, 450))...)
			r.push(s.clip(2, 2, 450)...)
			r.want(s, 0, 1, 4, 5)
			if r.a.fdrops.Refused != 1 || r.a.width != 640 || r.a.height != 480 {
				t.Errorf("%+v, size %d×%d", r.a.fdrops, r.a.width, r.a.height)
			}
		})
	}
}

func TestFramesAreBounded(t *testing.T) {
	t.Run("packets", func(t *testing.T) {
		s, r := &sender{mtu: 101}, newReceiver(t)
		r.push(s.packets(testFrame(true, 0, 100*(framePackets+1)))...)
		r.push(s.packets(testFrame(true, 1, 100*framePackets))...)
		r.want(s, 1)
		if r.a.fdrops.TooBig != 1 {
			t.Errorf("%+v", r.a.fdrops)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		s, r := &sender{mtu: 60001}, newReceiver(t)
		r.push(s.packets(testFrame(true, 0, frameBytes+1))...)
		r.push(s.packets(testFrame(true, 1, frameBytes))...)
		r.want(s, 1)
	})
	t.Run("bytes behind a gap", func(t *testing.T) {
		s, r := &sender{mtu: 60001}, newReceiver(t)
		r.push(s.clip(1, 1, 450)...)
		s.seq++
		at := r.at
		for range 30 {
			r.push(s.packets(testFrame(false, 1, 240000))...)
			r.at = at // no time passes: only the bound can end the wait
		}
		if !r.a.needKey || r.a.heldBytes > ringBytes {
			t.Errorf("need key %v, %d bytes held", r.a.needKey, r.a.heldBytes)
		}
	})
}

func TestAsleepItOnlyCounts(t *testing.T) {
	s, r := &sender{}, newReceiver(t)
	r.push(s.clip(5, 5, 450)[:23]...)
	r.a.sleep()
	ps := s.clip(100, 100, 450)
	r.push(ps[:30]...)
	r.push(ps[32:]...)
	r.push(ps[40])
	r.want(s, 0, 1, 2, 3)
	if r.a.seq.lost != 4 || r.a.pdrops.Duplicate != 1 || r.a.width != 640 {
		t.Errorf("lost %d, %+v, width %d", r.a.seq.lost, r.a.pdrops, r.a.width)
	}
	r.a.wake()
	r.push(s.packets(testFrame(false, 50, 450))...)
	r.push(s.clip(2, 2, 450)...)
	r.want(s, 0, 1, 2, 3, 106, 107)
}

func TestMeter(t *testing.T) {
	var m meter
	for i := range 91 {
		m.add(500, true, t0.Add(time.Duration(i)*time.Second/30))
	}
	if fps, bps := m.rates(t0.Add(3 * time.Second)); fps < 29 || fps > 31 || bps < 116e3 || bps > 124e3 {
		t.Errorf("%v frames/s, %v bits/s; want 30 and 120000", fps, bps)
	}
	if fps, bps := m.rates(t0.Add(6 * time.Second)); fps != 0 || bps != 0 {
		t.Errorf("after a silence of 3 s: %v, %v", fps, bps)
	}
}
