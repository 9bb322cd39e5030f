package vp9hdr

import (
	"testing"

	"sightline/frames/internal/coded"
	"sightline/frames/internal/decodertest"
)

// FuzzCheck: whatever bytes claim, a size that passes is one that may be decoded, and the frames of a superframe are parts of it, in order.
func FuzzCheck(f *testing.F) {
	for _, frame := range decodertest.Frames(f, "vp9-odd.ivf")[:3] {
		f.Add(frame[:min(len(frame), 64)])
	}
	f.Add([]byte{0x82, 0x49, 0x83, 0x42, 0x20, 0xff, 0xff, 0xff, 0xf0})                      // 65536×65536
	f.Add([]byte{0x86, 0x00, 0x40, 0x92, 0x80, 0x86, 0x00, 0x40, 0xc1, 5, 3, 0xc1})          // two frames
	f.Add([]byte{0x86, 0x00, 0x40, 0x92, 0x80, 0xd9, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0xd9}) // sizes that do not fit
	f.Add([]byte{0x88})                                                                      // shows a frame that is there
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := Parse(b); err == nil && h.Width+h.Height > 0 && coded.CheckSize(h.Width, h.Height) != nil {
			t.Fatalf("%d×%d passes", h.Width, h.Height)
		}
		first, checked := Check(b)
		if checked == nil && first.Key && (first.Width == 0 || coded.CheckSize(first.Width, first.Height) != nil) {
			t.Fatalf("a key frame of %d×%d passes", first.Width, first.Height)
		}
		frames, err := Frames(b)
		if (len(frames) == 0) != (err != nil) || checked == nil && err != nil {
			t.Fatalf("%d frames, %v; checked: %v", len(frames), err, checked)
		}
		total := 0
		for _, frame := range frames {
			if len(frame) == 0 || len(frames) > 1 && cap(frame) > len(frame) {
				t.Fatalf("frame of %d bytes with room for %d", len(frame), cap(frame))
			}
			total += len(frame)
			if _, err := Parse(frame); checked == nil && err != nil {
				t.Fatalf("checked, and then: %v", err)
			}
		}
		if total > len(b) {
			t.Fatalf("%d bytes of %d", total, len(b))
		}
	})
}
