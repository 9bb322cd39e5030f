package project

import (
	"encoding/base64"
	"slices"
	"strings"

	chatctx "sightline/context"
)

// takes is what a provider's documentation says of images.
type takes struct {
	kinds       []string
	links       bool // https URLs
	maxBase64   int
	totalBase64 int
	maxSide     int // 0 = nothing is said
}

// imageURL checks an image that is given as a URL.
func (c *checker) imageURL(path, url string, t takes) {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		meta, body, comma := strings.Cut(rest, ",")
		kind, b64 := strings.CutSuffix(meta, ";base64")
		if !comma || !b64 {
			c.bad(path, "a data: URL of an image is data:KIND;base64,BYTES")
			return
		}
		c.imageBytes(path, kind, body, t)
		return
	}
	switch {
	case !t.links:
		c.bad(path, "%q: only a data: URL is allowed", cut(url))
	case !strings.HasPrefix(url, "https://"):
		c.bad(path, "%q: allowed are data: and https URLs", cut(url))
	}
}

// imageBytes checks base64 that is said to be of a kind.
func (c *checker) imageBytes(path, kind, body string, t takes) {
	if !slices.Contains(t.kinds, kind) {
		c.bad(path, "%q: allowed are %q", cut(kind), t.kinds)
	}
	if len(body) > t.maxBase64 {
		c.bad(path, "%d bytes of base64: at most %d are allowed", len(body), t.maxBase64)
	}
	if before := c.images; before <= t.totalBase64 && before+len(body) > t.totalBase64 {
		c.bad(path, "with this image the request has more than %d bytes of images", t.totalBase64)
	}
	c.images += len(body)
	data, err := base64.StdEncoding.Strict().DecodeString(body)
	if err != nil {
		c.bad(path, "the base64 does not decode: %v", err)
		return
	}
	info, err := chatctx.InspectImage(data)
	if err != nil {
		c.bad(path, "the bytes are no image: %v", err)
		return
	}
	if info.MIME != kind {
		c.bad(path, "said to be %s, is %s", cut(kind), info.MIME)
	}
	if t.maxSide > 0 && max(info.Width, info.Height) > t.maxSide {
		c.bad(path, "%d×%d pixels: at most %d a side are allowed", info.Width, info.Height, t.maxSide)
	}
}

func takesOpenAI() takes {
	return takes{kinds: []string{"image/png", "image/jpeg", "image/gif", "image/webp"}, links: true, maxBase64: 20 << 20, totalBase64: 50 << 20}
}
