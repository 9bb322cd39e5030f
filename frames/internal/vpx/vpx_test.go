package vpx

import (
	"bytes"
	"errors"
	"testing"

	"sightline/frames/internal/coded"
	"sightline/frames/internal/decodertest"
	"sightline/frames/internal/guard"
	"sightline/frames/internal/vp9hdr"
)

func TestVP8Conformance(t *testing.T) {
	decodertest.Suite{
		New:   func() (decodertest.Decoder, error) { return NewVP8() },
		Large: "vp8-320x240.ivf", Small: "vp8-160x120.ivf", Odd: "odd-641x481.ivf", OddWidth: 641, OddHeight: 481, Other: "vp9-160x120.ivf",
		Huge: decodertest.Frames(t, "vp8-key-16383.ivf")[0],
		Streams: map[string]string{
			"vp8-key-16383.ivf":          "rkk",
			"vp8-key-16383-10-bytes.ivf": "rkk",
			"vp8-key-0x0.ivf":            "rkk",
			"vp8-truncated.ivf":          "pckkkkkkkkkk",
			"vp8-garbage.ivf":            "p???????????",
			"vp8-no-key.ivf":             "kkkkkkkkkkk",
			"vp8-empty-frame.ivf":        "prppp",
			"vp8-2-byte-frame.ivf":       "prkkk",
			"vp8-bad-start-code.ivf":     "rkkk",
			"vp8-version-7.ivf":          "rkkk",
			"vp8-is-vp9.ivf":             "????",
			"vp8-size-change.ivf":        "pppppppppppp",
		},
	}.Run(t)
}

func TestVP9Conformance(t *testing.T) {
	huge := bytes.Clone(decodertest.Frames(t, "vp9-320x240.ivf")[0])
	for i := 5; i < 9; i++ { // width and height, 16 bits each, end four bits before a byte does: 65,520 or so
		huge[i] = 0xff
	}
	decodertest.Suite{
		New:   func() (decodertest.Decoder, error) { return NewVP9() },
		Large: "vp9-320x240.ivf", Small: "vp9-160x120.ivf", Odd: "vp9-odd.ivf", OddWidth: 641, OddHeight: 481, Other: "vp8-empty-frame.ivf",
		Huge: huge,
		Streams: map[string]string{
			"vp9-key-16384.ivf": "rkk",
			"vp9-truncated.ivf": "pdkkkkkkkkkk",
			"vp9-garbage.ivf":   "p???????????",
			"vp9-no-key.ivf":    "kkkkkkkkkkk",
		},
	}.Run(t)
}

func decoder(t testing.TB) *Decoder {
	t.Helper()
	d, err := NewVP8()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestDecodeAllocatesNothing(t *testing.T) {
	d, frames := decoder(t), decodertest.Frames(t, "odd-641x481.ivf")
	if n := testing.AllocsPerRun(20, func() {
		for _, f := range frames {
			if _, err := d.Decode(f); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations over %d frames", n, len(frames))
	}
}

// libvpx never reads past a frame, sound, cut anywhere or empty after its header.
func TestDecodeReadsNoByteAfterTheFrame(t *testing.T) {
	d, frames := decoder(t), decodertest.Frames(t, "vp8-truncated.ivf")
	for i := 3; i < len(frames[0]); i += 1 + i/12 {
		cut := guard.Tail(t, i)
		copy(cut, frames[0])
		d.Decode(cut) // whatever it says, it lives
		whole := guard.Tail(t, len(frames[0]))
		copy(whole, frames[0])
		if _, err := d.Decode(whole); err != nil {
			t.Fatal(err)
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
		{decodertest.Frames(t, "vp8-key-16383.ivf")[0], coded.ErrRefused, "16383×16383"},
		{decodertest.Frames(t, "vp8-no-key.ivf")[0], coded.ErrNeedKey, "damaged or missing"},
		{decodertest.Frames(t, "vp8-truncated.ivf")[0][:12], coded.ErrDecode, "libvpx: "},
	} {
		_, err := d.Decode(c.frame)
		if !errors.Is(err, c.kind) || !bytes.Contains([]byte(err.Error()), []byte(c.words)) {
			t.Errorf("got %v, want %v with %q", err, c.kind, c.words)
		}
	}
}

func TestBytesFollowsThePicture(t *testing.T) {
	d := decoder(t)
	if d.Bytes() != 0 {
		t.Errorf("%d bytes before the first picture", d.Bytes())
	}
	if _, err := d.Decode(decodertest.Frames(t, "odd-641x481.ivf")[0]); err != nil {
		t.Fatal(err)
	}
	if b := d.Bytes(); b < 4*641*481*3/2 || b > 4<<20 {
		t.Errorf("%d bytes at 641×481", b)
	}
	d.Close()
	if d.Bytes() != 0 {
		t.Errorf("%d bytes after Close", d.Bytes())
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"vp8-truncated.ivf", "vp8-garbage.ivf", "vp8-key-16383.ivf", "odd-641x481.ivf"} {
		for _, frame := range decodertest.Frames(f, name)[:2] {
			f.Add(frame)
		}
	}
	key := decodertest.Frames(f, "vp8-truncated.ivf")[0]
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

// FuzzDecodeVP9: what libvpx makes of a frame has the size that the header was read as; then a sound key frame decodes.
func FuzzDecodeVP9(f *testing.F) {
	for _, name := range []string{"vp9-odd.ivf", "vp9-160x120.ivf"} {
		for _, frame := range decodertest.Frames(f, name)[:2] {
			f.Add(frame)
		}
	}
	key := decodertest.Frames(f, "vp9-320x240.ivf")[0]
	d, err := NewVP9()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { d.Close() })
	f.Fuzz(func(t *testing.T, frame []byte) {
		if p, err := d.Decode(frame); err == nil {
			if err := p.Validate(); err != nil {
				t.Fatal(err)
			}
			frames, err := vp9hdr.Frames(frame)
			if err != nil {
				t.Fatal(err)
			}
			if h, err := vp9hdr.Parse(frame); err != nil || len(frames) == 1 && h.Key && (h.Width != p.Width || h.Height != p.Height) {
				t.Fatalf("header %+v, %v; picture of %d×%d", h, err, p.Width, p.Height)
			}
		}
		if p, err := d.Decode(key); err != nil || p.Width != 320 {
			t.Fatalf("sound key frame afterwards: %d wide, %v", p.Width, err)
		}
	})
}
