package dav1d

import (
	"bytes"
	"errors"
	"testing"

	"sightline/frames/internal/av1hdr"
	"sightline/frames/internal/coded"
	"sightline/frames/internal/decodertest"
	"sightline/frames/internal/guard"
)

func TestAV1Conformance(t *testing.T) {
	decodertest.Suite{
		New:   func() (decodertest.Decoder, error) { return New() },
		Large: "av1-320x240.ivf", Small: "av1-160x120.ivf", Odd: "av1-odd.ivf", OddWidth: 641, OddHeight: 481, Other: "vp8-320x240.ivf",
		Huge: huge(t),
	}.Run(t)
}

// huge is a key frame whose sequence header claims 65,536 × 65,536.
func huge(t testing.TB) []byte {
	frame := decodertest.Frames(t, "av1-320x240.ivf")[0]
	var out []byte
	for rest := frame; len(rest) > 0; {
		o, next, err := av1hdr.ParseOBU(rest)
		if err != nil {
			t.Fatal(err)
		}
		rest = next
		if o.Type == av1hdr.TypeSequence {
			// 29 bits of flags and one operating point of level 31 with a tier, the lengths of both sizes (16, 16), the sizes, tools
			o.Payload = append(bytes.Clone(o.Payload[:3]), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0)
		}
		out = av1hdr.AppendOBU(out, o)
	}
	return out
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

// dav1d never reads past a frame, sound or cut anywhere.
func TestDecodeReadsNoByteAfterTheFrame(t *testing.T) {
	d, frames := decoder(t), decodertest.Frames(t, "av1-160x120.ivf")
	for i := 3; i < len(frames[0]); i += 1 + i/12 {
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
		{huge(t), coded.ErrRefused, "allowed are 1 to 4096 a side"},
		{decodertest.Frames(t, "av1-320x240.ivf")[1], coded.ErrNeedKey, "damaged or missing"},
		{[]byte{0x12, 0}, coded.ErrRefused, "no frame"},
	} {
		_, err := d.Decode(c.frame)
		if !errors.Is(err, c.kind) || !bytes.Contains([]byte(err.Error()), []byte(c.words)) {
			t.Errorf("got %v, want %v with %q", err, c.kind, c.words)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"av1-160x120.ivf", "av1-odd.ivf"} {
		for _, frame := range decodertest.Frames(f, name)[:2] {
			f.Add(frame)
		}
	}
	key := decodertest.Frames(f, "av1-320x240.ivf")[0]
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
