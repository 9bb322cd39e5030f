package gateway

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"strings"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/frames"
	"sightline/switcher"
)

// Bounds of a look: a leg waits for it before it answers.
const (
	lookWait    = 1500 * time.Millisecond
	lookSamples = 32 // pixels a side, for the mean brightness
)

// look takes the newest image of each source, none older than maxAge where the source is live; of one that is not, the last
// there is. Sources are asked at once.
func (s *Session) look(ctx context.Context, maxAge time.Duration) []switcher.Sight {
	sources := s.allSources()
	seen := make([]switcher.Sight, len(sources))
	var looking sync.WaitGroup
	for i, src := range sources {
		looking.Go(func() { seen[i] = s.lookAt(ctx, src, maxAge) })
	}
	looking.Wait()
	return seen
}

func (s *Session) lookAt(ctx context.Context, src *source, maxAge time.Duration) switcher.Sight {
	msg := src.message()
	sight := switcher.Sight{Source: src.name, State: msg.State}
	r := imageRequest{source: src.name, options: defaultOptions(msg.Screen), maxAge: maxAge, wait: lookWait}
	if msg.State == string(frames.StateEnded) || msg.State == string(frames.StateStalled) {
		r.maxAge, r.wait = maxMaxAge, 0
	}
	img, err := s.image(ctx, r)
	if err != nil && r.wait > 0 { // nothing fresh comes: its age is told
		r.maxAge, r.wait = maxMaxAge, 0
		img, err = s.image(ctx, r)
	}
	if err != nil {
		return sight
	}
	sight.JPEG, sight.Width, sight.Height = img.Data, img.Width, img.Height
	sight.CapturedAt, sight.Age = img.CapturedAt, img.Age(time.Now())
	sight.Brightness = s.brightness(ctx, r)
	return sight
}

// brightness is the mean luma, 0 to 255, of the newest picture made tiny: the Y plane of a JPEG is that already.
func (s *Session) brightness(ctx context.Context, r imageRequest) float64 {
	r.options.Resize = &frames.ResizeOptions{Width: lookSamples, Height: lookSamples, Fit: frames.Stretch}
	img, err := s.image(ctx, r)
	if err != nil {
		return 0
	}
	picture, err := jpeg.Decode(bytes.NewReader(img.Data))
	if err != nil {
		return 0
	}
	switch p := picture.(type) {
	case *image.YCbCr:
		return mean(p.Y)
	case *image.Gray:
		return mean(p.Pix)
	}
	return 0
}

func mean(v []byte) float64 {
	sum := 0
	for _, b := range v {
		sum += int(b)
	}
	return float64(sum) / float64(max(len(v), 1))
}

// storedImage gives the bytes of an image of the conversation.
func (s *Session) storedImage(ctx context.Context, url string) (mime string, data []byte, err error) {
	b, err := s.log.Blob(ctx, strings.TrimPrefix(url, chatctx.BlobPrefix))
	return b.MIME, b.Data, err
}
