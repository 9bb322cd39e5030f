package frames

import (
	"fmt"
	"testing"
	"time"

	"github.com/pion/rtp"

	"sightline/frames/internal/av1hdr"
)

// bitWriter writes big-endian bits.
type bitWriter struct {
	b []byte
	n int
}

func (w *bitWriter) put(v uint32, bits int) {
	for i := bits - 1; i >= 0; i-- {
		if w.n%8 == 0 {
			w.b = append(w.b, 0)
		}
		w.b[len(w.b)-1] |= byte(v>>i&1) << (7 - w.n%8)
		w.n++
	}
}

const dependencyID = 11

// av1SVC sends AV1 with three layers in space and dependency descriptors, as Chromium does in mode L3T1.
type av1SVC struct {
	seq, number uint16
	ts          uint32
	n           int
	bare        bool // without sizes
	last        map[byte]uint16
}

// descriptor is that of a layer's frame: one template for each layer, references of its own.
func (s *av1SVC) descriptor(key bool, sid byte, diffs ...uint16) []byte {
	w := &bitWriter{}
	w.put(3, 2) // first and last packet of its frame
	w.put(uint32(sid)+5, 6)
	w.put(uint32(s.number), 16)
	w.put(uint32(b2i(key && sid == 0)), 1)
	w.put(0, 2)
	w.put(1, 1) // references of its own
	w.put(0, 1)
	if key && sid == 0 {
		w.put(5, 6) // first template
		w.put(2, 5) // three decode targets
		w.put(2, 2)
		w.put(2, 2)
		w.put(3, 2)
		w.put(0, 2*9) // what each is to each target
		w.put(0, 3)   // no references
		w.put(0, 2)   // no chains: 0 of 4 in two bits
		w.put(uint32(b2i(!s.bare)), 1)
		for i := 0; i < 3 && !s.bare; i++ {
			w.put(uint32(320<<i-1), 16)
			w.put(uint32(180<<i-1), 16)
		}
	}
	for _, d := range diffs {
		w.put(1, 2)
		w.put(uint32(d-1), 4)
	}
	w.put(0, 2)
	return w.b
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// picture gives the packets of one temporal unit, one for each layer.
func (s *av1SVC) picture(key bool, layers ...byte) (ps []*rtp.Packet) {
	if key || s.last == nil {
		s.last = map[byte]uint16{}
	}
	for i, sid := range layers {
		var diffs []uint16
		if l, ok := s.last[sid]; ok {
			diffs = append(diffs, s.number-l)
		}
		if i > 0 {
			diffs = append(diffs, 1)
		}
		obu := []byte{0x34, sid << 3, 0x30, sid, byte(s.n), 0x11}
		payload := aggregate(0, obu)
		if key && sid == 0 {
			obu[2] = 0x10
			payload = aggregate(av1N, av1Seq, obu)
		}
		p := &rtp.Packet{
			Header:  rtp.Header{Version: 2, SequenceNumber: s.seq, Timestamp: s.ts, Marker: i == len(layers)-1},
			Payload: payload,
		}
		if err := p.SetExtension(dependencyID, s.descriptor(key, sid, diffs...)); err != nil {
			panic(err)
		}
		ps = append(ps, p)
		s.last[sid] = s.number
		s.seq++
		s.number++
	}
	s.ts += 3000
	s.n++
	return ps
}

func newAV1SVC(t *testing.T, side int) (*av1SVC, *receiver) {
	r := newReceiver(t)
	r.a = asleep(CodecAV1)
	r.a.said.ids.Dependency = dependencyID
	r.a.lay.side = side
	r.a.wake()
	return &av1SVC{seq: 65530, number: 65520}, r
}

// units tells which layers' frames came out: "n:[0 1]".
func (r *receiver) units() (all []string) {
	for _, g := range r.got {
		n, layers := 0, []byte{}
		for len(g) > 0 {
			o, rest, err := av1hdr.ParseOBU(g)
			if err != nil {
				r.t.Fatal(err)
			}
			if g = rest; o.Type == av1hdr.TypeFrame {
				layers = append(layers, o.Payload[1])
				n = int(o.Payload[2])
			}
		}
		all = append(all, fmt.Sprintf("%d:%v", n, layers))
	}
	return all
}

func (r *receiver) wantUnits(want ...string) {
	r.t.Helper()
	if got := r.units(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("units %v, want %v", got, want)
	}
}

func TestAV1TheWantedLayerIsChosenBySize(t *testing.T) {
	for _, c := range []struct {
		side  int
		bare  bool
		all   string
		width int
	}{{100, false, "[0]", 320}, {500, false, "[0 1]", 640}, {1024, false, "[0 1 2]", 1280}, {1024, true, "[0]", 320}} {
		s, r := newAV1SVC(t, c.side)
		s.bare = c.bare
		r.push(s.picture(true, 0, 1, 2)...)
		r.push(s.picture(false, 0, 1, 2)...)
		r.wantUnits("0:"+c.all, "1:"+c.all)
		if r.a.width != c.width {
			t.Errorf("wanted %d: %d wide, want %d", c.side, r.a.width, c.width)
		}
		r.clean()
	}
}

func TestAV1LayersGoUpAtKeyFrames(t *testing.T) {
	s, r := newAV1SVC(t, 300)
	r.push(s.picture(true, 0, 1, 2)...)
	r.a.lay.side = 1000
	r.push(s.picture(false, 0, 1, 2)...)
	r.push(s.picture(true, 0, 1, 2)...)
	r.push(s.picture(false, 0, 1)...) // the sender leaves the largest out
	r.push(s.picture(false, 0, 1)...)
	r.wantUnits("0:[0]", "1:[0]", "2:[0 1 2]", "3:[0 1]", "4:[0 1]")
	r.clean()
}

// TestG10AV1LossAboveTheWantedLayerBreaksNothing, as of VP9.
func TestG10AV1LossAboveTheWantedLayerBreaksNothing(t *testing.T) {
	for use, side := range []int{300, 600, 1200} {
		for lose := 3; lose < 12; lose++ {
			s, r := newAV1SVC(t, side)
			i := 0
			for n := range 4 {
				for _, p := range s.picture(n == 0, 0, 1, 2) {
					if i != lose {
						r.push(p)
					}
					i++
				}
			}
			picture, sid := lose/3, lose%3
			if sid > use {
				if len(r.got) != 4 || r.a.needKey || r.a.fdrops != (FrameDrops{}) {
					t.Errorf("layer %d of picture %d lost, %d wanted: %v, need key %v, %+v", sid, picture, use, r.units(), r.a.needKey, r.a.fdrops)
				}
				continue
			}
			r.wait(holeWait)
			if len(r.got) != picture || !r.a.needKey && picture < 3 {
				t.Errorf("layer %d of picture %d lost, %d wanted: %v, need key %v", sid, picture, use, r.units(), r.a.needKey)
			}
		}
	}
}

// What the hole may have held of the wanted layers shows in what the next frames refer to.
func TestG10AV1AFrameThatRefersToWhatDidNotComeBreaksTheChain(t *testing.T) {
	s, r := newAV1SVC(t, 300)
	r.push(s.picture(true, 0, 1, 2)...)
	s.picture(false, 0, 1) // lost
	r.push(s.picture(false, 0, 1, 2)...)
	r.wait(holeWait)
	r.wantUnits("0:[0]")
	if !r.a.needKey {
		t.Error("the chain is whole")
	}
	// A relay takes a unit out and numbers its packets anew: only the references betray it.
	s, r = newAV1SVC(t, 300)
	r.push(s.picture(true, 0, 1, 2)...)
	seq := s.seq
	s.picture(false, 0, 1, 2)
	s.seq = seq
	r.push(s.picture(false, 0, 1, 2)...)
	r.wantUnits("0:[0]")
	if !r.a.needKey {
		t.Error("the chain is whole")
	}
	r.push(s.picture(true, 0, 1, 2)...)
	r.wantUnits("0:[0]", "3:[0]")
}

// FuzzLayers feeds packets of VP9 and AV1 with descriptors that nobody would send: bounds are kept, nothing panics, and what comes out begins with
// a key frame.
func FuzzLayers(f *testing.F) {
	for i, s := range []interface {
		picture(key bool, layers ...byte) []*rtp.Packet
	}{&svc{packets: 2}, &av1SVC{}} {
		b := []byte{byte(i), 3}
		for n := range 3 {
			for _, p := range s.picture(n == 0, 0, 1, 2) {
				d := p.GetExtension(dependencyID)
				b = append(b, 1, byte(n), byte(len(d)), byte(len(p.Payload)), byte(b2i(p.Marker)))
				b = append(append(b, d...), p.Payload...)
			}
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2 {
			return
		}
		a := asleep([]Codec{CodecVP9, CodecAV1}[b[0]&1])
		a.said.ids.Dependency = dependencyID
		a.lay.side = int(b[1]) * 200
		a.wake()
		at, seq, ts, first := t0, uint16(65530), uint32(7), true
		for b = b[2:]; len(b) >= 5; {
			seq += uint16(b[0])
			ts += uint32(b[1]) << 8
			at = at.Add(time.Duration(b[4]>>1) * time.Millisecond)
			p := &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: seq, Timestamp: ts, Marker: b[4]&1 == 1}}
			d, n := min(int(b[2]), len(b)-5), int(b[3])
			if d > 0 {
				if err := p.SetExtension(dependencyID, b[5:5+d]); err != nil {
					d = 0 // too long for one
				}
			}
			b = b[5+d:]
			n = min(n, len(b))
			p.Payload, b = b[:n], b[n:]
			for _, f := range a.push(p, at) {
				if len(f.data) == 0 || len(f.data) > frameBytes || first && !f.key {
					t.Fatalf("frame of %d bytes, key %v", len(f.data), f.key)
				}
				first = false
				a.recycle(f)
			}
			if err := a.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
