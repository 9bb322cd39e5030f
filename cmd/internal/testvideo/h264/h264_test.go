package h264

import (
	"math"
	"testing"
	"time"

	"sightline/cmd/internal/testvideo"
)

func TestH264HasAKeyFrameWhereOneIsDueAndNearlyTheWantedRate(t *testing.T) {
	clip, err := Make(t.Context(), testvideo.Config{Width: 320, Height: 240, Length: time.Second, KeyEvery: 500 * time.Millisecond, Bitrate: 400_000})
	if err != nil {
		t.Fatal(err)
	}
	if len(clip.Frames) != 30 || clip.MimeType != "video/H264" {
		t.Errorf("%d frames of %s", len(clip.Frames), clip.MimeType)
	}
	for i, f := range clip.Frames {
		if f.Key != (i%15 == 0) {
			t.Errorf("frame %d: key %v", i, f.Key)
		}
	}
	if rate := clip.Bitrate(); math.Abs(rate-400_000) > 300_000 {
		t.Errorf("%.0f bit/s", rate)
	}
}
