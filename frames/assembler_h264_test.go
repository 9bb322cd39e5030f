package frames

import (
	"bytes"
	"context"
	"testing"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"

	"sightline/frames/internal/decodertest"
)

// wire sends raw payloads: what no payloader makes.
type wire struct {
	r   *receiver
	seq uint16
	ts  uint32
}

func newWire(t *testing.T, c Codec) *wire {
	w := &wire{r: newReceiver(t), ts: 3000}
	w.r.a = asleep(c)
	w.r.a.wake()
	return w
}

// frame sends one frame's payloads, the last with the marker.
func (w *wire) frame(payloads ...[]byte) {
	w.r.t.Helper()
	w.ts += 3000
	w.rest(payloads...)
}

// rest sends payloads of the frame before.
func (w *wire) rest(payloads ...[]byte) {
	w.r.t.Helper()
	for i, b := range payloads {
		w.r.push(&rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: w.seq, Timestamp: w.ts, Marker: i == len(payloads)-1}, Payload: b})
		w.seq++
	}
}

func (w *wire) want(frames ...[]byte) {
	w.r.t.Helper()
	if len(w.r.got) != len(frames) {
		w.r.t.Fatalf("%d frames came, want %d (%+v %+v)", len(w.r.got), len(frames), w.r.a.pdrops, w.r.a.fdrops)
	}
	for i, f := range frames {
		if !bytes.Equal(w.r.got[i], f) {
			w.r.t.Fatalf("frame %d is % x, want % x", i, w.r.got[i], f)
		}
	}
}

var (
	idr   = []byte{0x65, 0x88, 0x80, 0x11, 0x22, 0x33, 0x44, 0x55}
	inter = []byte{0x41, 0x9a, 0x80, 0x66, 0x77, 0x88, 0x99}
)

func stapA(nals ...[]byte) []byte {
	b := []byte{0x78}
	for _, n := range nals {
		b = append(append(b, byte(len(n)>>8), byte(len(n))), n...)
	}
	return b
}

// fuA cuts a unit into n fragments.
func fuA(nal []byte, n int) (out [][]byte) {
	body := nal[1:]
	for i := range n {
		part := body[len(body)*i/n : len(body)*(i+1)/n]
		head := nal[0] & 0x1f
		if i == 0 {
			head |= 0x80
		}
		if i == n-1 {
			head |= 0x40
		}
		out = append(out, append([]byte{nal[0]&0xe0 | h264FUA, head}, part...))
	}
	return out
}

func TestH264EveryWayToSendAFrame(t *testing.T) {
	key := annexB(testSPS, testPPS, idr)
	for name, payloads := range map[string][][]byte{
		"single units (OBS)":   {testSPS, testPPS, idr},
		"STAP-A":               {stapA(testSPS, testPPS, idr)},
		"STAP-A, single":       {stapA(testSPS, testPPS), idr},
		"STAP-A, FU-A":         append([][]byte{stapA(testSPS, testPPS)}, fuA(idr, 3)...),
		"with AUD and SEI":     {{0x09, 0x10}, testSPS, testPPS, {0x06, 5, 1, 0, 0x80}, idr},
		"empty unit in STAP-A": {stapA(testSPS, nil, testPPS), idr},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, CodecH264)
			w.frame(payloads...)
			w.frame(inter)
			w.frame(fuA(inter, 2)...)
			w.frame(payloads...)
			w.want(key, annexB(inter), annexB(inter), key)
			if w.r.a.width != 320 || w.r.a.height != 240 || w.r.a.keys != 2 {
				t.Errorf("%d×%d, %d key frames", w.r.a.width, w.r.a.height, w.r.a.keys)
			}
			w.r.clean()
		})
	}
}

func TestH264ParameterSetsAreKept(t *testing.T) {
	key := annexB(testSPS, testPPS, idr)
	t.Run("sent once, before the first frame", func(t *testing.T) {
		w := newWire(t, CodecH264)
		w.frame(stapA(testSPS, testPPS))
		w.frame(idr)
		w.frame(inter)
		w.frame(idr)
		w.want(key, annexB(inter), key)
		w.r.clean()
	})
	t.Run("while nobody watches", func(t *testing.T) {
		w := newWire(t, CodecH264)
		w.r.a.sleep()
		w.frame(testSPS, testPPS, idr)
		w.r.a.wake()
		w.frame(inter)
		w.frame(idr)
		w.want(key)
	})
	t.Run("in a frame that is lost", func(t *testing.T) {
		w := newWire(t, CodecH264)
		w.frame(testSPS, testPPS)
		w.seq++
		w.rest(idr)
		w.r.wait(holeWait)
		w.frame(inter)
		w.frame(idr)
		w.want(key)
	})
	t.Run("never", func(t *testing.T) {
		w := newWire(t, CodecH264)
		w.frame(inter)
		w.frame(idr)
		w.frame(testPPS, idr)
		w.want()
		if w.r.a.fdrops.Refused != 2 {
			t.Errorf("%+v", w.r.a.fdrops)
		}
	})
	t.Run("another picture size without an IDR", func(t *testing.T) {
		other := bytes.Clone(testSPS)
		other[3]++ // the level
		w := newWire(t, CodecH264)
		w.frame(testSPS, testPPS, idr)
		w.frame(other, testPPS, inter)
		w.frame(inter)
		w.frame(other, testPPS, idr)
		w.want(key, annexB(other, testPPS, idr))
	})
}

func TestH264WhatIsNoKeyFrame(t *testing.T) {
	key := annexB(testSPS, testPPS, idr)
	for name, payloads := range map[string][][]byte{
		"parameter sets and an inter frame": {testSPS, testPPS, inter}, // a recovery point
		"an IDR slice and another":          {testSPS, testPPS, idr, inter},
		"not the first slice":               {testSPS, testPPS, {0x65, 0x48, 0x80, 1, 2, 3}},
		"tail of a fragmented IDR":          append([][]byte{testSPS, testPPS}, fuA(idr, 3)[1:]...),
		"fragments without an end":          append([][]byte{testSPS, testPPS}, fuA(idr, 3)[:2]...),
		"a second start within fragments":   {testSPS, testPPS, fuA(idr, 3)[0], fuA(idr, 3)[0], fuA(idr, 3)[2]},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, CodecH264)
			w.frame(payloads...)
			w.frame(inter)
			w.want()
			w.frame(testSPS, testPPS, idr)
			w.frame(inter)
			w.want(key, annexB(inter))
		})
	}
}

func TestH264JoinedInTheMiddleOfAnIDR(t *testing.T) {
	long := append(bytes.Clone(idr), bytes.Repeat([]byte{0x5a}, 15000)...)
	parts := fuA(long, 150)
	w := newWire(t, CodecH264)
	w.frame(parts[75:]...)
	w.frame(inter)
	w.want()
	if !w.r.a.needKey {
		t.Error("no key frame wanted")
	}
	w.frame(append([][]byte{testSPS, testPPS}, parts...)...)
	w.want(annexB(testSPS, testPPS, long))
}

func TestH264FragmentsWithoutEndAreBounded(t *testing.T) {
	w := newWire(t, CodecH264)
	w.frame(testSPS, testPPS, idr)
	part := fuA(append(bytes.Clone(inter), make([]byte, 1200)...), 1)[0]
	w.ts += 3000
	for i := range 3 * framePackets {
		b := bytes.Clone(part)
		b[1] &^= 0xc0
		if i == 0 {
			b[1] |= 0x80
		}
		w.r.push(&rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: w.seq, Timestamp: w.ts}, Payload: b})
		w.seq++
	}
	if w.r.a.fdrops.TooBig != 1 || w.r.a.cur != nil {
		t.Errorf("%+v", w.r.a.fdrops)
	}
	w.frame(testSPS, testPPS, idr)
	w.want(annexB(testSPS, testPPS, idr), annexB(testSPS, testPPS, idr))
}

func TestH264OddPayloads(t *testing.T) {
	key := annexB(testSPS, testPPS, idr)
	for name, c := range map[string]struct {
		payload []byte
		breaks  bool // the frames after it need a key frame
	}{
		"type 0":                {[]byte{0x60, 1, 2}, false},
		"type 30":               {[]byte{0x7e, 1, 2}, false},
		"type 31":               {[]byte{0x7f, 1, 2}, false},
		"type 25, STAP-B":       {[]byte{0x79, 1, 2, 3}, true},
		"type 26, MTAP16":       {[]byte{0x7a, 1, 2, 3}, true},
		"type 29, FU-B":         {[]byte{0x7d, 0x81, 2, 3}, true},
		"forbidden bit":         {[]byte{0xe5, 0x88, 1}, true},
		"FU-A of two bytes":     {[]byte{0x7c, 0x85}, true},
		"FU-A start and end":    {[]byte{0x7c, 0xc5, 0x88, 0x80}, true},
		"FU-A of a FU-A":        {[]byte{0x7c, 0x9c, 0x88, 0x80}, true},
		"STAP-A over its end":   {[]byte{0x78, 0, 200, 0x41}, true},
		"STAP-A with a STAP-A":  {[]byte{0x78, 0, 2, 0x78, 0}, true},
		"AUD alone":             {[]byte{0x09, 0xf0}, false},
		"empty STAP-A":          {[]byte{0x78}, false},
		"STAP-A of empty units": {[]byte{0x78, 0, 0, 0, 0}, false},
		"parameter sets alone":  {stapA(testSPS, testPPS), false},
		"SEI alone":             {[]byte{0x06, 5, 1, 0, 0x80}, false},
		"slice without a body":  {[]byte{0x41}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, CodecH264)
			w.frame(testSPS, testPPS, idr)
			w.frame(c.payload)
			w.frame(inter)
			w.frame(testSPS, testPPS, idr)
			w.frame(inter)
			if c.breaks {
				w.want(key, key, annexB(inter))
			} else {
				w.want(key, annexB(inter), key, annexB(inter))
			}
		})
	}
}

func TestH264ImpossiblePicturesAreRefused(t *testing.T) {
	for name, clip := range map[string]string{"16384×16384": "h264-sps-16384.h264"} {
		t.Run(name, func(t *testing.T) {
			s, r := &sender{as: testH264()}, newReceiver(t)
			r.a = asleep(CodecH264)
			r.a.wake()
			r.push(s.packets(decodertest.Frames(t, clip)[0])...)
			r.want(s)
			if r.a.fdrops.Refused != 1 || r.a.width != 0 {
				t.Errorf("%+v, %d wide", r.a.fdrops, r.a.width)
			}
		})
	}
	for name, profile := range map[string]byte{"4:4:4": 244, "high 10": 110, "4:2:2": 122} {
		t.Run(name, func(t *testing.T) {
			sps := bytes.Clone(testSPS)
			sps[1] = profile
			w := newWire(t, CodecH264)
			w.frame(sps, testPPS, idr)
			w.want()
			if w.r.a.fdrops.Refused != 1 {
				t.Errorf("%+v", w.r.a.fdrops)
			}
		})
	}
}

// Real streams of every codec through payloader, assembler and decoder: one picture a frame.
func TestRealClipsOfEveryCodec(t *testing.T) {
	for name, c := range map[string]*testCodec{
		"h264-320x240.h264": testH264(), "h264-odd.h264": testH264(), "vp9-320x240.ivf": testVP9(), "vp9-odd.ivf": testVP9(),
		"av1-320x240.ivf": testAV1(), "av1-odd.ivf": testAV1(), "vp8-320x240.ivf": {codec: CodecVP8, pay: &codecs.VP8Payloader{}},
	} {
		t.Run(name, func(t *testing.T) {
			s, a := &sender{as: c}, asleep(c.codec)
			a.wake()
			dec, err := newDecoder(c.codec)
			if err != nil {
				t.Fatal(err)
			}
			defer dec.Close()
			pictures := 0
			clip := decodertest.Frames(t, name)
			for _, f := range clip {
				for _, p := range s.packets(f) {
					for _, out := range a.push(p, t0) {
						pic, err := dec.Decode(out.data)
						if err != nil {
							t.Fatalf("picture %d: %v", pictures, err)
						}
						if out.key && (pic.Width != out.width || pic.Height != out.height) {
							t.Errorf("picture of %d×%d, announced as %d×%d", pic.Width, pic.Height, out.width, out.height)
						}
						pictures++
						a.recycle(out)
					}
				}
			}
			if pictures != len(clip) || a.fdrops != (FrameDrops{}) {
				t.Errorf("%d pictures of %d frames, %+v", pictures, len(clip), a.fdrops)
			}
		})
	}
}

// A track of every codec gives images, and holds no C memory afterwards.
func TestTracksOfEveryCodec(t *testing.T) {
	for name, c := range map[string]*testCodec{
		"h264-odd.h264": testH264(), "vp9-odd.ivf": testVP9(), "av1-odd.ivf": testAV1(),
	} {
		t.Run(name, func(t *testing.T) {
			track, err := NewTrack(TrackConfig{Source: "camera", Codec: c.codec})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- track.Run(ctx) }()
			sub := track.Subscribe(Want{FPS: 30, Options: ownSize})
			s := &sender{as: c}
			for _, p := range s.packets(decodertest.Frames(t, name)[0]) {
				track.Push(p, t0)
			}
			<-sub.C()
			img, _, _ := sub.Take()
			if img == nil || img.Width < 640 || img.Width > 642 || img.Height < 480 || img.Height > 482 {
				t.Errorf("image %+v", img)
			}
			if s := track.Stats(); s.CBytes == 0 || s.Codec != c.codec || s.Decoded != 1 {
				t.Errorf("%+v", s)
			}
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n := track.Stats().CBytes; n != 0 {
				t.Errorf("%d bytes of C memory after Run", n)
			}
		})
	}
}
