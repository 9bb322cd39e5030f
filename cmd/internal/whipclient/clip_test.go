package whipclient

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/pion/rtp/codecs"
)

// vp8 makes the start of a VP8 frame: enough for what a publisher looks at.
func vp8(key bool, width, height int) []byte {
	b := make([]byte, 12)
	if !key {
		b[0] = 1
		return b
	}
	copy(b[3:], []byte{0x9d, 0x01, 0x2a})
	binary.LittleEndian.PutUint16(b[6:], uint16(width))
	binary.LittleEndian.PutUint16(b[8:], uint16(height))
	return b
}

func ivfFile(fourCC string, rate, scale uint32, step uint64, frames ...[]byte) []byte {
	b := make([]byte, 32)
	copy(b, "DKIF")
	b[6] = 32
	copy(b[8:], fourCC)
	binary.LittleEndian.PutUint32(b[16:], rate)
	binary.LittleEndian.PutUint32(b[20:], scale)
	for i, f := range frames {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(f)))
		b = binary.LittleEndian.AppendUint64(b, uint64(i)*step)
		b = append(b, f...)
	}
	return b
}

func TestReadIVF(t *testing.T) {
	key, delta := vp8(true, 641, 481), vp8(false, 0, 0)
	// Milliseconds as ticks, one frame in 40 of them: the rate is 25 whatever the header's frame rate looks like.
	clip, err := ReadIVF("c.ivf", bytes.NewReader(ivfFile("VP80", 1000, 1, 40, key, delta, delta, key, delta)))
	if err != nil {
		t.Fatal(err)
	}
	if clip.Width != 641 || clip.Height != 481 || math.Abs(clip.FPS-25) > 0.01 || len(clip.Frames) != 5 {
		t.Errorf("clip %+v", clip)
	}
	for from, want := range map[int]int{0: 0, 1: 3, 3: 3, 4: 0, 5: 0} {
		if got := clip.nextKey(from); got != want {
			t.Errorf("next key frame from %d is %d, want %d", from, got, want)
		}
	}
	if rate := clip.Bitrate(); math.Abs(rate-12*8*25) > 1 {
		t.Errorf("%g bit/s", rate)
	}
}

func TestReadIVFRefuses(t *testing.T) {
	key, delta := vp8(true, 640, 480), vp8(false, 0, 0)
	for _, test := range []struct {
		name string
		file []byte
		want string
	}{
		{"VP9", ivfFile("VP90", 30, 1, 1, key), `holds "VP90"`},
		{"no key frame", ivfFile("VP80", 30, 1, 1, delta, key), "does not start with a key frame"},
		{"empty", ivfFile("VP80", 30, 1, 1), "has no frames"},
		{"no IVF", []byte("<html>" + strings.Repeat(" ", 40)), "DKIF"},
		{"too fast", ivfFile("VP80", 1000, 1, 1, key, delta), "240"},
	} {
		if _, err := ReadIVF("c.ivf", bytes.NewReader(test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestTemporalLayersAreInThePackets(t *testing.T) {
	clip, err := NewClip("c", 30, [][]byte{vp8(true, 640, 480), vp8(false, 0, 0), vp8(false, 0, 0), append(vp8(false, 0, 0), make([]byte, 3000)...)})
	if err != nil {
		t.Fatal(err)
	}
	if err := clip.Temporal(3); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint8{0, 2, 1, 2} {
		var data []byte
		for k, payload := range clip.Frames[i].payloads {
			var p codecs.VP8Packet
			part, err := p.Unmarshal(payload)
			if err != nil || p.TID != want || p.T != 1 || p.L != 1 || p.I != 1 || (p.S == 1) != (k == 0) || len(payload) > mtu-rtpHeader {
				t.Errorf("frame %d, packet %d of %d bytes: %+v, %v", i, k, len(payload), p, err)
			}
			data = append(data, part...)
		}
		if !bytes.Equal(data, clip.Frames[i].Data) {
			t.Errorf("frame %d: %d bytes of %d", i, len(data), len(clip.Frames[i].Data))
		}
	}
	if clip.Temporal(4) == nil {
		t.Error("4 layers are taken")
	}
}
