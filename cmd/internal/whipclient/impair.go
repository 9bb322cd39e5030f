package whipclient

import (
	"math/rand/v2"
	"sync"

	"github.com/pion/interceptor"
	"github.com/pion/rtp"
)

// Impairment makes a bad network between the publisher and the gateway. What happens to the n-th packet depends on Seed
// alone; how packets fall into frames does not.
type Impairment struct {
	Loss    float64 // share of packets that never arrive, 0–1; repetitions on NACK are lost alike
	Reorder float64 // share of packets that arrive after up to three later ones, 0–1
	Seed    uint64
}

type impairFactory struct{ p *Publisher }

// NewInterceptor implements interceptor.Factory.
func (f *impairFactory) NewInterceptor(string) (interceptor.Interceptor, error) {
	i := *f.p.cfg.Impair
	return &impairer{p: f.p, impairment: i, random: rand.New(rand.NewPCG(i.Seed, i.Seed))}, nil
}

type impairer struct {
	interceptor.NoOp
	p          *Publisher
	impairment Impairment

	mu     sync.Mutex // media and repetitions are written by different goroutines
	random *rand.Rand
	held   []heldPacket // at most maxHeld
}

const maxHeld = 3

type heldPacket struct {
	header  rtp.Header
	payload []byte
	after   int // how many packets still pass it
}

// BindLocalStream implements interceptor.Interceptor.
func (i *impairer) BindLocalStream(_ *interceptor.StreamInfo, writer interceptor.RTPWriter) interceptor.RTPWriter {
	return interceptor.RTPWriterFunc(func(h *rtp.Header, payload []byte, a interceptor.Attributes) (int, error) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.random.Float64() < i.impairment.Loss {
			i.p.count(func(s *Stats) { s.Lost++ })
			return len(payload), nil
		}
		if i.random.Float64() < i.impairment.Reorder && len(i.held) < maxHeld {
			i.p.count(func(s *Stats) { s.Reordered++ })
			i.held = append(i.held, heldPacket{h.Clone(), append([]byte(nil), payload...), 1 + i.random.IntN(3)})
			return len(payload), nil
		}
		n, err := writer.Write(h, payload, a)
		return n, i.release(writer, a, err)
	})
}

// release sends what has been held long enough.
func (i *impairer) release(writer interceptor.RTPWriter, a interceptor.Attributes, err error) error {
	kept := i.held[:0]
	for _, packet := range i.held {
		if packet.after--; packet.after > 0 {
			kept = append(kept, packet)
			continue
		}
		if _, failed := writer.Write(&packet.header, packet.payload, a); failed != nil && err == nil {
			err = failed
		}
	}
	i.held = kept
	return err
}
