package frames

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatchersOfAWokenTrackGetNoOldImage: the first of them wakes it, and the second comes before there is a frame.
func TestWatchersOfAWokenTrackGetNoOldImage(t *testing.T) {
	pics := loadPictures(t, filepath.Join("testdata", face480))[:8]
	synctest.Test(t, func(t *testing.T) {
		l := newLive(t, pics, 1, nil)
		defer l.close()
		want := Want{FPS: 1, Options: ownSize}
		sub := l.track.Subscribe(want)
		if l.count(sub, 45) == 0 {
			t.Fatal("no image")
		}
		sub.Close()
		l.send(100)

		before := time.Now()
		for range 2 {
			sub := l.track.Subscribe(want)
			defer sub.Close()
			if img, _, ok := sub.Take(); ok {
				t.Errorf("an image %v old", before.Sub(img.ReceivedAt))
			}
			defer func() {
				if img, _, ok := sub.Take(); !ok || img.ReceivedAt.Before(before) {
					t.Error("no new image")
				}
			}()
		}
		l.send(15)
		time.Sleep(time.Second) // nothing is sent any more
		if img, _, ok := l.track.Subscribe(want).Take(); !ok || img.ReceivedAt.Before(before) {
			t.Error("of a source that has stopped there is no image")
		}
	})
}
