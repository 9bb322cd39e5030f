package chatctx

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// The seeds' constructors of ImageContent. Nothing is fetched. Detail is "auto", "low" or "high"; "" is "auto".
//
// A media type that the caller gives is kept even where the bytes are something else, since the seeds say so, but never silently:
// each constructor that sees the bytes returns a warning for that, "" when all is well. A Log stores an image under its true type
// in any case. Width and Height are set when the bytes say them. Bytes whose header claims more pixels than InspectImage takes
// are refused.

// MaxImageFileBytes bounds what ImageFromFile reads.
const MaxImageFileBytes = 32 << 20

// ImageFromURL makes an image of an http(s) URL, as a reference.
func ImageFromURL(url, detail string) (ImageContent, error) {
	img, err := newImage(url, detail)
	if err == nil && !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		err = fail(InvalidArgument, "url", "url %q: it must begin with http:// or https://", url)
	}
	return img, err
}

// ImageFromDataURL makes an image of a data: URL, which is kept as it is.
func ImageFromDataURL(dataURL, detail string) (img ImageContent, warning string, err error) {
	img, err = newImage(dataURL, detail)
	if err != nil {
		return img, "", err
	}
	mime, data, err := ParseDataURL(dataURL, maxInt)
	if err != nil {
		return img, "", err
	}
	warning, err = img.inspect(mime, data)
	return img, warning, err
}

// ImageFromBase64 makes an image of base64 in the standard alphabet, and the media type of what it stands for; the text is kept as
// it is. An empty type is that of the bytes.
func ImageFromBase64(base64Text, mime, detail string) (img ImageContent, warning string, err error) {
	img, err = newImage("", detail)
	if err != nil {
		return img, "", err
	}
	data, err := decodeBase64(base64Text, maxInt)
	if err != nil {
		return img, "", fail(InvalidImage, "base64", "the base64 does not decode: the standard alphabet is wanted")
	}
	if mime, err = givenMIME(mime, data); err != nil {
		return img, "", err
	}
	img.URL = "data:" + mime + ";base64," + base64Text
	warning, err = img.inspect(mime, data)
	return img, warning, err
}

// ImageFromBytes makes an image of image bytes and their media type. An empty type is that of the bytes.
func ImageFromBytes(data []byte, mime, detail string) (img ImageContent, warning string, err error) {
	img, err = newImage("", detail)
	if err != nil {
		return img, "", err
	}
	if mime, err = givenMIME(mime, data); err != nil {
		return img, "", err
	}
	img.URL = DataURL(mime, data)
	warning, err = img.inspect(mime, data)
	return img, warning, err
}

// ImageFromFile makes an image of a regular file of at most MaxImageFileBytes. Without a media type it is that of the bytes; only
// where those are no JPEG, PNG, GIF or WebP it is what CPython's table has for the extension, "image/jpeg" when it has nothing,
// with a warning. (The seeds go by the extension alone, which takes a .webp for a JPEG.)
func ImageFromFile(path, mime, detail string) (img ImageContent, warning string, err error) {
	img, err = newImage("", detail)
	if err != nil {
		return img, "", err
	}
	data, err := readImageFile(path)
	if err != nil {
		return img, "", err
	}
	if mime == "" {
		if mime = sniffMIME(data); mime == "" {
			mime = mimeOfName(path)
		}
	}
	return ImageFromBytes(data, mime, detail)
}

// mimeOfName is the seeds' rule.
func mimeOfName(path string) string {
	if mime := guessMIME(path); mime != "" {
		return mime
	}
	return mimeJPEG
}

func readImageFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // before opening: a pipe would block
	if err != nil {
		return nil, &Error{Kind: NotFound, Field: "path", Detail: "the file cannot be read", Cause: err}
	}
	if !info.Mode().IsRegular() {
		return nil, fail(InvalidArgument, "path", "%q is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Kind: NotFound, Field: "path", Detail: "the file cannot be read", Cause: err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxImageFileBytes+1))
	if err != nil {
		return nil, &Error{Kind: NotFound, Field: "path", Detail: "the file cannot be read", Cause: err}
	}
	if len(data) > MaxImageFileBytes {
		return nil, fail(TooLarge, "path", "the file has more than %d bytes, which is the limit", MaxImageFileBytes)
	}
	return data, nil
}

// ImageFromFrame makes an image of a frame: a map with its bytes under "data" and optionally their media type under "mime_type" or
// "mimeType", encoded bytes as they are, or anything that encode makes JPEG bytes of, such as frames.CoerceImageToJPEGBytes with its
// options bound; encode may be nil when there is no such frame. Without a media type it is that of the bytes; where those are
// nothing known it is "image/jpeg", as in the seeds, with a warning.
func ImageFromFrame(frame any, detail string, encode func(frame any) ([]byte, error)) (img ImageContent, warning string, err error) {
	data, mime := []byte(nil), ""
	switch f := frame.(type) {
	case map[string]any:
		if data, mime, err = mappedFrame(f); err != nil {
			return ImageContent{}, "", err
		}
	case []byte:
		data = f
	default:
		if encode == nil {
			return ImageContent{}, "", fail(InvalidArgument, "frame", "a frame of type %s needs an encoder: without one it is []byte or a map with data", fmt.Sprintf("%T", frame))
		}
		if data, err = encode(frame); err != nil {
			return ImageContent{}, "", &Error{Kind: InvalidImage, Field: "frame", Detail: "the frame does not encode", Cause: err}
		}
	}
	if mime == "" {
		if mime = sniffMIME(data); mime == "" {
			mime = mimeJPEG
		}
	}
	return ImageFromBytes(data, mime, detail)
}

func mappedFrame(f map[string]any) (data []byte, mime string, err error) {
	data, ok := f["data"].([]byte)
	if !ok {
		return nil, "", fail(InvalidArgument, "frame.data", "a frame's data must be []byte, got %s", fmt.Sprintf("%T", f["data"]))
	}
	for _, key := range []string{"mime_type", "mimeType"} {
		if f[key] == nil {
			continue
		}
		text, ok := f[key].(string)
		if !ok {
			return nil, "", fail(InvalidArgument, "frame."+key, "a frame's %s must be a string, got %s", key, fmt.Sprintf("%T", f[key]))
		}
		if text != "" {
			return data, text, nil
		}
	}
	return data, "", nil
}

const mimeJPEG = "image/jpeg"

func newImage(url, detail string) (ImageContent, error) {
	switch detail {
	case "":
		detail = detailAuto
	case detailAuto, "low", "high":
	default:
		return ImageContent{}, fail(InvalidArgument, "detail", `detail %q: allowed are "auto", "low" and "high"`, detail)
	}
	return ImageContent{URL: url, Detail: detail}, nil
}

// givenMIME checks the type that a caller gave for data, or finds it.
func givenMIME(mime string, data []byte) (string, error) {
	if mime == "" {
		if mime = sniffMIME(data); mime == "" {
			return "", fail(InvalidImage, "mime_type", "the bytes are no JPEG, PNG, GIF or WebP image: say what they are")
		}
		return mime, nil
	}
	if len(mime) > maxMediaType || strings.ContainsFunc(mime, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == ';' }) {
		return "", fail(InvalidArgument, "mime_type", "mime_type %q: a type and a subtype in ASCII are wanted, such as image/png", mime)
	}
	return mime, nil
}

// sniffMIME tells the four kinds of image by their first bytes, "" for all else.
func sniffMIME(data []byte) string {
	s := string(data[:min(len(data), 12)])
	switch {
	case strings.HasPrefix(s, "\xff\xd8\xff"):
		return mimeJPEG
	case strings.HasPrefix(s, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case strings.HasPrefix(s, "GIF87a"), strings.HasPrefix(s, "GIF89a"):
		return "image/gif"
	case len(s) == 12 && s[:4] == "RIFF" && s[8:] == "WEBP":
		return "image/webp"
	}
	return ""
}

// inspect notes the size in pixels and compares the declared type with the bytes.
func (i *ImageContent) inspect(mime string, data []byte) (warning string, err error) {
	info, err := InspectImage(data)
	var e *Error
	switch {
	case err == nil:
		i.Width, i.Height = info.Width, info.Height
		if !strings.EqualFold(mime, info.MIME) {
			return fmt.Sprintf("declared %s, the bytes are %s", clip(mime), info.MIME), nil
		}
		return "", nil
	case errors.As(err, &e) && errors.Is(e, errTooManyPixels):
		return "", err
	}
	return fmt.Sprintf("declared %s, the bytes are no JPEG, PNG, GIF or WebP image", clip(mime)), nil
}

// encodedLen is the length of n bytes in base64.
func encodedLen(n int) int { return base64.StdEncoding.EncodedLen(n) }
