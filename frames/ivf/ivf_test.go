package ivf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// file makes an IVF file of 30 ticks/s with these frames.
func file(frames ...string) []byte {
	le := binary.LittleEndian
	b := make([]byte, 32)
	copy(b, "DKIF")
	le.PutUint16(b[6:], 32)
	copy(b[8:], "VP80")
	le.PutUint16(b[12:], 640)
	le.PutUint16(b[14:], 480)
	le.PutUint32(b[16:], 30)
	le.PutUint32(b[20:], 1)
	le.PutUint32(b[24:], uint32(len(frames)))
	for i, f := range frames {
		b = le.AppendUint32(b, uint32(len(f)))
		b = le.AppendUint64(b, uint64(i))
		b = append(b, f...)
	}
	return b
}

func TestReadAll(t *testing.T) {
	h, fs, err := ReadAll(bytes.NewReader(file("one", "", "three")))
	if err != nil {
		t.Fatal(err)
	}
	if h.FourCC != "VP80" || h.Width != 640 || h.Height != 480 || h.Frames != 3 || h.Time(45) != 1500*time.Millisecond {
		t.Errorf("header %+v, 45 ticks = %v", h, h.Time(45))
	}
	if len(fs) != 3 || string(fs[0].Data) != "one" || len(fs[1].Data) != 0 || string(fs[2].Data) != "three" || fs[2].PTS != 2 {
		t.Errorf("frames %+v", fs)
	}
}

func TestEveryCutIsSeen(t *testing.T) {
	whole := file("one", "three")
	for n := range whole {
		_, fs, err := ReadAll(bytes.NewReader(whole[:n]))
		switch border := n == 32 || n == 32+12+3; {
		case border && err != nil:
			t.Errorf("cut at frame border %d: %v", n, err)
		case !border && err == nil:
			t.Errorf("cut at %d: no error, %d frames", n, len(fs))
		case !border && n > 32 && !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   int
		put  []byte
		want string
	}{
		{"magic", 0, []byte("RIFF"), "DKIF"},
		{"version", 4, []byte{1, 0}, "version 1"},
		{"rate", 16, make([]byte, 4), "1/0"},
		{"frame size", 32, []byte{0xff, 0xff, 0xff, 0xff}, "4294967295 bytes"},
	} {
		b := file("one")
		copy(b[tt.at:], tt.put)
		if _, _, err := ReadAll(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

// FuzzReadAll: what a file claims is not believed before its bytes are there.
func FuzzReadAll(f *testing.F) {
	f.Add(file("frame", "", "another"))
	huge := file("x")
	huge[32], huge[33], huge[34] = 0xff, 0xff, 0xff
	f.Add(huge)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, frames, err := ReadAll(bytes.NewReader(b))
		total := 0
		for _, frame := range frames {
			total += len(frame.Data)
		}
		if total > len(b) || err == nil && 32+12*len(frames)+total != len(b) {
			t.Fatalf("%d frames of %d bytes out of %d, %v", len(frames), total, len(b), err)
		}
	})
}
