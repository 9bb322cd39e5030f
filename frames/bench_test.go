package frames

import (
	"context"
	"testing"
	"time"

	"github.com/pion/rtp"
)

// benchTrack gives a track that runs, and a clip's packets to send round and round.
func benchTrack(b *testing.B) (*Track, []*rtp.Packet) {
	track, err := NewTrack(TrackConfig{Source: "camera"})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- track.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	p := newPublisher(loadClip(b, face480))
	var ps []*rtp.Packet
	for range 90 {
		ps = append(ps, p.frame()...)
	}
	return track, ps
}

// again renumbers the packet sent n-th: the same clip goes on for ever.
func again(ps []*rtp.Packet, n int) *rtp.Packet {
	p := *ps[n%len(ps)]
	p.SequenceNumber = uint16(n)
	p.Timestamp += uint32(n/len(ps)) * 90 * 3000
	return &p
}

// BenchmarkPushIdle is one packet of a track nobody watches; a 480p camera sends about 90 a second. The packet itself is one allocation.
func BenchmarkPushIdle(b *testing.B) {
	track, ps := benchTrack(b)
	at := time.Now()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		track.Push(again(ps, n), at.Add(time.Duration(n)*11*time.Millisecond))
	}
	if s := track.Stats(); s.Decoded != 0 || s.Lost != 0 {
		b.Fatalf("%+v", s)
	}
}

// BenchmarkAssemble is one packet on its way into a frame, without decoding.
func BenchmarkAssemble(b *testing.B) {
	_, ps := benchTrack(b)
	a, at := asleep(CodecVP8), time.Now()
	a.wake()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		for _, f := range a.push(again(ps, n), at.Add(time.Duration(n)*11*time.Millisecond)) {
			a.recycle(f)
		}
	}
	if a.fdrops.Total() != 0 || a.frames == 0 && b.N > 1000 {
		b.Fatalf("%+v, %d frames", a.fdrops, a.frames)
	}
}

// BenchmarkWatched is one frame's way from packets to a 1024×1024 JPEG, as fast as it goes.
func BenchmarkWatched(b *testing.B) {
	track, ps := benchTrack(b)
	sub := track.Subscribe(Want{FPS: 30, Options: DefaultRealtimeEncodeOptions()})
	at := time.Now()
	b.ReportAllocs()
	n := 0
	for i := 0; b.Loop(); i++ {
		for end := false; !end; n++ {
			p := again(ps, n)
			end = p.Marker
			track.Push(p, at.Add(time.Duration(i)*time.Second/30))
		}
		<-sub.C()
		sub.Take()
	}
	if s := track.Stats(); s.FrameDrops.Total() != 0 {
		b.Fatalf("%+v", s)
	}
}
