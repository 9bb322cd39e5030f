package chatctx

import (
	"bytes"
	"encoding/base64"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// webpBytes is a whole lossless WebP image of one pixel.
var webpBytes = []byte("RIFF\x1a\x00\x00\x00WEBPVP8L\x0d\x00\x00\x00\x2f\x00\x00\x00\x10\x07\x10\x11\x11\x88\x88\xfe\x07\x00")

func jpegBytes(t *testing.T, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, w, h)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gifBytes(t *testing.T, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gif.Encode(&b, image.NewPaletted(image.Rect(0, 0, w, h), color.Palette{color.Black, color.White}), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func withImages(id string, urls ...string) Op {
	m := &Message{ID: id, Role: RoleUser, Content: TextContent("look")}
	for _, u := range urls {
		m.Content = append(m.Content, ImageContent{URL: u, Detail: "low", Source: "camera", Width: 1, Height: 1})
	}
	return Op{ID: id, Kind: OpAppend, Item: m}
}

func imagesOf(t *testing.T, l *Log, id string) []ImageContent {
	t.Helper()
	item, ok := l.Chat().Item(id)
	if !ok {
		t.Fatalf("no item %s", id)
	}
	return item.(*Message).Content.Images()
}

// TestImagesAreStored: a data URL becomes a reference with the size that the bytes have; the bytes are in the store; the op's
// own item is not written to.
func TestImagesAreStored(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	for _, c := range []struct {
		mime string
		data []byte
		w, h int
	}{
		{"image/png", pngBytes(t, 3, 2), 3, 2},
		{"image/jpeg", jpegBytes(t, 17, 9), 17, 9},
		{"image/gif", gifBytes(t, 5, 4), 5, 4},
		{"image/webp", webpBytes, 1, 1},
	} {
		id := c.mime[len("image/"):]
		op := withImages(id, DataURL(c.mime, c.data), "https://x/y.png", "http://x/"+id)
		given := string(mustJSON(t, op.Item))
		if ack := mustAppend(t, log, op); ack.Warnings != nil {
			t.Errorf("%s: warnings %q", c.mime, ack.Warnings)
		}
		if now := string(mustJSON(t, op.Item)); now != given {
			t.Errorf("%s: the caller's item became %s", c.mime, now)
		}
		sha := sha256Hex(c.data)
		want := []ImageContent{
			{URL: BlobPrefix + sha, Detail: "low", Source: "camera", Width: c.w, Height: c.h},
			{URL: "https://x/y.png", Detail: "low", Source: "camera", Width: 1, Height: 1},
			{URL: "http://x/" + id, Detail: "low", Source: "camera", Width: 1, Height: 1},
		}
		if got := imagesOf(t, log, id); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v\nwant %+v", c.mime, got, want)
		}
		if b, err := log.Blob(t.Context(), sha); err != nil || b.MIME != c.mime || !bytes.Equal(b.Data, c.data) {
			t.Errorf("%s: blob %s of %d bytes, %v", c.mime, b.MIME, len(b.Data), err)
		}
	}
}

func TestImageOfAnotherType(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	data := pngBytes(t, 2, 2)
	long := "image/" + strings.Repeat("x", 200)
	op := withImages("m", DataURL("image/jpeg", data), DataURL("image/png", data), "data:;base64,"+base64.StdEncoding.EncodeToString(data), DataURL(long, data))
	ack := mustAppend(t, log, op)
	if len(ack.Warnings) != 3 || ack.Warnings[0] != "content[1]: declared image/jpeg, stored as what it is: image/png" {
		t.Errorf("warnings %q", ack.Warnings)
	}
	for _, w := range ack.Warnings {
		if len(w) > 200 {
			t.Errorf("a warning of %d bytes", len(w))
		}
	}
	if b, err := log.Blob(t.Context(), sha256Hex(data)); err != nil || b.MIME != "image/png" {
		t.Errorf("stored as %s, %v", b.MIME, err)
	}
}

func TestImageInAnUpdate(t *testing.T) {
	store := &faultyStore{Store: NewMemStore()}
	log := mustOpen(t, store)
	mustAppend(t, log, say("m", RoleUser, "x"))
	data := pngBytes(t, 4, 5)
	content := Content{ImageContent{URL: DataURL("image/gif", data), Detail: "high"}}
	ack := mustAppend(t, log, Op{ID: "u", Kind: OpUpdate, ItemID: "m", BaseSeq: 1, Changes: Changes{Content: &content}})
	if len(ack.Warnings) != 1 || ack.ItemID != "m" {
		t.Errorf("answer %+v", ack)
	}
	want := []ImageContent{{URL: BlobPrefix + sha256Hex(data), Detail: "high", Width: 4, Height: 5}}
	if got := imagesOf(t, log, "m"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if !strings.HasPrefix(content[0].(ImageContent).URL, "data:") {
		t.Errorf("the caller's content became %+v", content)
	}
	// The same image again, as bytes and by its name, needs the store no more; a reopened log looks once.
	mustAppend(t, log, withImages("again", DataURL("image/png", data), BlobPrefix+sha256Hex(data)))
	if store.puts != 1 || store.reads != 0 {
		t.Errorf("%d puts and %d reads, want 1 and 0", store.puts, store.reads)
	}
	reopened := mustOpen(t, store)
	mustAppend(t, reopened, withImages("r1", BlobPrefix+sha256Hex(data), BlobPrefix+sha256Hex(data)))
	mustAppend(t, reopened, withImages("r2", BlobPrefix+sha256Hex(data)))
	if store.puts != 1 || store.reads != 1 {
		t.Errorf("%d puts and %d reads, want 1 and 1", store.puts, store.reads)
	}
}

func TestPutImage(t *testing.T) {
	log := mustOpen(t, NewMemStore())
	data := jpegBytes(t, 8, 6)
	url, info, err := log.PutImage(t.Context(), data)
	if err != nil || url != BlobPrefix+sha256Hex(data) || info != (ImageInfo{"image/jpeg", 8, 6}) {
		t.Fatalf("%s, %+v, %v", url, info, err)
	}
	mustAppend(t, log, withImages("m", url))
	_, _, err = log.PutImage(t.Context(), []byte("<svg/>"))
	wantError(t, err, InvalidImage, "url")
	_, _, err = log.PutImage(t.Context(), nil)
	wantError(t, err, InvalidImage, "url")
	_, _, err = log.PutImage(t.Context(), make([]byte, DefaultMaxImageBytes+1))
	wantError(t, err, TooLarge, "url")
	for _, sha := range []string{"", "x", strings.Repeat("0", 64), strings.ToUpper(sha256Hex(data)), "../" + sha256Hex(data)} {
		_, err = log.Blob(t.Context(), sha)
		wantError(t, err, NotFound, "sha256")
	}
	other, err := OpenLog(t.Context(), LogConfig{Store: log.cfg.Store, Session: "other"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Append(t.Context(), origin, withImages("m", url)) // another session's images are not for taking
	wantError(t, err, InvalidImage, "content.url")
}

// TestImageTooLargeBeforeDecoding: what is refused for its size costs no memory first.
func TestImageTooLargeBeforeDecoding(t *testing.T) {
	const size = 32 << 20
	for _, u := range []string{
		"data:image/png;base64," + strings.Repeat("A", size),
		"data:image/png;base64," + strings.Repeat("=", size),
		"data:image/png," + strings.Repeat("%41", size/3),
		"data:" + strings.Repeat("a", size) + ",",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, data, err := ParseDataURL(u, 1000)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%.30s…: %d bytes accepted", u, len(data))
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > size/4 {
			t.Errorf("%.30s…: %d bytes allocated for a refusal", u, n)
		}
	}
}

func TestParseDataURL(t *testing.T) {
	for _, c := range []struct{ url, mime, data string }{
		{"data:,", "text/plain", ""},
		{"data:,a%20b", "text/plain", "a b"},
		{"data:;base64,YQ==", "text/plain", "a"},
		{"data:text/html;charset=utf-8,<b>", "text/html", "<b>"},
		{"data:image/png;base64,YQ==", "image/png", "a"},
		{"data:image/png;base64,YQ", "image/png", "a"},
		{"data:image/png;base64,YQ=", "image/png", "a"},
		{"data:image/png;base64,Y\r\nWJj\r\n", "image/png", "abc"},
		{"data:Image/PNG;BASE64,YWI=", "image/png", "ab"},
		{"data: image/png ; base64 ,YWI=", "image/png", "ab"},
		{"data:image/png;charset=x;base64,YWI=", "image/png", "ab"},
		{"data:image/png;base64;charset=x,YWI=", "image/png", "YWI="},
		{"data:base64,YWI=", "base64", "YWI="},
	} {
		if mime, data, err := ParseDataURL(c.url, 5); err != nil || mime != c.mime || string(data) != c.data {
			t.Errorf("%s: %s %q, %v; want %s %q", c.url, mime, data, err, c.mime, c.data)
		}
	}
	for u, kind := range map[string]ErrorKind{
		"":                               InvalidImage,
		"http://x":                       InvalidImage,
		"data:image/png;base64":          InvalidImage,
		"data:image/png;base64,Y":        InvalidImage,
		"data:image/png;base64,YQ===":    InvalidImage,
		"data:image/png;base64,Y=Q=":     InvalidImage,
		"data:image/png;base64,Y Q=":     InvalidImage,
		"data:image/png;base64,-_-_":     InvalidImage,
		"data:,%4":                       InvalidImage,
		"data:,%zz":                      InvalidImage,
		"data:bild/größe,x":              InvalidImage,
		"data:,123456":                   TooLarge,
		"data:image/png;base64,MTIzNDU2": TooLarge,
	} {
		_, data, err := ParseDataURL(u, 5)
		if data != nil {
			t.Errorf("%s: data beside an error", u)
		}
		wantError(t, err, kind, "url")
	}
}

func TestInspectImageRefusals(t *testing.T) {
	png := pngBytes(t, 10, 10)
	sized := func(w, h uint32) []byte { // a header that claims another size
		b := bytes.Clone(png)
		for i := range 4 {
			b[16+i], b[20+i] = byte(w>>(24-8*i)), byte(h>>(24-8*i))
		}
		return b
	}
	for name, data := range map[string][]byte{
		"nothing":       {},
		"text":          []byte("hello"),
		"half a header": png[:20],
		"bmp":           []byte("BM\x00\x00\x00\x00"),
		"svg":           []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"),
		"wide":          sized(1<<30, 1),
		"no width":      sized(0, 10),
	} {
		_, err := InspectImage(data)
		var e *Error
		if !errors.As(err, &e) || e.Kind != InvalidImage {
			t.Errorf("%s: %v, want %s", name, err, InvalidImage)
		}
	}
	bomb := gifBytes(t, 1, 1)
	bomb[6], bomb[7], bomb[8], bomb[9] = 0xff, 0x3f, 0xff, 0x3f // 16383×16383
	_, err := InspectImage(bomb)
	wantError(t, err, InvalidImage, "url")
	if err == nil || !strings.Contains(err.Error(), "16383×16383") {
		t.Errorf("the bomb's size is not named: %v", err)
	}
}
