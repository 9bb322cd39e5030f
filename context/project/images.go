package project

import (
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"slices"
	"strings"

	chatctx "sightline/context"
)

// imageRules are what a provider takes. Sizes are of the base64 text, which is what providers measure.
type imageRules struct {
	none     bool // the format has no images at all
	kinds    []string
	https    bool // an https URL may stand for the bytes
	maxChars int  // of one image
	total    int  // of all images of a request, in characters
	side     int  // longest side in pixels, 0 = no limit
	many     int  // above this number of images …
	manySide int  // … the longest side is this; 0 = no such rule
	count    int  // images of a request
}

// The providers' rules (facts: OpenAI 20 MB an image and 50 MB a request; Anthropic 5 MiB of base64, 8,000 pixels, 2,000 when there
// are more than 20 images, 100 images, 32 MB a request; Gemini 20 MB a request; Realtime events at most 15 MiB).
func openAIImages() imageRules {
	return imageRules{kinds: []string{"image/jpeg", "image/png", "image/webp", "image/gif"}, https: true, maxChars: 20 << 20, total: 45 << 20, count: 250}
}

func realtimeImages() imageRules {
	return imageRules{kinds: []string{"image/jpeg", "image/png"}, maxChars: 14 << 20, total: 45 << 20, count: 250}
}

func anthropicImages() imageRules {
	return imageRules{kinds: []string{"image/jpeg", "image/png", "image/webp", "image/gif"}, https: true, maxChars: 5 << 20, total: 28 << 20,
		side: 8000, many: 20, manySide: 2000, count: 100}
}

func geminiImages() imageRules {
	return imageRules{kinds: []string{"image/jpeg", "image/png", "image/webp"}, maxChars: 18 << 20, total: 18 << 20, count: 250}
}

// picture is an image on its way out.
type picture struct {
	img     chatctx.ImageContent
	itemID  string
	caption string // a marked line before it, "" for none
	url     string // https URL or whole data: URL, base64 in the standard alphabet with its padding
	data    int    // where in url the base64 begins; 0 = url is no data: URL
	mime    string // of a data: URL
}

func (p *picture) base64() string { return p.url[p.data:] }

// maxSourceBytes bounds what is decoded of a data: URL for Downscale.
const maxSourceBytes = 64 << 20

// settleImages looks up the images that stay, newest first, so that a bound on the whole is used up by the newest.
func (n *normaliser) settleImages() {
	if n.pictures == nil {
		return
	}
	rules := n.rules
	if n.o.MaxImageBytes > 0 {
		rules.maxChars = min(rules.maxChars, n.o.MaxImageBytes)
	}
	left := map[string]int{} // by source: how many may still stay
	staying := 0
	keep := make([]bool, len(n.pictures))
	for i, p := range slices.Backward(n.pictures) {
		have, seen := left[p.img.Source]
		if !seen {
			have = n.o.keepImages()
		}
		keep[i] = have > 0 && staying < rules.count && !rules.none
		if keep[i] {
			staying++
			left[p.img.Source] = have - 1
		} else {
			left[p.img.Source] = have
		}
	}
	if rules.many > 0 && staying > rules.many {
		rules.side = rules.manySide
	}
	for i, p := range slices.Backward(n.pictures) {
		reason := "left out, newer ones follow"
		switch {
		case rules.none || n.o.KeepImages < 0:
			reason = "not shown"
		case keep[i]:
			reason = n.resolve(p, rules)
		}
		if reason == "" {
			rules.total -= len(p.url)
			if label := imageLabel(p.img, n.o.Now); label != "" {
				p.caption = mark(label)
			}
			continue
		}
		p.url = ""
		label := imageLabel(p.img, n.o.Now)
		if label == "" {
			label = "image"
		}
		p.caption = mark(label + ": " + reason)
		n.lose(LostImage, p.itemID, "%s", label+": "+reason)
	}
}

// resolve fills p in, or says why the image cannot be shown.
func (n *normaliser) resolve(p *picture, rules imageRules) (reason string) {
	var raw []byte // bytes not yet encoded
	url := p.img.URL
	switch {
	case strings.HasPrefix(url, "https://") && rules.https:
		p.url = url
		return ""
	case strings.HasPrefix(url, "http://"), strings.HasPrefix(url, "https://"):
		return "not shown, it is only linked"
	case strings.HasPrefix(url, chatctx.BlobPrefix):
		if n.o.Images == nil {
			return "not available"
		}
		_, data, err := n.o.Images(strings.TrimPrefix(url, chatctx.BlobPrefix))
		if err != nil {
			return "not available"
		}
		raw = data
	}
	var info chatctx.ImageInfo
	var err error
	if raw != nil {
		info, err = chatctx.InspectImage(raw)
		p.data = len("data:") + len(info.MIME) + len(";base64,")
	} else if p.data = plainDataURL(url); p.data > 0 {
		info, err = inspectBase64(url[p.data:])
	} else if _, raw, err = chatctx.ParseDataURL(url, maxSourceBytes); err == nil {
		info, err = chatctx.InspectImage(raw)
	}
	if err != nil {
		return "not shown, its bytes are no image"
	}
	chars := len(url) - p.data
	if raw != nil {
		chars = base64.StdEncoding.EncodedLen(len(raw))
	}
	refused := rules.refuses(info, chars)
	if n.o.Downscale != nil && (refused != "" || max(info.Width, info.Height) > n.o.imageSide()) {
		small, smallInfo, why := n.shrink(p, raw, info.MIME, rules)
		if why == "" {
			raw, info, refused = small, smallInfo, ""
		} else if refused != "" {
			refused += "; " + why
		}
	}
	if refused != "" {
		return "not shown, " + refused
	}
	p.mime = info.MIME
	if raw == nil {
		prefix := "data:" + info.MIME + ";base64,"
		if p.url = url; !strings.HasPrefix(url, prefix) {
			n.lose(ChangedImage, p.itemID, "declared as another kind than the bytes are: %s", info.MIME)
			p.url, p.data = prefix+url[p.data:], len(prefix)
		}
		return ""
	}
	p.url, p.data = encodeDataURL(info.MIME, raw)
	return ""
}

// shrink asks the operator's Downscale and holds its answer against the rules.
func (n *normaliser) shrink(p *picture, raw []byte, mime string, rules imageRules) ([]byte, chatctx.ImageInfo, string) {
	if raw == nil {
		var err error
		if _, raw, err = chatctx.ParseDataURL(p.img.URL, maxSourceBytes); err != nil {
			return nil, chatctx.ImageInfo{}, "its bytes do not decode"
		}
	}
	side := n.o.imageSide()
	if rules.side > 0 {
		side = min(side, rules.side)
	}
	room := min(rules.maxChars, rules.total-maxDataPrefix) / 4 * 3
	if room < leastImage {
		return nil, chatctx.ImageInfo{}, "no room is left for it"
	}
	small, err := n.o.Downscale(mime, raw, side, room)
	if err != nil {
		return nil, chatctx.ImageInfo{}, "it could not be made smaller"
	}
	info, err := chatctx.InspectImage(small)
	if err != nil || rules.refuses(info, base64.StdEncoding.EncodedLen(len(small))) != "" {
		return nil, chatctx.ImageInfo{}, "making it smaller did not help"
	}
	n.lose(ChangedImage, p.itemID, "made smaller: %d×%d pixels, %s", info.Width, info.Height, info.MIME)
	return small, info, ""
}

// leastImage is what an image worth looking at has, in bytes.
const leastImage = 1024

// maxDataPrefix is the length of "data:image/jpeg;base64," and its kind, rounded up.
const maxDataPrefix = 32

// refuses says why a provider would not take the image, "" when it would.
func (r imageRules) refuses(info chatctx.ImageInfo, chars int) string {
	switch {
	case !slices.Contains(r.kinds, info.MIME):
		return "its kind (" + info.MIME + ") is not taken"
	case r.side > 0 && max(info.Width, info.Height) > r.side:
		return fmt.Sprintf("%d×%d pixels are too many", info.Width, info.Height)
	case chars > r.maxChars || chars+maxDataPrefix > r.total:
		return fmt.Sprintf("%d bytes are too many", chars/4*3)
	}
	return ""
}

// encodeDataURL encodes once, into memory of the final size.
func encodeDataURL(mime string, data []byte) (url string, at int) {
	var b strings.Builder
	at = len("data:") + len(mime) + len(";base64,")
	b.Grow(at + base64.StdEncoding.EncodedLen(len(data)))
	b.WriteString("data:")
	b.WriteString(mime)
	b.WriteString(";base64,")
	e := base64.NewEncoder(base64.StdEncoding, &b)
	_, _ = e.Write(data) // a strings.Builder takes everything
	_ = e.Close()
	return b.String(), at
}

// plainDataURL gives where the base64 begins when url is a data: URL that providers take as it is: a plain media type, the
// standard alphabet, padded, no white space. 0 = it has to be decoded and written anew.
func plainDataURL(url string) int {
	meta, body, ok := strings.Cut(url, ",")
	if !ok || len(body) == 0 || len(body)%4 != 0 || !strings.HasSuffix(meta, ";base64") || strings.Count(meta, ";") != 1 || len(meta) > 64 {
		return 0
	}
	digits := strings.TrimRight(body, "=")
	if len(body)-len(digits) > 2 {
		return 0
	}
	for i := 0; i < len(digits); i++ {
		c := digits[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '+' && c != '/' {
			return 0
		}
	}
	return len(meta) + 1
}

// The bounds of chatctx.InspectImage, for images that are not decoded to it.
const (
	maxSide   = 16384
	maxPixels = 50 << 20
)

var errTooManyPixels = errors.New("too many pixels")

// inspectBase64 reads an image's header and decodes no more of it than that.
func inspectBase64(body string) (chatctx.ImageInfo, error) {
	cfg, format, err := image.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(body)))
	if err != nil {
		return chatctx.ImageInfo{}, err
	}
	if cfg.Width < 1 || cfg.Height < 1 || cfg.Width > maxSide || cfg.Height > maxSide || cfg.Width*cfg.Height > maxPixels {
		return chatctx.ImageInfo{}, errTooManyPixels
	}
	return chatctx.ImageInfo{MIME: "image/" + format, Width: cfg.Width, Height: cfg.Height}, nil
}
