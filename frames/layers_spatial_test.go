package frames

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/pion/rtp"
	"pgregory.net/rapid"

	"sightline/frames/internal/vp9hdr"
)

// svc sends VP9 with three layers in space, as Chromium does: every layer's frame in packets of its own, sizes with each key frame.
type svc struct {
	seq     uint16
	ts      uint32
	pid     uint16
	n       int
	packets int // of each layer's frame
}

// vp9Layer makes bytes that pass for a layer's frame; tag tells them apart.
func vp9Layer(key bool, sid byte, n int) []byte {
	b := bytes.Clone(vp9Inter)
	if key && sid == 0 {
		b = bytes.Clone(vp9Key)
	}
	return append(append(b, bytes.Repeat([]byte{0x22}, 30)...), sid, byte(n>>8), byte(n), 0x11)
}

// picture gives the packets of one picture of the given layers.
func (s *svc) picture(key bool, layers ...byte) (ps []*rtp.Packet) {
	s.packets = max(s.packets, 1)
	for i, sid := range layers {
		data := vp9Layer(key, sid, s.n)
		for k := range s.packets {
			from, to := k*len(data)/s.packets, (k+1)*len(data)/s.packets
			first := byte(0xa0) // I, L
			if !key {
				first |= 0x40
			}
			if k == 0 {
				first |= 0x08
			}
			if k == s.packets-1 {
				first |= 0x04
			}
			d := []byte{first, 0x80 | byte(s.pid>>8), byte(s.pid), sid << 1, 0}
			if key && sid == 0 && k == 0 {
				d[0] |= 0x02
				d = append(d, 0x50, 1, 64, 0, 180, 2, 128, 1, 104, 5, 0, 2, 208) // 320×180, 640×360, 1280×720
			}
			ps = append(ps, &rtp.Packet{
				Header:  rtp.Header{Version: 2, SequenceNumber: s.seq, Timestamp: s.ts, Marker: i == len(layers)-1 && k == s.packets-1},
				Payload: append(d, data[from:to]...),
			})
			s.seq++
		}
	}
	s.pid = (s.pid + 1) & 0x7fff
	s.ts += 3000
	s.n++
	return ps
}

// layersOf tells which layers' frames a picture that came out has: "n:0,1".
func layersOf(t interface{ Fatalf(string, ...any) }, data []byte) (n int, layers []byte) {
	frames, err := vp9hdr.Frames(data)
	if err != nil {
		t.Fatalf("%x: %v", data, err)
	}
	for i, f := range frames {
		tag := f[len(f)-4:]
		if num := int(tag[1])<<8 | int(tag[2]); i > 0 && num != n {
			t.Fatalf("frames of pictures %d and %d in one", n, num)
		} else {
			n = num
		}
		layers = append(layers, tag[0])
	}
	return n, layers
}

func (r *receiver) pictures() (all []string) {
	for _, g := range r.got {
		n, layers := layersOf(r.t, g)
		all = append(all, fmt.Sprintf("%d:%v", n, layers))
	}
	return all
}

func newSVC(t *testing.T, side int) (*svc, *receiver) {
	r := newReceiver(t)
	r.a = asleep(CodecVP9)
	r.a.lay.side = side
	r.a.wake()
	return &svc{pid: 32760, seq: 65530}, r
}

func (r *receiver) wantPictures(want ...string) {
	r.t.Helper()
	if got := r.pictures(); fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("pictures %v, want %v", got, want)
	}
}

func TestVP9TheWantedLayerIsChosenBySize(t *testing.T) {
	for _, c := range []struct {
		side  int
		top   byte
		width int
	}{{0, 2, 1280}, {100, 0, 320}, {320, 0, 320}, {321, 1, 640}, {640, 1, 640}, {1024, 2, 1280}, {4096, 2, 1280}} {
		s, r := newSVC(t, c.side)
		r.push(s.picture(true, 0, 1, 2)...)
		r.push(s.picture(false, 0, 1, 2)...)
		var all []byte
		for sid := byte(0); sid <= c.top; sid++ {
			all = append(all, sid)
		}
		r.wantPictures(fmt.Sprintf("0:%v", all), fmt.Sprintf("1:%v", all))
		if r.a.width != c.width {
			t.Errorf("wanted %d: %d wide, want %d", c.side, r.a.width, c.width)
		}
		r.clean()
	}
}

// A higher layer begins at a key frame, which is wished for; a lower one at any picture, but not at once.
func TestVP9LayersGoUpAtKeyFramesAndDownWithPatience(t *testing.T) {
	s, r := newSVC(t, 300)
	r.push(s.picture(true, 0, 1, 2)...)
	r.a.lay.side = 1000
	r.push(s.picture(false, 0, 1, 2)...)
	if !r.a.lay.wantsKey() || r.a.needKey {
		t.Error("no wish for a key frame, or a broken chain")
	}
	r.push(s.picture(true, 0, 1, 2)...)
	if r.a.lay.wantsKey() {
		t.Error("a key frame is wished for still")
	}
	r.a.lay.side = 300
	r.push(s.picture(false, 0, 1, 2)...)
	r.at = r.at.Add(layerLower - time.Second)
	r.push(s.picture(false, 0, 1, 2)...)
	r.at = r.at.Add(2 * time.Second)
	r.push(s.picture(false, 0, 1, 2)...)
	r.wantPictures("0:[0]", "1:[0]", "2:[0 1 2]", "3:[0 1 2]", "4:[0 1 2]", "5:[0]")
	r.clean()
}

// The sender leaves upper layers out and sends them again with a key frame, as Chromium does when its bandwidth changes.
func TestVP9TheSenderLeavesLayersOut(t *testing.T) {
	s, r := newSVC(t, 1000)
	r.push(s.picture(true, 0, 1, 2)...)
	r.push(s.picture(false, 0, 1)...)
	r.push(s.picture(false, 0)...)
	r.push(s.picture(false, 1)...) // in flexible mode there are pictures without a base
	r.push(s.picture(true, 0, 1)...)
	if r.a.width != 640 {
		t.Errorf("%d wide, want what was sent", r.a.width)
	}
	r.push(s.picture(true, 0, 1, 2)...)
	r.wantPictures("0:[0 1 2]", "1:[0 1]", "2:[0]", "3:[1]", "4:[0 1]", "5:[0 1 2]")
	r.clean()
}

// TestG10VP9LossAboveTheWantedLayerBreaksNothing: each packet of three pictures is lost in turn. What is of layers above the wanted one costs
// no picture and no time; everything else breaks the chain.
func TestG10VP9LossAboveTheWantedLayerBreaksNothing(t *testing.T) {
	for use, side := range []int{300, 600, 1200} {
		probe := &svc{packets: 2}
		total := len(probe.picture(true, 0, 1, 2)) * 4
		for lose := 6; lose < total; lose++ {
			s, r := newSVC(t, side)
			s.packets = 2
			i := 0
			for n := range 4 {
				for _, p := range s.picture(n == 0, 0, 1, 2) {
					if i != lose {
						r.push(p)
					}
					i++
				}
			}
			picture, sid := lose/6, lose%6/2
			if sid > use {
				if len(r.got) != 4 || r.a.needKey || r.a.fdrops != (FrameDrops{}) {
					t.Errorf("layer %d of picture %d lost, %d wanted: %v, need key %v, %+v", sid, picture, use, r.pictures(), r.a.needKey, r.a.fdrops)
				}
				continue
			}
			r.wait(holeWait)
			if len(r.got) != picture || !r.a.needKey && picture < 3 {
				t.Errorf("layer %d of picture %d lost, %d wanted: %v, need key %v", sid, picture, use, r.pictures(), r.a.needKey)
			}
		}
	}
}

// Padding-only packets that are lost between two pictures are nothing, wherever picture ids tell that none is missing.
func TestLostPaddingBreaksNothingWherePicturesAreNumbered(t *testing.T) {
	s, r := &sender{seq: 65530}, newReceiver(t)
	s.pay.EnablePictureID = true
	for i := range 20 {
		r.push(s.packets(testFrame(i == 0, i, 300))...)
		s.pad()
		s.pad()
	}
	r.want(s, upTo(20)...)
	if r.a.needKey || r.a.fdrops != (FrameDrops{}) {
		t.Errorf("need key %v, %+v", r.a.needKey, r.a.fdrops)
	}
	s.packets(testFrame(false, 20, 300))
	r.push(s.packets(testFrame(false, 21, 300))...) // one picture lost is one too many
	r.wait(holeWait)
	if r.want(s, upTo(20)...); !r.a.needKey {
		t.Error("the chain is whole though a picture is missing")
	}
}

// TestG10VP9LayersUnderAnything: whatever is lost or comes late, and whatever is wanted, no frame of a layer comes out but behind all it refers
// to: the frame before of its own layer and the one below in its picture.
func TestG10VP9LayersUnderAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &svc{pid: 32700, seq: 65000, packets: rapid.IntRange(1, 3).Draw(t, "packets")}
		a := asleep(CodecVP9)
		a.lay.side = rapid.SampledFrom([]int{100, 600, 1000}).Draw(t, "wanted")
		a.wake()
		at := t0
		have := map[byte]int{} // newest frame of each layer that came out
		sentBefore := map[byte]int{}
		before := map[string]int{} // frame before, of a layer's frame
		take := func(fs []*frame) {
			for _, f := range fs {
				n, layers := layersOf(t, f.data)
				for i, sid := range layers {
					switch {
					case f.key && i == 0 && sid == 0:
						clear(have)
					case f.key && i > 0:
					case i > 0 && layers[i-1] != sid-1:
						t.Fatalf("picture %d has layers %v", n, layers)
					default:
						prev := before[fmt.Sprint(n, sid)]
						if h, ok := have[sid]; !ok || h != prev {
							t.Fatalf("picture %d: layer %d refers to picture %d, which did not come: %v", n, sid, prev, have)
						}
					}
					have[sid] = n
				}
				a.recycle(f)
			}
			if err := a.check(); err != nil {
				t.Fatal(err)
			}
		}
		var late []*rtp.Packet
		loss := rapid.IntRange(0, 12).Draw(t, "loss")
		for range rapid.IntRange(1, 60).Draw(t, "pictures") {
			key := s.n == 0 || a.needKey && rapid.IntRange(0, 3).Draw(t, "answered") == 0 || rapid.IntRange(0, 15).Draw(t, "key") == 0
			layers := [][]byte{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2}, {0, 1, 2}}[rapid.IntRange(0, 4).Draw(t, "layers")]
			if !key { // a layer that was left out comes back at a key frame
				kept := []byte{}
				for _, sid := range layers {
					if _, ok := sentBefore[sid]; ok {
						kept = append(kept, sid)
					}
				}
				layers = kept
			} else {
				clear(sentBefore)
			}
			n := s.n
			ps := s.picture(key, layers...)
			for sid := range sentBefore {
				if sid > layers[len(layers)-1] {
					delete(sentBefore, sid)
				}
			}
			for _, sid := range layers {
				before[fmt.Sprint(n, sid)] = sentBefore[sid]
				sentBefore[sid] = n
			}
			for _, p := range ps {
				at = at.Add(3 * time.Millisecond)
				switch v := rapid.IntRange(0, 99).Draw(t, "way"); {
				case v < loss:
				case v < 2*loss:
					late = append(late, p)
				default:
					take(a.push(p, at))
				}
			}
			if len(late) > 0 && rapid.Bool().Draw(t, "now") {
				take(a.push(late[0], at))
				late = late[1:]
			}
			if rapid.IntRange(0, 9).Draw(t, "wish") == 0 {
				a.lay.side = rapid.SampledFrom([]int{100, 600, 1000}).Draw(t, "side")
			}
			at = at.Add(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 200, 2000}).Draw(t, "pause")) * time.Millisecond)
			take(a.tick(at))
		}
	})
}
