package chatctx

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestImageFromURL(t *testing.T) {
	img, err := ImageFromURL("http://x/a.png", "")
	if err != nil || img != (ImageContent{URL: "http://x/a.png", Detail: "auto"}) {
		t.Errorf("%+v, %v", img, err)
	}
	for _, bad := range []string{"", "x.png", "file:///etc/passwd", "data:image/png;base64,AAAA", "HTTP//x"} {
		_, err := ImageFromURL(bad, "")
		wantError(t, err, InvalidArgument, "url")
	}
}

func TestImageDetail(t *testing.T) {
	data := pngBytes(t, 1, 1)
	for detail, want := range map[string]string{"": "auto", "auto": "auto", "low": "low", "high": "high"} {
		img, _, err := ImageFromBytes(data, "image/png", detail)
		if err != nil || img.Detail != want {
			t.Errorf("%q: %q, %v", detail, img.Detail, err)
		}
	}
	_, err1 := ImageFromURL("http://x", "best")
	_, _, err2 := ImageFromBytes(data, "image/png", "best")
	_, _, err3 := ImageFromBase64("", "image/png", "best")
	_, _, err4 := ImageFromDataURL("data:,", "best")
	_, _, err5 := ImageFromFile("", "", "best")
	_, _, err6 := ImageFromFrame(data, "best", nil)
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		wantError(t, err, InvalidArgument, "detail")
	}
}

// TestImageTypes: the caller's type is kept and a wrong one told; without one it is what the bytes are.
func TestImageTypes(t *testing.T) {
	real := map[string][]byte{"image/png": pngBytes(t, 3, 2), "image/jpeg": jpegBytes(t, 3, 2), "image/gif": gifBytes(t, 3, 2), "image/webp": webpBytes}
	for mime, data := range real {
		for declared, warn := range map[string]bool{"": false, mime: false, strings.ToUpper(mime): false, "image/bmp": true, "text/plain": true} {
			img, warning, err := ImageFromBytes(data, declared, "")
			want := declared
			if want == "" {
				want = mime
			}
			if err != nil || !strings.HasPrefix(img.URL, "data:"+want+";base64,") || img.Width == 0 || (warning != "") != warn || warn && !strings.Contains(warning, "the bytes are "+mime) {
				t.Errorf("%s declared %q: %.40s, %q, %v", mime, declared, img.URL, warning, err)
			}
			b64, warning64, err := ImageFromBase64(base64.StdEncoding.EncodeToString(data), declared, "")
			if err != nil || b64 != img || warning64 != warning {
				t.Errorf("%s declared %q as base64: %+v, %q, %v", mime, declared, b64, warning64, err)
			}
			again, warningURL, err := ImageFromDataURL(img.URL, "")
			if err != nil || again != img || (warningURL != "") != warn {
				t.Errorf("%s declared %q as data: URL: %+v, %q, %v", mime, declared, again, warningURL, err)
			}
		}
	}
	if _, warning, err := ImageFromBytes([]byte("<svg/>"), "image/svg+xml", ""); err != nil || !strings.Contains(warning, "no JPEG") {
		t.Errorf("%q, %v", warning, err)
	}
	_, _, err := ImageFromBytes([]byte("<svg/>"), "", "")
	wantError(t, err, InvalidImage, "mime_type")
	for _, bad := range []string{"image/png;x=1", "image/png,", "image png", "bild/ä", strings.Repeat("a", 300)} {
		_, _, err := ImageFromBytes(real["image/png"], bad, "")
		wantError(t, err, InvalidArgument, "mime_type")
	}
	_, _, err = ImageFromBase64("not base64!", "image/png", "")
	wantError(t, err, InvalidImage, "base64")
	_, _, err = ImageFromDataURL("http://x", "")
	wantError(t, err, InvalidImage, "url")
	_, _, err = ImageFromBytes([]byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"), "image/gif", "")
	wantError(t, err, InvalidImage, "url")
	if !errors.Is(err, errTooManyPixels) {
		t.Errorf("the bomb was refused for something else: %v", err)
	}
}

func TestImageFromFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, declared, want string
		data                 []byte
		warns                bool
	}{
		{"a.png", "", "image/png", pngBytes(t, 1, 1), false},
		{"a.webp", "", "image/webp", webpBytes, false},                 // by the table it would be a JPEG
		{"lies.jpg", "", "image/png", pngBytes(t, 1, 1), false},        // sniffing comes first
		{"noext", "", "image/gif", gifBytes(t, 1, 1), false},           //
		{"a.svg", "", "image/svg+xml", []byte("<svg/>"), true},         // the table, with a warning
		{"empty", "", "image/jpeg", nil, true},                         // the seeds' default, with a warning
		{"b.png", "image/jpeg", "image/jpeg", pngBytes(t, 1, 1), true}, // given: kept, with a warning
	} {
		img, warning, err := ImageFromFile(write(c.name, c.data), c.declared, "low")
		if err != nil || img.URL != DataURL(c.want, c.data) || img.Detail != "low" || (warning != "") != c.warns {
			t.Errorf("%s: %.40s, %q, %v; want %s", c.name, img.URL, warning, err, c.want)
		}
	}
	_, _, err := ImageFromFile(filepath.Join(dir, "missing"), "", "")
	wantError(t, err, NotFound, "path")
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cause is not to be seen: %v", err)
	}
	_, _, err = ImageFromFile(dir, "", "")
	wantError(t, err, InvalidArgument, "path")
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = ImageFromFile(pipe, "", "") // and does not block
	wantError(t, err, InvalidArgument, "path")
	big := write("big.png", nil)
	if err := os.Truncate(big, MaxImageFileBytes+1); err != nil { // sparse
		t.Fatal(err)
	}
	_, _, err = ImageFromFile(big, "", "")
	wantError(t, err, TooLarge, "path")
}

func TestImageFromFrame(t *testing.T) {
	data := pngBytes(t, 2, 1)
	type picture struct{}
	asked := 0
	encode := func(frame any) ([]byte, error) {
		asked++
		if _, ok := frame.(picture); !ok {
			return nil, errors.New("not a picture")
		}
		return jpegBytes(t, 4, 4), nil
	}
	for _, c := range []struct {
		name  string
		frame any
		mime  string
		warns bool
	}{
		{"bytes are told by themselves, not called a JPEG", data, "image/png", false},
		{"unknown bytes", []byte("x"), "image/jpeg", true},
		{"a map", map[string]any{"data": data}, "image/png", false},
		{"a map that names the type", map[string]any{"data": data, "mime_type": "image/png"}, "image/png", false},
		{"a map that lies", map[string]any{"data": data, "mimeType": "image/webp"}, "image/webp", true},
		{"mime_type comes first", map[string]any{"data": data, "mime_type": "image/png", "mimeType": "image/webp"}, "image/png", false},
		{"an empty type is none", map[string]any{"data": data, "mime_type": "", "mimeType": nil}, "image/png", false},
		{"anything else is encoded", picture{}, "image/jpeg", false},
	} {
		img, warning, err := ImageFromFrame(c.frame, "", encode)
		if err != nil || !strings.HasPrefix(img.URL, "data:"+c.mime+";base64,") || (warning != "") != c.warns {
			t.Errorf("%s: %.40s, %q, %v", c.name, img.URL, warning, err)
		}
	}
	if asked != 1 {
		t.Errorf("encoded %d times", asked)
	}
	for field, frame := range map[string]any{"frame.data": map[string]any{"data": "text"}, "frame.mime_type": map[string]any{"data": data, "mime_type": 5}} {
		_, _, err := ImageFromFrame(frame, "", encode)
		wantError(t, err, InvalidArgument, field)
	}
	_, _, err := ImageFromFrame(picture{}, "", nil)
	wantError(t, err, InvalidArgument, "frame")
	_, _, err = ImageFromFrame(7, "", encode)
	wantError(t, err, InvalidImage, "frame")
}
