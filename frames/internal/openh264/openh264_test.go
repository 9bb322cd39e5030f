package openh264

import (
	"bytes"
	"errors"
	"testing"

	"sightline/frames/internal/coded"
	"sightline/frames/internal/decodertest"
	"sightline/frames/internal/guard"
	"sightline/frames/internal/h264hdr"
)

func TestH264Conformance(t *testing.T) {
	decodertest.Suite{
		New:   func() (decodertest.Decoder, error) { return New() },
		Large: "h264-320x240.h264", Small: "h264-160x120.h264", Odd: "h264-odd.h264", OddWidth: 642, OddHeight: 482, Other: "vp8-320x240.ivf",
		Huge: decodertest.Frames(t, "h264-sps-16384.h264")[0],
		Streams: map[string]string{
			"h264-sps-16384.h264":         "rkk",
			"h264-no-parameter-sets.h264": "dkkkkkkkkkkk",
			"h264-truncated.h264":         "pdkkkkkkkkkk",
			"h264-garbage.h264":           "pdkkkkkkkkkk",
			"h264-odd-nals.h264":          "pppppp",
		},
	}.Run(t)
}

func decoder(t testing.TB) *Decoder {
	t.Helper()
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// openh264 never reads past a frame, sound or cut anywhere.
func TestDecodeReadsNoByteAfterTheFrame(t *testing.T) {
	d, frames := decoder(t), decodertest.Frames(t, "h264-160x120.h264")
	for i := 40; i < len(frames[0]); i += 1 + i/12 {
		cut := guard.Tail(t, i)
		copy(cut, frames[0])
		d.Decode(cut) // whatever it says, it lives
		whole := guard.Tail(t, len(frames[0]))
		copy(whole, frames[0])
		if _, err := d.Decode(whole); err != nil {
			t.Fatalf("after a frame cut to %d bytes: %v", i, err)
		}
		delta := guard.Tail(t, min(i, len(frames[1])))
		copy(delta, frames[1])
		d.Decode(delta)
	}
}

func TestErrorsSayWhatIsAllowed(t *testing.T) {
	d := decoder(t)
	for _, c := range []struct {
		frame []byte
		kind  error
		words string
	}{
		{nil, coded.ErrRefused, "0 bytes, must be 1 to 4194304"},
		{decodertest.Frames(t, "h264-sps-16384.h264")[0], coded.ErrRefused, "allowed are 1 to 4096 a side"},
		{decodertest.Frames(t, "h264-320x240.h264")[1], coded.ErrNeedKey, "damaged or missing"},
		{[]byte{0, 0, 0, 1, 9, 0xf0}, coded.ErrRefused, "no slice"},
	} {
		_, err := d.Decode(c.frame)
		if !errors.Is(err, c.kind) || !bytes.Contains([]byte(err.Error()), []byte(c.words)) {
			t.Errorf("got %v, want %v with %q", err, c.kind, c.words)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"h264-160x120.h264", "h264-garbage.h264", "h264-sps-16384.h264", "h264-odd-nals.h264"} {
		for _, frame := range decodertest.Frames(f, name)[:2] {
			f.Add(frame)
		}
	}
	key := decodertest.Frames(f, "h264-320x240.h264")[0]
	d := decoder(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		if p, err := d.Decode(frame); err == nil {
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := d.Decode(key); err != nil || p.Width != 320 {
			t.Fatalf("sound key frame afterwards: %d wide, %v", p.Width, err)
		}
	})
}

func FuzzHeaders(f *testing.F) {
	for _, frame := range decodertest.Frames(f, "h264-odd.h264")[:2] {
		for nal, rest := h264hdr.NextNAL(frame); nal != nil; nal, rest = h264hdr.NextNAL(rest) {
			f.Add(nal[:min(len(nal), 64)])
		}
	}
	f.Fuzz(func(t *testing.T, nal []byte) {
		if s, err := h264hdr.ParseSPS(nal); err == nil && coded.CheckSize(s.Width, s.Height) != nil {
			t.Errorf("size %d×%d passes", s.Width, s.Height)
		}
		h264hdr.ParsePPS(nal)
		h264hdr.ParseSlice(nal)
	})
}
