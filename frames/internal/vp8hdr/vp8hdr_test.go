package vp8hdr

import (
	"errors"
	"testing"

	"sightline/frames/internal/coded"
)

// key makes a key frame header for w×h whose first partition has n bytes.
func key(w, h, n int) []byte {
	tag := uint32(0) | 1<<4 | uint32(n)<<5
	return []byte{byte(tag), byte(tag >> 8), byte(tag >> 16), 0x9d, 0x01, 0x2a, byte(w), byte(w >> 8), byte(h), byte(h >> 8)}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name  string
		frame []byte
		want  Header
		err   error
	}{
		{"empty", nil, Header{}, ErrShort},
		{"two bytes", []byte{0, 0}, Header{}, ErrShort},
		{"key of 3 bytes", []byte{0x10, 0, 0}, Header{Show: true, Key: true}, ErrShort},
		{"key 640x480", key(640, 480, 300), Header{Key: true, Show: true, FirstPartBytes: 300, Width: 640, Height: 480}, nil},
		{"largest sides", key(16383, 16383, 1), Header{Key: true, Show: true, FirstPartBytes: 1, Width: 16383, Height: 16383}, nil},
		{"scale bits", key(640|1<<14, 480|3<<14, 1), Header{Key: true, Show: true, FirstPartBytes: 1, Width: 640, Height: 480, HScale: 1, VScale: 3}, nil},
		{"wrong start code", append(key(640, 480, 1)[:3], 1, 2, 3, 0, 0, 0, 0), Header{Key: true, Show: true, FirstPartBytes: 1}, ErrStartCode},
		{"inter, hidden, version 3", []byte{1 | 3<<1, 0, 0}, Header{Version: 3}, nil},
		{"version 5", []byte{1 | 5<<1, 0, 0}, Header{Version: 5}, ErrVersion},
		{"longest first partition", []byte{0xf1, 0xff, 0xff}, Header{Show: true, FirstPartBytes: 1<<19 - 1}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.frame)
			if !errors.Is(err, tt.err) || got != tt.want {
				t.Fatalf("Parse = %+v, %v; want %+v, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestCheckSize(t *testing.T) {
	for _, tt := range []struct {
		w, h int
		ok   bool
	}{{1, 1, true}, {641, 481, true}, {4096, 2176, true}, {2176, 4096, true}, {4096, 2177, false}, {4097, 1, false}, {0, 480, false}, {640, 0, false}, {16383, 16383, false}} {
		h, err := Parse(key(tt.w, tt.h, 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := h.CheckSize(); (err == nil) != tt.ok || (err != nil && !errors.Is(err, coded.ErrSize)) {
			t.Errorf("%d×%d: %v, want ok=%v", tt.w, tt.h, err, tt.ok)
		}
	}
	if err := (Header{}).CheckSize(); err != nil {
		t.Errorf("inter frame: %v", err)
	}
}

func TestCheckComplete(t *testing.T) {
	h, _ := Parse(key(640, 480, 300))
	if err := h.CheckComplete(310); err != nil {
		t.Error(err)
	}
	if err := h.CheckComplete(309); !errors.Is(err, ErrTruncated) {
		t.Errorf("one byte short: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(key(640, 480, 300))
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Parse(b)
		if err == nil && h.CheckSize() == nil && h.Key && (h.Width*h.Height > coded.MaxPixels || h.Width*h.Height < 1) {
			t.Fatalf("%+v passed", h)
		}
	})
}
