package frames

import (
	"crypto/md5"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/pion/rtp"

	"sightline/frames/internal/coded"
)

// received is one packet of a capture.
type received struct {
	*rtp.Packet
	at time.Time
}

// readCapture reads a file of testdata/svc.
func readCapture(t *testing.T, file string) (ps []received) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 6 {
		n, ms := int(binary.BigEndian.Uint16(b)), binary.BigEndian.Uint32(b[2:])
		p := &rtp.Packet{}
		if err := p.Unmarshal(b[6 : 6+n]); err != nil {
			t.Fatal(err)
		}
		ps = append(ps, received{p, t0.Add(time.Duration(ms) * time.Millisecond)})
		b = b[6+n:]
	}
	return ps
}

// shownPicture is what a decoder makes of one frame.
type shownPicture struct {
	width int
	sum   [md5.Size]byte
}

// play assembles and decodes packets; every frame must give a picture.
func play(t *testing.T, c Codec, side int, ps []received) (all []shownPicture, a *assembler) {
	t.Helper()
	a = asleep(c)
	a.said.ids.Dependency = 13
	a.lay.side = side
	a.wake()
	dec, err := newDecoder(c)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	for _, p := range ps {
		for _, f := range a.push(p.Packet, p.at) {
			pic, err := dec.Decode(f.data)
			if errors.Is(err, coded.ErrNoPicture) {
				t.Fatalf("frame %d shows nothing", len(all))
			}
			if err != nil {
				t.Fatalf("frame %d: %v", len(all), err)
			}
			if f.key && f.width != pic.Width {
				t.Fatalf("key frame of %d is said to be %d wide", pic.Width, f.width)
			}
			h := md5.New()
			for y := range pic.Height {
				h.Write(pic.Y[y*pic.YStride:][:pic.Width])
			}
			all = append(all, shownPicture{pic.Width, [md5.Size]byte(h.Sum(nil))})
			a.recycle(f)
		}
	}
	return all, a
}

// TestG10ChromiumsLayersDecode: of what Chromium sends, each layer that is wanted decodes with the size it should have; and when the packets of
// the layers above are lost, the pictures are the same to the bit, all of them, without a wish for a key frame.
func TestG10ChromiumsLayersDecode(t *testing.T) {
	for _, c := range []struct {
		codec Codec
		file  string
	}{{CodecVP9, "testdata/svc/chromium_vp9_l3t3.rtp"}, {CodecAV1, "testdata/svc/chromium_av1_l3t3.rtp"}} {
		t.Run(string(c.codec), func(t *testing.T) {
			ps := readCapture(t, c.file)
			high, a := play(t, c.codec, 1024, ps)
			if len(high) < 20 || a.needKey || a.fdrops != (FrameDrops{}) || high[len(high)-1].width != 640 {
				t.Fatalf("%d pictures, %+v, need key %v", len(high), a.fdrops, a.needKey)
			}
			low, a := play(t, c.codec, 320, ps)
			if len(low) < len(high) || a.fdrops != (FrameDrops{}) {
				t.Fatalf("%d pictures of the lower layer, %d of the higher, %+v", len(low), len(high), a.fdrops)
			}
			for i, p := range low {
				if p.width != 320 {
					t.Fatalf("picture %d is %d wide", i, p.width)
				}
			}
			r := rand.New(rand.NewPCG(1, 2))
			for round := range 8 {
				var kept []received
				for _, p := range ps {
					if upper(t, c.codec, p.Packet) && r.IntN(4) <= round/2 { // in the end all of them
						continue
					}
					kept = append(kept, p)
				}
				got, a := play(t, c.codec, 320, kept)
				if len(got) != len(low) || a.needKey || a.fdrops != (FrameDrops{}) {
					t.Fatalf("%d of %d packets came: %d pictures of %d, %+v, need key %v", len(kept), len(ps), len(got), len(low), a.fdrops, a.needKey)
				}
				for i := range got {
					if got[i] != low[i] {
						t.Fatalf("picture %d is another one", i)
					}
				}
			}
		})
	}
}

// upper reports whether a packet is of the higher of the two layers, by other means than the assembler's.
func upper(t *testing.T, c Codec, p *rtp.Packet) bool {
	t.Helper()
	if c == CodecVP9 { // always with 15 bits of picture id, RFC 9628 §4.2
		return p.Payload[3]>>1&7 > 0
	}
	d := p.GetExtension(13)
	if len(d) < 3 {
		t.Fatal("a packet without descriptor")
	}
	return d[0]&0x3f >= 5 // the sixth template is the first of the higher layer
}

// What is not above the wanted layer and is lost breaks the chain until a key frame, and nothing else than right pictures comes out.
func TestG10ChromiumsLayersWithLoss(t *testing.T) {
	for codec, file := range map[Codec]string{CodecVP9: "testdata/svc/chromium_vp9_l3t3.rtp", CodecAV1: "testdata/svc/chromium_av1_l3t3.rtp"} {
		ps := readCapture(t, file)
		for _, side := range []int{320, 1024} {
			good, _ := play(t, codec, side, ps)
			known := map[shownPicture]bool{}
			for _, p := range good {
				known[p] = true
			}
			for seed := range uint64(6) {
				r := rand.New(rand.NewPCG(seed, 3))
				var kept []received
				for _, p := range ps {
					if r.IntN(40) > 0 {
						kept = append(kept, p)
					}
				}
				got, _ := play(t, codec, side, kept)
				for i, p := range got {
					if !known[p] {
						t.Errorf("%s, %d wanted, loss %d: picture %d of %d is none of the sender's", codec, side, seed, i, len(got))
					}
				}
			}
		}
	}
}
