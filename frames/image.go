package frames

import (
	"log/slog"
	"time"
)

// Image is one immutable JPEG or PNG, with where it is from and when it was seen. It is shared by everybody who wants the same: read only.
type Image struct {
	Source        string // name of the video input: "camera", "screen"
	Seq           uint64 // counts the images of TrackConfig.Images from 1
	Data          []byte
	MIME          string // image/jpeg or image/png
	Width, Height int    // pixels
	CapturedAt    time.Time
	CaptureError  time.Duration // how far off that may be; 0: not known
	CaptureClock  CaptureClock
	ReceivedAt    time.Time // when the last packet of its frame arrived; never before CapturedAt
	RTPTimestamp  uint32
	Black         bool // mean luma ≤ 18 and variance < 2 in video range: the camera is muted or covered
}

// Age is how long ago the picture was captured, never negative.
func (i *Image) Age(now time.Time) time.Duration { return max(0, now.Sub(i.CapturedAt)) }

// LogValue prints what the image is, not its bytes.
func (i *Image) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("source", i.Source), slog.Uint64("seq", i.Seq), slog.Int("bytes", len(i.Data)),
		slog.Int("width", i.Width), slog.Int("height", i.Height), slog.Time("captured_at", i.CapturedAt))
}
