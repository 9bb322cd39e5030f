package frames

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"testing"
	"time"

	"github.com/pion/rtp"

	"sightline/frames/internal/stilljpeg"
)

// FuzzExtensions reads header extensions of whole RTP packets: abs-capture-time, color-space, content type and dependency descriptor under the
// ids that the first bytes pick. Capture times stay what they are said to be: never later than the arrival.
func FuzzExtensions(f *testing.F) {
	packet := func(profile uint16, id uint8, value []byte) []byte {
		p := &rtp.Packet{Header: rtp.Header{Version: 2, Marker: true, SequenceNumber: 7, Timestamp: 9000, Extension: true, ExtensionProfile: profile}, Payload: []byte{0x10, 0}}
		if err := p.SetExtension(id, value); err != nil {
			f.Fatal(err)
		}
		b, err := p.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	ids := []byte{1, 2, 3, 4}
	f.Add(append(ids, packet(0xbede, 1, binary.BigEndian.AppendUint64(nil, 0xe8f0_0000_0000_0000))...))
	f.Add(append(ids, packet(0xbede, 1, append(binary.BigEndian.AppendUint64(nil, 0xe8f0_0000_0000_0000), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0))...))
	f.Add(append(ids, packet(0xbede, 2, []byte{9, 16, 9, 0x20})...))
	f.Add(append(ids, packet(0x1000, 2, make([]byte, 28))...))
	f.Add(append(ids, packet(0xbede, 3, []byte{0xc1, 0, 2})...))
	f.Add(append(ids, packet(0xbede, 4, []byte{1})...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 {
			return
		}
		a := asleep(CodecVP8)
		a.said.ids = Extensions{AbsCaptureTime: b[0] & 15, ColorSpace: b[1] & 15, Dependency: b[2] & 15, ContentType: b[3] & 15}
		a.wake()
		for i, raw := range bytes.SplitN(b[4:], b[:4], 8) {
			p := &rtp.Packet{}
			if p.Unmarshal(raw) != nil {
				continue
			}
			at := t0.Add(time.Duration(i) * 30 * time.Millisecond)
			for _, fr := range a.push(p, at) {
				if fr.captured.at.After(fr.receivedAt) {
					t.Fatalf("captured %v, received %v", fr.captured.at, fr.receivedAt)
				}
				a.recycle(fr)
			}
			if err := a.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzStill makes images of bytes of any kind: an error, or a JPEG of the size that was asked for.
func FuzzStill(f *testing.F) {
	small := image.NewNRGBA(image.Rect(0, 0, 5, 3))
	small.Set(1, 1, color.NRGBA{200, 10, 10, 90})
	var b bytes.Buffer
	if err := png.Encode(&b, small); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	b.Reset()
	if err := gif.Encode(&b, small, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(b.Bytes()))
	for _, name := range []string{"black-white.webp", "control-exif-6.jpg", "control-1x1.jpg", "exif-orientation-9.jpg"} {
		data, err := os.ReadFile("internal/stilljpeg/testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(liar())
	opts := &EncodeOptions{Format: JPEG, Resize: &ResizeOptions{Width: 32, Height: 24}, Quality: 60}
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := bytesStill(data); err != nil || s.size.X*s.size.Y > 1<<18 {
			return // time, not safety
		}
		out, err := Encode(data, opts)
		if err != nil {
			return
		}
		if info, err := stilljpeg.Parse(out); err != nil || info.Width != 32 || info.Height != 24 {
			t.Fatalf("%d×%d, %v", info.Width, info.Height, err)
		}
	})
}

// liar is a WebP whose container says 1×1 and whose picture says 16384×16384.
func liar() []byte {
	chunk := func(name string, body ...byte) []byte {
		b := append([]byte(name), byte(len(body)), 0, 0, 0)
		return append(b, body...)
	}
	body := append([]byte("WEBP"), chunk("VP8X", 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0)...)
	body = append(body, chunk("VP8L", 0x2f, 0xff, 0xff, 0xff, 0x0f, 0x88, 0x88, 0x08, 0x00, 0x00)...)
	return append([]byte{'R', 'I', 'F', 'F', byte(len(body)), 0, 0, 0}, body...)
}
