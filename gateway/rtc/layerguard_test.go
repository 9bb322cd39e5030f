package rtc

import (
	"testing"

	"github.com/pion/interceptor"
	"github.com/pion/rtp"
)

// twins sends each packet a second time, under another SSRC.
type twins struct{ interceptor.NoOp }

func (twins) NewInterceptor(string) (interceptor.Interceptor, error) { return &twins{}, nil }

func (t *twins) BindLocalStream(_ *interceptor.StreamInfo, out interceptor.RTPWriter) interceptor.RTPWriter {
	return interceptor.RTPWriterFunc(func(h *rtp.Header, payload []byte, a interceptor.Attributes) (int, error) {
		second := h.Clone()
		second.SSRC++
		if _, err := out.Write(&second, payload, a); err != nil {
			return 0, err
		}
		return out.Write(h, payload, a)
	})
}

// TestFaultTwoSSRCsOfOneLayer: the first is the layer, and stays it; the other is thrown away, and the peer ends as any other.
func TestFaultTwoSSRCsOfOneLayer(t *testing.T) {
	e := newEngine(t, nil)
	good := goodNeighbour(t, e)
	p := newPublisher(t, publisherOptions{simulcast: true, twins: true})
	peer, s := publish(t, e, p, "camera")
	before := s.count("camera")
	waitFor(t, "packets go on", func() bool { return s.count("camera") > before+200 })
	s.mu.Lock()
	tracks := len(s.tracks)
	s.mu.Unlock()
	if tracks != 2 {
		t.Errorf("%d tracks, want the two layers", tracks)
	}
	if e.Stats().FloodDrops < 100 {
		t.Errorf("%d packets were thrown away", e.Stats().FloodDrops)
	}
	peer.Close()
	waitDone(t, peer)
	waitFor(t, "the readers' ends", func() bool { return int(s.ended.Load()) == tracks })
	if e.Stats().StuckCloses != 0 {
		t.Errorf("engine %+v", e.Stats())
	}
	good.unharmed(t)
}
