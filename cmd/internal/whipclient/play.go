package whipclient

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"
)

const (
	mtu = 1200 // bytes of an RTP packet
	// minKeyGap is how often a key frame is given on request: encoders honour one request per 300 ms.
	minKeyGap = 300 * time.Millisecond
	// burst is how many packets leave at once; a larger frame is spread over half its interval, as pacers do.
	burst = 10
)

// play sends the clip in real time until ctx ends or the connection has failed.
func (p *Publisher) play(ctx context.Context, track *webrtc.TrackLocalStaticRTP, failed <-chan struct{}) error {
	interval := time.Duration(float64(time.Second) / p.cfg.FPS)
	payloader := &codecs.VP8Payloader{EnablePictureID: true}
	sequence, base := uint16(rand.Uint32()), rand.Uint32()
	begun := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	next, lastKey := 0, time.Time{}
	for n := 0; ; n++ {
		due := begun.Add(time.Duration(n) * interval)
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil
		case <-failed:
			return errors.New("the connection to the gateway was lost")
		}
		now := time.Now()
		next = p.choose(next, now, lastKey)
		frame := p.cfg.Clip.Frames[next]
		if frame.Key {
			lastKey = now
		}
		timestamp := base + uint32(uint64(float64(n)*clockRate/p.cfg.FPS))
		payloads := payloader.Payload(mtu-12, frame.Data)
		if err := p.sendFrame(track, payloads, timestamp, &sequence, interval); err != nil {
			if errors.Is(err, io.ErrClosedPipe) {
				return errors.New("the connection to the gateway was closed")
			}
			return err
		}
		p.count(func(s *Stats) {
			s.Frames++
			s.Packets += uint64(len(payloads))
			s.Bytes += uint64(len(frame.Data))
			if frame.Key {
				s.KeyFrames++
			}
			if now.Sub(due) > interval {
				s.Late++
			}
		})
		next++
	}
}

// choose gives the frame to send: the next one, or the next key frame when one was asked for.
func (p *Publisher) choose(next int, now, lastKey time.Time) int {
	if next >= len(p.cfg.Clip.Frames) {
		next = 0
	}
	if p.cfg.IgnorePLI || now.Sub(lastKey) < minKeyGap {
		return next
	}
	select {
	case <-p.pli:
		return p.cfg.Clip.nextKey(next)
	default:
		return next
	}
}

func (p *Publisher) sendFrame(track *webrtc.TrackLocalStaticRTP, payloads [][]byte, timestamp uint32, sequence *uint16, interval time.Duration) error {
	first := time.Now()
	bursts := (len(payloads) + burst - 1) / burst
	for i, payload := range payloads {
		if i > 0 && i%burst == 0 {
			time.Sleep(interval / 2 / time.Duration(bursts))
		}
		packet := &rtp.Packet{Payload: payload, Header: rtp.Header{
			Version: 2, SequenceNumber: *sequence, Timestamp: timestamp, Marker: i == len(payloads)-1}}
		*sequence++
		if packet.Marker {
			p.timeline.add(timestamp, first, time.Now()) // before: the image may be back before this goroutine runs again
		}
		if err := track.WriteRTP(packet); err != nil {
			return err
		}
	}
	return nil
}

// timeline remembers when the last frames were sent, by their RTP timestamp.
type timeline struct {
	mu   sync.Mutex
	sent [512]struct {
		timestamp   uint32
		first, last time.Time
	}
	next int
}

func (t *timeline) add(timestamp uint32, first, last time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := &t.sent[t.next%len(t.sent)]
	slot.timestamp, slot.first, slot.last = timestamp, first, last
	t.next++
}

func (t *timeline) find(timestamp uint32) (first, last time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.sent {
		if s := &t.sent[i]; s.timestamp == timestamp && !s.last.IsZero() {
			return s.first, s.last, true
		}
	}
	return time.Time{}, time.Time{}, false
}
