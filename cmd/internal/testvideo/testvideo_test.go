package testvideo

import (
	"strings"
	"testing"
	"time"
)

func TestMake(t *testing.T) {
	begun := time.Now()
	clip, err := Make(t.Context(), Config{Length: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	for _, f := range clip.Frames {
		if f.Key {
			keys++
		}
	}
	t.Logf("%s: %d frames, %d key frames, %.0f kbit/s, made in %v", clip.Name, len(clip.Frames), keys, clip.Bitrate()/1000, time.Since(begun).Round(time.Millisecond))
	if clip.Width != 640 || clip.Height != 480 || clip.FPS != 30 || len(clip.Frames) != 60 || keys < 2 {
		t.Errorf("%d×%d at %g/s, %d frames, %d key frames", clip.Width, clip.Height, clip.FPS, len(clip.Frames), keys)
	}
	if rate := clip.Bitrate(); rate < 100e3 || rate > 6e6 {
		t.Errorf("%.0f kbit/s is no rate that a browser sends", rate/1000)
	}
	// The driver is free again.
	if _, err := Make(t.Context(), Config{Width: 320, Height: 240, Length: 200 * time.Millisecond}); err != nil {
		t.Error(err)
	}
}

func TestMakeRefusesOddSizes(t *testing.T) {
	if _, err := Make(t.Context(), Config{Width: 641}); err == nil || !strings.Contains(err.Error(), "641") {
		t.Errorf("error %v", err)
	}
}
