package chatctx

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	_ "image/gif"  // header of GIF
	_ "image/jpeg" // header of JPEG
	_ "image/png"  // header of PNG
	"net/url"
	"slices"
	"strings"

	_ "golang.org/x/image/webp" // header of WebP
)

// BlobPrefix begins the URL of an image whose bytes the session's store holds; the SHA-256 in lower-case hex follows.
const BlobPrefix = "sightline:blob/"

// Bounds of an image from outside (facts measured on decoders: what lies above costs hundreds of megabytes).
const (
	maxImageSide   = 16384
	maxImagePixels = 50 << 20
)

// ImageInfo is what an image's header says.
type ImageInfo struct {
	MIME          string
	Width, Height int // pixels
}

// InspectImage reads the header of a JPEG, PNG, GIF or WebP image: the kind is told by the bytes, not by a name. Nothing is
// decoded, so a bomb costs nothing.
func InspectImage(data []byte) (ImageInfo, error) {
	if len(data) == 0 {
		return ImageInfo{}, fail(InvalidImage, "url", "the image is empty")
	}
	cfg, format, err := image.DecodeConfig(bytes.NewReader(data))
	// The list, because another package of the program may have taught the image package more formats.
	if err != nil || !slices.Contains([]string{"jpeg", "png", "gif", "webp"}, format) {
		return ImageInfo{}, &Error{Kind: InvalidImage, Field: "url", Detail: "the bytes are no JPEG, PNG, GIF or WebP image", Cause: err}
	}
	if cfg.Width < 1 || cfg.Height < 1 || cfg.Width > maxImageSide || cfg.Height > maxImageSide || cfg.Width*cfg.Height > maxImagePixels {
		e := fail(InvalidImage, "url", "the image claims %d×%d pixels: allowed are 1 to %d a side and %d in all", cfg.Width, cfg.Height, maxImageSide, maxImagePixels)
		e.Cause = errTooManyPixels
		return ImageInfo{}, e
	}
	return ImageInfo{MIME: "image/" + format, Width: cfg.Width, Height: cfg.Height}, nil
}

// errTooManyPixels tells the one refusal of InspectImage that is about a known kind of image.
const errTooManyPixels storeError = "too many pixels"

// maxMediaType bounds the media type of a data: URL; RFC 6838 §4.2 allows two names of 127.
const maxMediaType = 255

// ParseDataURL takes a data: URL apart (RFC 2397): its media type in lower case, "text/plain" when it names none, and its
// bytes, of which there may be at most maxBytes. The length is checked before anything is decoded.
func ParseDataURL(u string, maxBytes int) (mime string, data []byte, err error) {
	rest, ok := strings.CutPrefix(u, "data:")
	if !ok {
		return "", nil, fail(InvalidImage, "url", "not a data: URL")
	}
	meta, body, ok := strings.Cut(rest, ",")
	if !ok {
		return "", nil, fail(InvalidImage, "url", "a data: URL has a comma before its data")
	}
	mime, _, _ = strings.Cut(meta, ";")
	mime = strings.ToLower(strings.TrimSpace(mime))
	switch {
	case mime == "":
		mime = "text/plain"
	case len(mime) > maxMediaType || strings.ContainsFunc(mime, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", nil, fail(InvalidImage, "url", "the media type of a data: URL is at most %d printable ASCII characters", maxMediaType)
	}
	if encoding := meta[strings.LastIndexByte(meta, ';')+1:]; len(encoding) < len(meta) && strings.EqualFold(strings.TrimSpace(encoding), "base64") {
		data, err = decodeBase64(body, maxBytes)
	} else {
		data, err = decodePercent(body, maxBytes)
	}
	if err != nil {
		return "", nil, err
	}
	return mime, data, nil
}

// decodeBase64 takes the standard alphabet with its padding, or without.
func decodeBase64(body string, maxBytes int) ([]byte, error) {
	digits := strings.TrimRight(body, "=\r\n")
	if n := base64.RawStdEncoding.DecodedLen(len(digits)); n > maxBytes {
		return nil, tooLarge(n, maxBytes)
	}
	data, err := base64.RawStdEncoding.DecodeString(digits)
	if err != nil || strings.Count(body[len(digits):], "=") > 2 {
		return nil, fail(InvalidImage, "url", "the data: URL's base64 does not decode")
	}
	return data, nil
}

func decodePercent(body string, maxBytes int) ([]byte, error) {
	if n := len(body) - 2*strings.Count(body, "%"); n > maxBytes {
		return nil, tooLarge(n, maxBytes)
	}
	text, err := url.PathUnescape(body)
	if err != nil {
		return nil, fail(InvalidImage, "url", "the data: URL has a broken percent escape")
	}
	return []byte(text), nil
}

func tooLarge(n, limit int) error {
	return fail(TooLarge, "url", "the image has %d bytes: at most %d are allowed", n, limit)
}

// DataURL makes the data: URL of image bytes; mime must have no comma and no semicolon.
func DataURL(mime string, data []byte) string {
	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// pendingBlob is an image that has to be stored before the entry that names it.
type pendingBlob struct {
	sha256 string
	blob   Blob
}

// extractImages replaces the data: URLs of a message's images by blob URLs. The item is copied, never changed in place.
func extractImages(item Item, maxBytes int) (Item, []pendingBlob, []string, error) {
	m, ok := item.(*Message)
	if !ok {
		return item, nil, nil, nil
	}
	content, blobs, warnings, err := extractContent(m.Content, maxBytes)
	if err != nil || blobs == nil {
		return item, nil, nil, err
	}
	c := *m
	c.Content = content
	return &c, blobs, warnings, nil
}

func extractContent(content Content, maxBytes int) (Content, []pendingBlob, []string, error) {
	var blobs []pendingBlob
	var warnings []string
	out := content
	for n, part := range content {
		img, ok := part.(ImageContent)
		if !ok || !strings.HasPrefix(img.URL, "data:") {
			continue
		}
		declared, data, err := ParseDataURL(img.URL, maxBytes)
		if err != nil {
			return nil, nil, nil, badField(err, "content", "content.url")
		}
		info, err := InspectImage(data)
		if err != nil {
			return nil, nil, nil, badField(err, "content", "content.url")
		}
		if declared != info.MIME {
			warnings = append(warnings, fmt.Sprintf("content[%d]: declared %s, stored as what it is: %s", n, clip(declared), info.MIME))
		}
		if blobs == nil {
			out = append(Content(nil), content...)
		}
		id := sha256Hex(data)
		img.URL, img.Width, img.Height = BlobPrefix+id, info.Width, info.Height
		out[n] = img
		blobs = append(blobs, pendingBlob{id, Blob{MIME: info.MIME, Data: data}})
	}
	return out, blobs, warnings, nil
}
