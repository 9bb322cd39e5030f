package frames

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"pgregory.net/rapid"

	"sightline/frames/internal/av1hdr"
)

// testCodec makes frames of a codec that pass for real ones, and what a sender does with them.
type testCodec struct {
	codec Codec
	pay   rtp.Payloader
	frame func(key bool, tag, n int) []byte
	tells func(payload []byte) int // how many of a payload's first bytes can be left alone by a cut that must be noticed
}

func testCodecs() []*testCodec { return []*testCodec{testH264(), testVP9(), testAV1()} }

// filler is n bytes, none of them 0, that differ by tag.
func filler(dst []byte, tag, n int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(tag)*2654435761|0x01010101)
	for len(dst) < n {
		dst = append(dst, byte(tag+len(dst))|0x80)
	}
	return dst
}

// Of the clips of 320×240 in decodertest.
var (
	testSPS      = []byte{0x67, 0x42, 0xc0, 0x0d, 0xda, 0x05, 0x07, 0xe9, 0xa8, 0x10, 0x10, 0x2a, 0x00, 0x00, 0x03, 0x00, 0x02, 0x00, 0x00, 0x03, 0x00, 0x79, 0x1e, 0x28, 0x55, 0x40}
	testPPS      = []byte{0x68, 0xce, 0x09, 0xc8}
	testSequence = []byte{0x00, 0x00, 0x00, 0x04, 0x3c, 0xff, 0xbc, 0xda, 0xf9, 0x10, 0x20, 0x20, 0x50, 0x40}
)

func annexB(nals ...[]byte) (b []byte) {
	for _, n := range nals {
		b = append(append(b, 0, 0, 0, 1), n...)
	}
	return b
}

func testH264() *testCodec {
	return &testCodec{
		codec: CodecH264, pay: &codecs.H264Payloader{},
		frame: func(key bool, tag, n int) []byte {
			if key {
				return annexB(testSPS, testPPS, filler([]byte{0x65, 0x88, 0x80}, tag, n))
			}
			return annexB(filler([]byte{0x41, 0x9a, 0x80}, tag, n))
		},
		tells: func(payload []byte) int {
			if payload[0]&0x1f == h264FUA {
				return 2
			}
			return 1
		},
	}
}

func testVP9() *testCodec {
	return &testCodec{
		codec: CodecVP9, pay: &codecs.VP9Payloader{FlexibleMode: true, InitialPictureIDFn: func() uint16 { return 32700 }},
		frame: func(key bool, tag, n int) []byte {
			if key { // profile 0, shown, BT.601, 640×480: 16 bits each from the middle of a byte on
				return filler([]byte{0x82, 0x49, 0x83, 0x42, 0x20, 0x27, 0xf0, 0x1d, 0xf0}, tag, n)
			}
			return filler([]byte{0x86, 0x00, 0x40, 0x92, 0x80}, tag, n) // inter, shown, its size from a reference
		},
		tells: func(payload []byte) int { return 3 },
	}
}

func testAV1() *testCodec {
	return &testCodec{
		codec: CodecAV1, pay: &codecs.AV1Payloader{},
		frame: func(key bool, tag, n int) (b []byte) {
			if key {
				b = av1hdr.AppendOBU(b, av1hdr.OBU{Type: av1hdr.TypeSequence, Payload: testSequence})
				return av1hdr.AppendOBU(b, av1hdr.OBU{Type: av1hdr.TypeFrame, Payload: filler([]byte{0x10}, tag, n)})
			}
			return av1hdr.AppendOBU(b, av1hdr.OBU{Type: av1hdr.TypeFrame, Payload: filler([]byte{0x30}, tag, n)})
		},
		tells: func(payload []byte) int { return 1 },
	}
}

func TestEveryCodecComesOutAsItWentIn(t *testing.T) {
	for _, c := range testCodecs() {
		for _, mtu := range []uint16{100, 1200} {
			s, r := &sender{seq: 65500, ts: 1<<32 - 30000, mtu: mtu, as: c}, newReceiver(t)
			r.a = asleep(c.codec)
			r.a.wake()
			for i := range 100 {
				for _, p := range s.packets(s.frame(i%30 == 0, i, 300)) {
					r.push(p)
				}
				if len(r.got) != i+1 {
					t.Fatalf("%s: after frame %d: %d came: not the moment it is whole", c.codec, i, len(r.got))
				}
			}
			r.want(s, upTo(100)...)
			r.clean()
			if r.a.width == 0 || r.a.keys != 4 {
				t.Errorf("%s: %d×%d, %d key frames", c.codec, r.a.width, r.a.height, r.a.keys)
			}
		}
	}
}

func TestEveryCodecLosesEachPacketInTurn(t *testing.T) {
	for _, c := range testCodecs() {
		probe := (&sender{as: c}).clip(3, 100, 450)
		for lose := range probe {
			s, r := &sender{as: c}, newReceiver(t)
			r.a = asleep(c.codec)
			r.a.wake()
			ps := s.clip(3, 100, 450)
			frame := int(ps[lose].Timestamp / 3000)
			for i, p := range append(ps, s.clip(2, 2, 450)...) {
				if i != lose {
					r.push(p)
				}
			}
			r.wait(holeWait)
			r.want(s, append(upTo(frame), 3, 4)...)
		}
	}
}

func TestEveryCodecReordered(t *testing.T) {
	for _, c := range testCodecs() {
		for distance := 2; distance <= 7; distance++ {
			s, r := &sender{seq: 65500, ts: 5, as: c}, newReceiver(t)
			r.a = asleep(c.codec)
			r.a.wake()
			ps := s.clip(30, 30, 450)
			r.push(ps[0])
			for rest := ps[1:]; len(rest) > 0; {
				n := min(distance, len(rest))
				for i := n - 1; i >= 0; i-- {
					r.push(rest[i])
				}
				rest = rest[n:]
			}
			r.want(s, upTo(30)...)
			r.clean()
		}
	}
}

func TestEveryCodecUnderAnything(t *testing.T) {
	for _, c := range testCodecs() {
		t.Run(string(c.codec), func(t *testing.T) {
			for name, ops := range fuzzSeeds() {
				if err := mistreat(ops, fresh(c)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				ops := rapid.SliceOfN(rapid.Byte(), 0, 120).Draw(t, "ops")
				if err := mistreat(ops, fresh(c)); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// fresh is the codec with a payloader that has sent nothing.
func fresh(c *testCodec) *testCodec {
	for _, n := range testCodecs() {
		if n.codec == c.codec {
			return n
		}
	}
	return nil
}

func fuzzOps(f *testing.F, c *testCodec) {
	for _, s := range fuzzSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 400 {
			return
		}
		if err := mistreat(ops, fresh(c)); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzAssemblerH264(f *testing.F) { fuzzOps(f, testH264()) }
func FuzzAssemblerVP9(f *testing.F)  { fuzzOps(f, testVP9()) }
func FuzzAssemblerAV1(f *testing.F)  { fuzzOps(f, testAV1()) }

// FuzzPackets feeds packets nobody would send, to the codec that the first byte picks: only bounds and the absence of panics are asked for.
func FuzzPackets(f *testing.F) {
	for i, c := range testCodecs() {
		s := &sender{mtu: 100, as: c}
		b := []byte{byte(i)}
		for _, p := range s.clip(2, 2, 180) {
			head := []byte{0, 1, 0, 1, byte(len(p.Payload))}
			if p.Marker {
				head[2], head[3] = 3, 0x81
			}
			b = append(append(b, head...), p.Payload...)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		a := asleep([]Codec{CodecH264, CodecVP9, CodecAV1}[int(b[0])%3])
		feedRaw(t, a, b[1:])
	})
}

// feedRaw reads packets of 5 bytes of header and their payload out of b.
func feedRaw(t *testing.T, a *assembler, b []byte) {
	at, seq, ts := t0, uint16(65530), uint32(7)
	a.wake()
	for len(b) >= 5 {
		seq += binary.BigEndian.Uint16(b)
		ts += uint32(b[2]) << 10
		at = at.Add(time.Duration(b[3]&0x7f) * time.Millisecond)
		marker, n := b[3]&0x80 != 0, min(int(b[4]), len(b)-5)
		p := &rtp.Packet{Header: rtp.Header{SequenceNumber: seq, Timestamp: ts, Marker: marker}, Payload: b[5 : 5+n]}
		b = b[5+n:]
		for _, f := range a.push(p, at) {
			if len(f.data) == 0 || len(f.data) > frameBytes {
				t.Fatalf("frame of %d bytes", len(f.data))
			}
			a.recycle(f)
		}
		if err := a.check(); err != nil {
			t.Fatal(err)
		}
	}
}
