package gateway

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	_ "image/png"
	"testing"
)

// Every option of an image, asked for over HTTP of a real camera of 640×480.
func TestImageOptionsOverHTTP(t *testing.T) {
	g := startGateway(t, nil)
	g.createSession("demo")
	publishClip(t, g, "demo")
	for _, c := range []struct {
		query         string
		width, height int
		format        string
		bars          bool // black above and below
		optimised     bool
	}{
		{"", 1024, 1024, "jpeg", false, false},
		{"width=300&height=300", 300, 300, "jpeg", false, false},
		{"width=300&height=300&fit=stretch&optimize=true", 300, 300, "jpeg", false, true},
		{"width=300&height=300&sharp=true", 300, 300, "jpeg", false, false},
		{"width=300&height=300&fit=contain", 300, 225, "jpeg", false, false},
		{"width=800&height=800&fit=contain", 640, 480, "jpeg", false, false}, // never larger than the picture
		{"width=800&height=800&fit=contain&upscale=true", 800, 600, "jpeg", false, false},
		{"width=300&height=300&fit=cover&quality=20", 300, 300, "jpeg", false, false},
		{"width=300&height=300&fit=letterbox", 300, 300, "jpeg", true, false},
		{"width=301&height=301&fit=letterbox&format=png", 301, 301, "png", true, false},
		{"width=1&height=1", 1, 1, "jpeg", false, false},
		{"width=4096&height=16", 4096, 16, "jpeg", false, false},
	} {
		status, body, h := g.do("GET", "/v1/sessions/demo/image?max_age_ms=60000&wait_ms=20000&"+c.query, "")
		if status != 200 || h.Get("Content-Type") != "image/"+c.format {
			t.Fatalf("%s: %d %s %.200s", c.query, status, h.Get("Content-Type"), body)
		}
		m, format, err := image.Decode(bytes.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v", c.query, err)
		}
		if s := m.Bounds().Size(); s.X != c.width || s.Y != c.height || format != c.format {
			t.Errorf("%s: %s of %v, want %s of %d×%d", c.query, format, s, c.format, c.width, c.height)
		}
		if c.bars {
			for _, y := range []int{0, c.height / 12, c.height - 1} {
				if r, g, b, _ := m.At(c.width/2, y).RGBA(); r>>8 > 2 || g>>8 > 2 || b>>8 > 2 {
					t.Errorf("%s: bar at %d is %d %d %d", c.query, y, r>>8, g>>8, b>>8)
				}
			}
		}
		if c.format == "jpeg" && ownTables(t, body) != c.optimised {
			t.Errorf("%s: has Huffman tables of its own: %v", c.query, !c.optimised)
		}
	}
	_, fine, _ := g.do("GET", "/v1/sessions/demo/image?width=512&height=512&quality=95&wait_ms=20000", "")
	_, coarse, _ := g.do("GET", "/v1/sessions/demo/image?width=512&height=512&quality=10&wait_ms=20000", "")
	if _, err := jpeg.Decode(bytes.NewReader(fine)); err != nil || len(coarse)*3 > len(fine) {
		t.Errorf("quality 95: %d bytes (%v), quality 10: %d", len(fine), err, len(coarse))
	}
}

// ownTables reports whether a JPEG has other Huffman tables than the standard's, which fill 416 bytes (ITU-T T.81, annex K.3).
func ownTables(t *testing.T, b []byte) bool {
	t.Helper()
	total := 0
	for at := 2; at+4 <= len(b) && b[at+1] != 0xda; { // to the scan
		n := int(binary.BigEndian.Uint16(b[at+2:]))
		if b[at+1] == 0xc4 {
			total += n - 2
		}
		at += 2 + n
	}
	return total != 416
}
