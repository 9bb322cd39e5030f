package tokens

import (
	"encoding/base64"
	"image"
	"math"
	"strings"

	_ "image/gif" // headers
	_ "image/jpeg"
	_ "image/png"

	_ "golang.org/x/image/webp"
)

// ImageRule prices an image of w by h pixels at a level of detail (auto, low, high); w and h are at least 1.
type ImageRule func(w, h int, detail string) int

// UnknownSide is how wide and high an image is taken to be whose size nobody knows, such as one named by a URL.
const UnknownSide = 1024

// maxSide bounds what the rules calculate with, so that no size overflows.
const maxSide = 1 << 20

// OpenAITiles is the rule of OpenAI's guide «Images and vision», section on tile-based models: low detail costs the base; else
// the image is fitted into 2048×2048, then its shorter side brought down to 768, and each 512×512 tile it covers costs perTile.
// Base and tile: 85/170 for gpt-4o, gpt-4.1 and gpt-4.5; 75/150 for o1 and o3; 70/140 for gpt-5; 2833/5667 for gpt-4o-mini.
func OpenAITiles(base, perTile int) ImageRule {
	return func(w, h int, detail string) int {
		if detail == "low" {
			return base
		}
		fw, fh := float64(w), float64(h)
		if longest := max(fw, fh); longest > 2048 {
			fw, fh = fw*2048/longest, fh*2048/longest
		}
		if shortest := min(fw, fh); shortest > 768 {
			fw, fh = fw*768/shortest, fh*768/shortest
		}
		return base + perTile*cells(fw, 512)*cells(fh, 512)
	}
}

// maxPatches is the most that OpenAI counts of one image.
const maxPatches = 1536

// OpenAIPatches is the rule of the same guide for patch-based models: 32×32 patches, the image scaled down until at most 1536
// cover it, times the model's factor: 1.62 for gpt-4.1-mini and gpt-5-mini, 2.46 for the nanos, 1.72 for o4-mini. (Users have
// measured 1.2 for gpt-5-mini; the guide's figure is the safe one.)
func OpenAIPatches(factor float64) ImageRule {
	return func(w, h int, _ string) int {
		fw, fh := float64(w), float64(h)
		patches := cells(fw, 32) * cells(fh, 32)
		if patches > maxPatches {
			shrink := math.Sqrt(32 * 32 * maxPatches / (fw * fh))
			wide, high := fw*shrink/32, fh*shrink/32
			shrink *= min(math.Floor(wide)/wide, math.Floor(high)/high)
			if wide < 1 || high < 1 { // thinner than a patch: the guide's formula would divide by nothing
				return int(math.Ceil(maxPatches * factor))
			}
			patches = min(maxPatches, cells(fw*shrink, 32)*cells(fh*shrink, 32))
		}
		return int(math.Ceil(float64(patches) * factor))
	}
}

// anthropicLongEdge and anthropicTokens are what Anthropic's guide «Vision» scales an image down to.
const (
	anthropicLongEdge = 1568
	anthropicTokens   = 1600
)

// Anthropic is the rule of Anthropic's guide «Vision»: width × height / 750, after scaling down to a long edge of 1568 pixels
// and to about 1600 tokens.
func Anthropic(w, h int, _ string) int {
	fw, fh := float64(w), float64(h)
	if longest := max(fw, fh); longest > anthropicLongEdge {
		fw, fh = fw*anthropicLongEdge/longest, fh*anthropicLongEdge/longest
	}
	return min(anthropicTokens, max(1, int(math.Ceil(fw*fh/750))))
}

// Gemini is the rule of Google's guide «Understand and count tokens» for Gemini 2.0 and later: 258 tokens when both sides have
// at most 384 pixels, else 258 for each tile of 768×768.
func Gemini(w, h int, _ string) int {
	if w <= 384 && h <= 384 {
		return 258
	}
	return 258 * cells(float64(w), 768) * cells(float64(h), 768)
}

// cells is how many squares of a side cover a length; sizes that a scaling left a hair over a whole number count as that number.
func cells(length, side float64) int { return max(1, int(math.Ceil(length/side-1e-6))) }

// sizeOf reads an image's size from the header inside a data: URL without decoding the rest.
func sizeOf(url string) (w, h int) {
	meta, body, ok := strings.Cut(url, ",")
	if ok && strings.HasPrefix(meta, "data:") && strings.HasSuffix(strings.ToLower(meta), ";base64") {
		cfg, _, err := image.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(body)))
		if err == nil && cfg.Width > 0 && cfg.Height > 0 {
			return cfg.Width, cfg.Height
		}
	}
	return UnknownSide, UnknownSide
}

// bounded keeps a rule's sides between 1 and maxSide.
func bounded(rule ImageRule) ImageRule {
	return func(w, h int, detail string) int {
		return rule(min(max(w, 1), maxSide), min(max(h, 1), maxSide), detail)
	}
}
