package av1hdr

import (
	"bytes"
	"testing"

	"sightline/frames/internal/coded"
	"sightline/frames/internal/decodertest"
)

// FuzzUnits takes bytes apart into OBUs as a stream of them: each step comes nearer to the end, what is read is written as the same again, and
// a sequence header that passes is of a size that may be decoded.
func FuzzUnits(f *testing.F) {
	for _, frame := range decodertest.Frames(f, "av1-odd.ivf")[:2] {
		f.Add(frame[:min(len(frame), 64)])
	}
	f.Add([]byte{0x0a, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}) // a length of 8 bytes
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{0x36, 0x28, 0x01, 0x10}) // with its layers
	f.Fuzz(func(t *testing.T, b []byte) {
		for rest := b; len(rest) > 0; {
			o, next, err := ParseOBU(rest)
			if err != nil {
				break
			}
			if len(next) >= len(rest) || cap(o.Payload) > cap(rest) || o.Type < 0 || o.Type > 15 || o.Temporal > 7 || o.Spatial > 3 {
				t.Fatalf("%+v, %d bytes left of %d", o, len(next), len(rest))
			}
			again, nothing, err := ParseOBU(AppendOBU(nil, o))
			if err != nil || len(nothing) > 0 || again.Type != o.Type || again.Temporal != o.Temporal || again.Spatial != o.Spatial || !bytes.Equal(again.Payload, o.Payload) {
				t.Fatalf("%+v is read again as %+v, %v", o, again, err)
			}
			if s, err := ParseSequence(o.Payload); err == nil && coded.CheckSize(s.Width, s.Height) != nil {
				t.Fatalf("%d×%d passes", s.Width, s.Height)
			}
			ShownKey(o.Payload)
			rest = next
		}
		if s, err := ParseSequence(b); err == nil && coded.CheckSize(s.Width, s.Height) != nil {
			t.Fatalf("%d×%d passes", s.Width, s.Height)
		}
		if n, rest, err := Leb128(b); err == nil && (n < 0 || n > 1<<32-1 || len(rest) >= len(b)) {
			t.Fatalf("%d, %d of %d bytes left", n, len(rest), len(b))
		}
	})
}
