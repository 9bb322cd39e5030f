package chatctx

import (
	"bytes"
	"encoding/base64"
	"errors"
	"testing"
)

// TestHostileDataURLs: a JPEG that claims 65535×65535 is refused by its header; one that is cut off or has a thousand scans is stored as it is,
// since nothing here decodes it: what does (frames.Encode) has guards of its own.
func TestHostileDataURLs(t *testing.T) {
	sound := jpegBytes(t, 64, 48)
	at := bytes.Index(sound, []byte{0xff, 0xc0}) + 5
	claims := func(h, w uint16) []byte {
		b := bytes.Clone(sound)
		b[at], b[at+1], b[at+2], b[at+3] = byte(h>>8), byte(h), byte(w>>8), byte(w)
		return b
	}
	scan := sound[bytes.Index(sound, []byte{0xff, 0xda}):]
	bomb := bytes.Clone(sound[:len(sound)-len(scan)])
	for range 1000 {
		bomb = append(bomb, scan[:12]...)
	}
	for name, c := range map[string]struct {
		data   []byte
		pixels bool // refused for them
		err    bool
	}{
		"65535×65535":       {claims(65535, 65535), true, true},
		"16385×1":           {claims(1, 16385), true, true},
		"0×0":               {claims(0, 0), true, true},
		"header alone":      {sound[:at], false, true},
		"cut in its tables": {sound[:at+(len(sound)-at)/2], false, true},
		"cut in its scan":   {sound[:len(sound)-len(scan)+16], false, false},
		"a thousand scans":  {bomb, false, false},
		"text":              {[]byte("this is no picture"), false, true},
	} {
		info, err := InspectImage(c.data)
		if (err != nil) != c.err || errors.Is(err, errTooManyPixels) != c.pixels {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || e.Kind != InvalidImage || e.Detail == "") {
			t.Errorf("%s: %#v", name, err)
		}
		content, warning, err := ImageFromDataURL("data:image/jpeg;base64,"+base64.StdEncoding.EncodeToString(c.data), "auto")
		if err == nil && warning == "" && c.err {
			t.Errorf("%s: taken as %+v", name, content)
		}
	}
	if _, _, err := ParseDataURL("data:image/jpeg;base64,"+base64.StdEncoding.EncodeToString(make([]byte, 1000)), 999); err == nil {
		t.Error("a data: URL over the bound is decoded")
	}
}
