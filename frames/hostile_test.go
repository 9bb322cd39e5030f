package frames

import (
	"bytes"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"

	"sightline/frames/internal/av1hdr"
	"sightline/frames/internal/decodertest"
)

// hostile is a stream that a sound one of 320×240 goes before and behind, in the same sequence of packets.
type hostile struct {
	name   string
	codec  Codec
	frames func(t *testing.T) [][]byte // nil: the clip of this name

	shown []int      // the frames of it that images are made of
	drops FrameDrops // exactly: what is wrong itself, then what refers to it
}

func hostiles() []hostile {
	av1 := func(make func(t *testing.T, clip [][]byte) [][]byte) func(*testing.T) [][]byte {
		return func(t *testing.T) [][]byte { return make(t, decodertest.Frames(t, "av1-320x240.ivf")) }
	}
	return []hostile{
		{"vp8-key-16383.ivf", CodecVP8, nil, nil, FrameDrops{Refused: 1, NeedKey: 2}},
		{"vp8-key-16383-10-bytes.ivf", CodecVP8, nil, nil, FrameDrops{Refused: 1, NeedKey: 2}},
		{"vp8-key-0x0.ivf", CodecVP8, nil, nil, FrameDrops{Refused: 1, NeedKey: 2}},
		{"vp8-truncated.ivf", CodecVP8, nil, []int{0}, FrameDrops{Corrupt: 1, NeedKey: 10}},
		{"vp8-garbage.ivf", CodecVP8, nil, []int{0}, FrameDrops{Decode: 1, NeedKey: 10}},
		// Deltas that follow another stream's frames without a gap: only the decoder can tell.
		{"vp8-no-key.ivf", CodecVP8, nil, nil, FrameDrops{Corrupt: 1, NeedKey: 10}},
		{"vp8-empty-frame.ivf", CodecVP8, nil, []int{0, 2, 3, 4}, FrameDrops{}},
		{"vp8-2-byte-frame.ivf", CodecVP8, nil, []int{0}, FrameDrops{Refused: 1, NeedKey: 3}},
		{"vp8-bad-start-code.ivf", CodecVP8, nil, nil, FrameDrops{Refused: 1, NeedKey: 3}},
		{"vp8-version-7.ivf", CodecVP8, nil, nil, FrameDrops{Refused: 1, NeedKey: 3}},
		{"vp8-size-change.ivf", CodecVP8, nil, upTo(12), FrameDrops{}},
		{"vp8-is-vp9.ivf", CodecVP8, nil, nil, FrameDrops{Refused: 4}},
		{"vp9-key-16384.ivf", CodecVP9, nil, nil, FrameDrops{Refused: 1, NeedKey: 2}},
		{"vp9-truncated.ivf", CodecVP9, nil, []int{0}, FrameDrops{Decode: 1, NeedKey: 10}},
		{"vp9-garbage.ivf", CodecVP9, nil, []int{0}, FrameDrops{Refused: 1, NeedKey: 10}},
		{"vp9-no-key.ivf", CodecVP9, nil, nil, FrameDrops{Decode: 1, NeedKey: 10}},
		{"h264-no-parameter-sets.h264", CodecH264, nil, nil, FrameDrops{Decode: 1, NeedKey: 11}},
		{"h264-sps-16384.h264", CodecH264, nil, nil, FrameDrops{Refused: 1, NeedKey: 2}},
		{"h264-truncated.h264", CodecH264, nil, []int{0}, FrameDrops{Decode: 1, NeedKey: 10}},
		{"h264-garbage.h264", CodecH264, nil, []int{0}, FrameDrops{Decode: 1, NeedKey: 10}},
		// A fragment without its start says that a part of the frame is missing.
		{"h264-odd-nals.h264", CodecH264, nil, nil, FrameDrops{Incomplete: 1, NeedKey: 5}},
		{"av1, a sequence of 65536×65536", CodecAV1, av1(func(t *testing.T, clip [][]byte) [][]byte {
			clip[0] = eachOBU(t, clip[0], func(o *av1hdr.OBU) {
				if o.Type == av1hdr.TypeSequence {
					o.Payload = enlarge(o.Payload)
				}
			})
			return clip[:3]
		}), nil, FrameDrops{Refused: 1, NeedKey: 2}},
		{"av1, truncated", CodecAV1, av1(func(t *testing.T, clip [][]byte) [][]byte {
			for i := range clip[1:] {
				clip[i+1] = eachOBU(t, clip[i+1], func(o *av1hdr.OBU) { o.Payload = o.Payload[:(len(o.Payload)+1)/2] })
			}
			return clip
		}), []int{0}, FrameDrops{Decode: 1, NeedKey: 4}},
		{"av1, garbage", CodecAV1, av1(func(t *testing.T, clip [][]byte) [][]byte {
			for i := range clip[1:] {
				clip[i+1] = eachOBU(t, clip[i+1], func(o *av1hdr.OBU) {
					for k := 1; k < len(o.Payload); k++ {
						o.Payload[k] ^= byte(k*37 + i)
					}
				})
			}
			return clip
		}), []int{0}, FrameDrops{Decode: 1, NeedKey: 4}},
		{"av1, no key frame", CodecAV1, av1(func(_ *testing.T, clip [][]byte) [][]byte { return clip[1:] }), nil, FrameDrops{Decode: 1, NeedKey: 4}},
	}
}

// eachOBU changes every OBU of a temporal unit.
func eachOBU(t *testing.T, unit []byte, change func(*av1hdr.OBU)) (out []byte) {
	t.Helper()
	for len(unit) > 0 {
		o, rest, err := av1hdr.ParseOBU(unit)
		if err != nil {
			t.Fatal(err)
		}
		o.Payload = bytes.Clone(o.Payload)
		change(&o)
		out, unit = av1hdr.AppendOBU(out, o), rest
	}
	return out
}

// enlarge makes a sequence header with one operating point and no timing say 65536×65536 (AV1 §5.5.1).
func enlarge(payload []byte) []byte {
	var bits []byte
	for _, b := range payload {
		for i := 7; i >= 0; i-- {
			bits = append(bits, b>>i&1)
		}
	}
	number := func(at, n int) (v int) {
		for _, b := range bits[at : at+n] {
			v = v<<1 | int(b)
		}
		return v
	}
	at := 5 + 1 + 1 + 5 + 12
	if number(at, 5) > 7 {
		at++
	}
	at += 5
	size := 4 + 4 + number(at, 4) + 1 + number(at+4, 4) + 1
	bits = slices.Concat(bits[:at], bytes.Repeat([]byte{1}, 4+4+16+16), bits[at+size:])
	var out []byte
	for i, b := range bits {
		if i%8 == 0 {
			out = append(out, 0)
		}
		out[i/8] |= b << (7 - i%8)
	}
	return out
}

// truthOf is what a decoder makes of each frame; nil: no picture.
func truthOf(t *testing.T, c Codec, frames [][]byte) (all []*Picture) {
	t.Helper()
	dec, err := newDecoder(c)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	for _, f := range frames {
		pic, err := dec.Decode(f)
		if err != nil {
			all = append(all, nil)
			continue
		}
		all = append(all, pic.Clone())
	}
	return all
}

// TestHostileMedia: a sound stream, a hostile one, the sound one again. Images are of sound frames only, what is dropped has its exact counters, a
// key frame is asked for, memory stays what it was, and the next key frame's image is right.
func TestHostileMedia(t *testing.T) {
	pays := map[Codec]func() rtp.Payloader{
		CodecVP8:  func() rtp.Payloader { return &codecs.VP8Payloader{} },
		CodecVP9:  func() rtp.Payloader { return &codecs.VP9Payloader{FlexibleMode: true} },
		CodecH264: func() rtp.Payloader { return &codecs.H264Payloader{} },
		CodecAV1:  func() rtp.Payloader { return &codecs.AV1Payloader{} },
	}
	sound := map[Codec]string{CodecVP8: "vp8-320x240.ivf", CodecVP9: "vp9-320x240.ivf", CodecH264: "h264-320x240.h264", CodecAV1: "av1-320x240.ivf"}
	for _, h := range hostiles() {
		t.Run(h.name, func(t *testing.T) {
			good := decodertest.Frames(t, sound[h.codec])
			goodTruth := truthOf(t, h.codec, good)
			var bad [][]byte
			if h.frames != nil {
				bad = h.frames(t)
			} else {
				bad = decodertest.Frames(t, h.name)
			}
			badTruth := truthOf(t, h.codec, bad)
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *TrackConfig) { c.Codec, c.Policy = h.codec, PolicyFull })
				defer r.stop()
				sub := r.track.Subscribe(Want{FPS: 60, Options: ownSize})
				s := &sender{mtu: 1200, as: &testCodec{codec: h.codec, pay: pays[h.codec]()}}
				of := map[uint32]int{} // frame by timestamp
				show := func(frames [][]byte) (shown []int, images []*Image) {
					for i, f := range frames {
						of[s.ts] = i
						r.feed(s.packets(f)...)
						if img, _, ok := sub.Take(); ok {
							shown, images = append(shown, of[img.RTPTimestamp]), append(images, img)
						}
						time.Sleep(time.Second / 30)
					}
					return shown, images
				}
				right := func(what string, shown []int, images []*Image, truth []*Picture) {
					for n, img := range images {
						if i := shown[n]; truth[i] == nil || psnr(t, img, truth[i]) < 40 {
							t.Errorf("%s: frame %d has a wrong image", what, i)
						}
					}
				}
				shown, images := show(good)
				if !slices.Equal(shown, upTo(len(good))) {
					t.Fatalf("before: images of %v", shown)
				}
				right("before", shown, images, goodTruth)
				before, asked := r.track.Stats(), r.asked()

				shown, images = show(bad)
				time.Sleep(time.Second)
				synctest.Wait()
				mid := r.track.Stats()
				if !slices.Equal(shown, h.shown) {
					t.Errorf("images of frames %v of %d, want %v", shown, len(bad), h.shown)
				}
				right("hostile", shown, images, badTruth)
				if got := minus(mid.FrameDrops, before.FrameDrops); got != h.drops {
					t.Errorf("drops %+v, want %+v", got, h.drops)
				}
				if h.drops != (FrameDrops{}) && r.asked() == asked {
					t.Error("no key frame was asked for")
				}

				shown, images = show(good)
				if !slices.Equal(shown, upTo(len(good))) {
					t.Errorf("afterwards: images of %v", shown)
				}
				right("afterwards", shown, images, goodTruth)
				after := r.track.Stats()
				if after.CBytes > before.CBytes*3/2 || after.State != StateLive || slices.Contains(r.stateNames(), StateEnded) || minus(after.FrameDrops, mid.FrameDrops) != (FrameDrops{}) {
					t.Errorf("%d bytes of C memory, %d before; %+v", after.CBytes, before.CBytes, after)
				}
			})
		})
	}
}

func minus(a, b FrameDrops) FrameDrops {
	return FrameDrops{a.Incomplete - b.Incomplete, a.NeedKey - b.NeedKey, a.TooBig - b.TooBig, a.Refused - b.Refused, a.QueueFull - b.QueueFull, a.Skipped - b.Skipped, a.Decode - b.Decode, a.Corrupt - b.Corrupt}
}
