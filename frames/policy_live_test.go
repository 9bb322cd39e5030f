package frames

import (
	"sync/atomic"
	"testing"

	"github.com/pion/rtp"

	"sightline/frames/internal/bench/vp8enc"
)

// liveSender encodes pictures as they are sent, as a browser does: asked for a key frame, it makes one, at most one in 300 ms.
type liveSender struct {
	t       testing.TB
	pics    []*Picture
	enc     *vp8enc.Encoder
	layers  int
	ignore  bool // takes requests and does nothing
	wait    int  // frames from a request to its answer
	every   int  // a key frame every so many frames, asked for or not; 0: none
	n       int  // frames so far
	lastKey int
	seq     uint16
	ts      uint32
	pid     uint16
	tl0     uint8
	pli     atomic.Bool
	asked   int // frames since the request that is to be answered; 0: none
	keys    int
	bytes   int
}

func newLiveSender(t testing.TB, pics []*Picture, kbps int, screen bool, layers int) *liveSender {
	t.Helper()
	enc, err := vp8enc.New(vp8enc.Config{Width: pics[0].Width, Height: pics[0].Height, Kbps: kbps, Screen: screen, Layers: layers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(enc.Close)
	return &liveSender{t: t, pics: pics, enc: enc, layers: layers, seq: 65000, ts: 1<<32 - 90000}
}

// picture is what is shown in frame n: the clip there and back.
func (s *liveSender) picture(n int) *Picture {
	if len(s.pics) == 1 {
		return s.pics[0]
	}
	round := 2 * (len(s.pics) - 1)
	if n %= round; n >= len(s.pics) {
		n = round - n
	}
	return s.pics[n]
}

// key reports whether the next frame is to be a key frame.
func (s *liveSender) key() bool {
	if s.pli.Swap(false) && !s.ignore && s.asked == 0 {
		s.asked = 1
	}
	if s.asked > 0 {
		s.asked++
	}
	due := s.asked > 1+s.wait && s.n-s.lastKey >= 9 || s.every > 0 && s.n%s.every == 0
	if due {
		s.asked = 0
	}
	return due
}

// frame gives the packets of the next frame; none when the encoder leaves it out.
func (s *liveSender) frame() (ps []*rtp.Packet) {
	f, err := s.enc.Encode(s.picture(s.n), s.key())
	if err != nil {
		s.t.Fatal(err)
	}
	if f.Key {
		s.lastKey = s.n
		s.keys++
	}
	s.bytes += len(f.Data)
	s.n++
	ts := s.ts
	s.ts += 3000
	if len(f.Data) == 0 {
		return nil
	}
	s.pid = (s.pid + 1) & 0x7fff
	if f.Layer == 0 {
		s.tl0++
	}
	const mtu = 1180
	for at := 0; at < len(f.Data); at += mtu {
		end := min(at+mtu, len(f.Data))
		d := []byte{0x80, 0x80, byte(s.pid>>8) | 0x80, byte(s.pid)} // RFC 7741 §4.2
		if at == 0 {
			d[0] |= 0x10
		}
		if s.layers > 1 {
			d[1] |= 0x60
			layer := byte(f.Layer) << 6
			if f.Sync {
				layer |= 0x20
			}
			d = append(d, s.tl0, layer)
		}
		ps = append(ps, &rtp.Packet{
			Header:  rtp.Header{Version: 2, SequenceNumber: s.seq, Timestamp: ts, Marker: end == len(f.Data)},
			Payload: append(d, f.Data[at:end]...),
		})
		s.seq++
	}
	return ps
}
