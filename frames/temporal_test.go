package frames

import "testing"

// What the packets say of layers in time comes out with the frame.
func TestTemporalLayersAreKeptWithTheFrame(t *testing.T) {
	vp8Key, vp8Inter := testFrame(true, 0, 20), testFrame(false, 1, 20)
	unkept := []byte{0x86, 0x00, 0x00, 0x92, 0x80, 0x33}    // VP9, refresh_frame_flags 0
	resilient := []byte{0x87, 0x00, 0x02, 0x4a, 0x00, 0xcc} // the same, error resilient: its probabilities are not kept either
	for name, c := range map[string]struct {
		codec  Codec
		frames [2][]byte
		want   temporal
	}{
		"VP8 without":            {CodecVP8, [2][]byte{joined([]byte{0x10}, vp8Key), joined([]byte{0x10}, vp8Inter)}, temporal{}},
		"VP8 layer 2":            {CodecVP8, [2][]byte{joined([]byte{0x10}, vp8Key), joined([]byte{0x90, 0x20, 0x80}, vp8Inter)}, temporal{known: true, id: 2}},
		"VP8 layer 1, sync":      {CodecVP8, [2][]byte{joined([]byte{0x10}, vp8Key), joined([]byte{0x90, 0x20, 0x60}, vp8Inter)}, temporal{known: true, id: 1, sync: true}},
		"VP8 not referred to":    {CodecVP8, [2][]byte{joined([]byte{0x10}, vp8Key), joined([]byte{0x30}, vp8Inter)}, temporal{unreferenced: true}},
		"VP8 key index, no TID":  {CodecVP8, [2][]byte{joined([]byte{0x10}, vp8Key), joined([]byte{0x90, 0x10, 0xe5}, vp8Inter)}, temporal{}},
		"VP9 without":            {CodecVP9, [2][]byte{joined([]byte{0x0c}, vp9Key), joined([]byte{0x4c}, vp9Inter)}, temporal{}},
		"VP9 layer 2, sync":      {CodecVP9, [2][]byte{joined([]byte{0x2c, 0, 0}, vp9Key), joined([]byte{0x6c, 0x50, 0}, vp9Inter)}, temporal{known: true, id: 2, sync: true}},
		"VP9 not referred to":    {CodecVP9, [2][]byte{joined([]byte{0x0c}, vp9Key), joined([]byte{0x4c}, resilient)}, temporal{unreferenced: true}},
		"VP9, its probabilities": {CodecVP9, [2][]byte{joined([]byte{0x0c}, vp9Key), joined([]byte{0x4c}, unkept)}, temporal{}},
		"H264 reference":         {CodecH264, [2][]byte{annexBStap(testSPS, testPPS, h264IDR), {0x41, 0x9a, 0x80}}, temporal{}},
		"H264 not referred to":   {CodecH264, [2][]byte{annexBStap(testSPS, testPPS, h264IDR), {0x01, 0x9a, 0x80}}, temporal{unreferenced: true}},
		"AV1 without":            {CodecAV1, [2][]byte{aggregate(av1N, av1Seq, av1Key), aggregate(0, av1Inter)}, temporal{}},
		"AV1 layer 1, extension": {CodecAV1, [2][]byte{aggregate(av1N, av1Seq, av1Key), aggregate(0, []byte{0x34, 0x20, 0x30, 7})}, temporal{known: true, id: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, c.codec)
			w.frame(c.frames[0])
			w.frame(c.frames[1])
			if len(w.r.got) != 2 || w.r.temporal != c.want {
				t.Errorf("%d frames, the last %+v; want %+v", len(w.r.got), w.r.temporal, c.want)
			}
		})
	}
}

var h264IDR = []byte{0x65, 0x88, 0x80, 0x10}

// annexBStap is one STAP-A of the units.
func annexBStap(nals ...[]byte) []byte {
	b := []byte{0x78}
	for _, n := range nals {
		b = append(append(b, 0, byte(len(n))), n...)
	}
	return b
}
