package frames

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestFaultDecoderMemory: where there is no room for another decoder, a track has no images and asks for key frames, and the one
// that was there goes on; when that has ended, the other has its images with the next key frame.
func TestFaultDecoderMemory(t *testing.T) {
	c := loadClip(t, face480)
	synctest.Test(t, func(t *testing.T) {
		budget := NewBudget(2)
		budget.LimitDecoders(decoderBytes(CodecVP8, 640, 480) * 3 / 2)
		share := func(cfg *TrackConfig) { cfg.Budget = budget }
		good, late := newRig(t, share), newRig(t, share)
		goodSends, lateSends := newPublisher(c), newPublisher(c)
		late.onPLI = func() { lateSends.pli.Store(true) }
		good.track.Subscribe(Want{FPS: 30})
		good.play(goodSends, 10)
		late.track.Subscribe(Want{FPS: 30})
		for range 90 {
			good.feed(goodSends.frame()...)
			late.feed(lateSends.frame()...)
			time.Sleep(time.Second / 30)
		}
		if g, l := good.track.Stats(), late.track.Stats(); g.Decoded != 100 || g.FrameDrops.Total() != 0 || l.Decoded != 0 || l.FrameDrops.Refused == 0 || l.PLIs == 0 || l.CBytes != 0 {
			t.Errorf("beside each other: %+v; %+v", g, l)
		}
		good.stop()
		late.play(lateSends, 90)
		if l := late.track.Stats(); l.Decoded == 0 || l.Encoded == 0 {
			t.Errorf("with room again: %+v", l)
		}
		late.stop()
		if budget.reserved != 0 {
			t.Errorf("%d bytes are still reserved", budget.reserved)
		}
	})
}
