package rtc

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/interceptor/pkg/twcc"
	"github.com/pion/rtcp"
	"github.com/pion/sdp/v3"
)

const (
	feedbackEvery = 100 * time.Millisecond
	reportTicks   = 10                    // receiver reports go with every tenth feedback: once a second
	nackDelay     = 20 * time.Millisecond // packets that overtake each other are waited for
	maxMissing    = 512                   // packets asked for at once, of one SSRC; of a longer gap none is
	maxReports    = 31                    // reports in a packet (RFC 3550 §6.4.2)
)

// nackWaits are the times from one request for a packet to the next: the first leaves room for a round trip, and a sender that has not
// repeated it after the last will not.
var nackWaits = [...]time.Duration{100 * time.Millisecond, 150 * time.Millisecond, 250 * time.Millisecond, 400 * time.Millisecond}

// feedback tells a sender how its packets arrive: receiver reports (RFC 3550 §6.4), requests for lost packets (RFC 4585 §6.2.1) and
// transport-wide arrival times. It does in one place, without an allocation for each packet, what Pion has three interceptors for; and
// what a retransmission has brought is not asked for again. One belongs to each PeerConnection.
type feedback struct {
	interceptor.NoOp
	ssrc    uint32 // the sender of our feedback
	begun   time.Time
	gap     chan struct{} // capacity 1: a packet is missing
	closing chan struct{}
	once    sync.Once
	running sync.WaitGroup

	mu      sync.Mutex
	streams map[uint32]*arrivals
	twcc    *twcc.Recorder
	seen    bool // a packet with a transport-wide number, since the start
}

func newFeedback(ssrc uint32) *feedback {
	f := &feedback{
		ssrc: ssrc, begun: time.Now(),
		gap: make(chan struct{}, 1), closing: make(chan struct{}), streams: make(map[uint32]*arrivals),
	}
	f.twcc = twcc.NewRecorder(f.ssrc)
	return f
}

// NewInterceptor implements interceptor.Factory for the one connection.
func (f *feedback) NewInterceptor(string) (interceptor.Interceptor, error) { return f, nil }

// BindRemoteStream implements interceptor.Interceptor.
func (f *feedback) BindRemoteStream(info *interceptor.StreamInfo, reader interceptor.RTPReader) interceptor.RTPReader {
	a := &arrivals{clock: int64(info.ClockRate)}
	for _, e := range info.RTPHeaderExtensions {
		if e.URI == sdp.TransportCCURI {
			a.twccID = uint8(e.ID)
		}
	}
	a.nack = slices.Contains(info.RTCPFeedback, interceptor.RTCPFeedback{Type: "nack"})
	f.mu.Lock()
	f.streams[info.SSRC] = a
	f.mu.Unlock()
	ssrc := info.SSRC
	return interceptor.RTPReaderFunc(func(b []byte, attributes interceptor.Attributes) (int, interceptor.Attributes, error) {
		n, attributes, err := reader.Read(b, attributes)
		if err == nil {
			f.arrived(ssrc, a, b[:n], time.Since(f.begun))
		}
		return n, attributes, err
	})
}

// UnbindRemoteStream implements interceptor.Interceptor.
func (f *feedback) UnbindRemoteStream(info *interceptor.StreamInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, info.SSRC)
}

// arrived notes one packet; what is no RTP is left to the reader.
func (f *feedback) arrived(ssrc uint32, a *arrivals, b []byte, at time.Duration) {
	if len(b) < 12 || b[0]>>6 != 2 {
		return
	}
	number, carried := transportNumber(b, a.twccID)
	f.mu.Lock()
	defer f.mu.Unlock()
	if a.note(binary.BigEndian.Uint16(b[2:]), binary.BigEndian.Uint32(b[4:]), at) {
		select {
		case f.gap <- struct{}{}:
		default:
		}
	}
	if carried {
		f.seen = true
		f.twcc.Record(ssrc, number, at.Microseconds())
	}
}

// healed notes that a retransmission of its own stream (RFC 4588) has brought a packet.
func (f *feedback) healed(ssrc, rtx uint32, seq uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.streams[ssrc]; a != nil {
		a.found(seq)
	}
	if a := f.streams[rtx]; a != nil {
		a.nack, a.missing = false, nil // repeats are not repeated
	}
}

// BindRTCPReader implements interceptor.Interceptor.
func (f *feedback) BindRTCPReader(reader interceptor.RTCPReader) interceptor.RTCPReader {
	return interceptor.RTCPReaderFunc(func(b []byte, attributes interceptor.Attributes) (int, interceptor.Attributes, error) {
		n, attributes, err := reader.Read(b, attributes)
		if err != nil {
			return n, attributes, err
		}
		if attributes == nil {
			attributes = make(interceptor.Attributes)
		}
		packets, err := attributes.GetRTCPPackets(b[:n])
		if err != nil {
			return 0, nil, err
		}
		at := time.Since(f.begun)
		for _, p := range packets {
			if sr, ok := p.(*rtcp.SenderReport); ok {
				f.mu.Lock()
				if a := f.streams[sr.SSRC]; a != nil {
					a.lastSR, a.lastSRAt = uint32(sr.NTPTime>>16), at
				}
				f.mu.Unlock()
			}
		}
		return n, attributes, nil
	})
}

// BindRTCPWriter implements interceptor.Interceptor: feedback begins.
func (f *feedback) BindRTCPWriter(writer interceptor.RTCPWriter) interceptor.RTCPWriter {
	f.running.Go(func() { f.run(writer) })
	return writer
}

// Close implements interceptor.Interceptor.
func (f *feedback) Close() error {
	f.once.Do(func() { close(f.closing) })
	f.running.Wait()
	return nil
}

func (f *feedback) run(writer interceptor.RTCPWriter) {
	ticker := time.NewTicker(feedbackEvery)
	defer ticker.Stop()
	late := time.NewTimer(0)
	defer late.Stop()
	for tick := 0; ; {
		var due []rtcp.Packet
		select {
		case <-f.closing:
			return
		case <-f.gap:
			late.Reset(nackDelay)
			continue
		case <-late.C:
			due = f.requests(nil, time.Since(f.begun))
		case <-ticker.C:
			tick++
			due = f.due(tick%reportTicks == 0, time.Since(f.begun))
		}
		if len(due) > 0 {
			_, _ = writer.Write(due, nil) // fails before the connection is up and when it is gone
		}
	}
}

// due is all that is to be told now.
func (f *feedback) due(reports bool, at time.Duration) (out []rtcp.Packet) {
	f.mu.Lock()
	if reports {
		var list []rtcp.ReceptionReport
		for ssrc, a := range f.streams {
			if a.received > 0 && len(list) < maxReports {
				list = append(list, a.report(ssrc, at))
			}
		}
		if len(list) > 0 {
			out = append(out, &rtcp.ReceiverReport{SSRC: f.ssrc, Reports: list})
		}
	}
	if f.seen {
		out = append(out, f.twcc.BuildFeedbackPacket()...)
	}
	f.mu.Unlock()
	return f.requests(out, at)
}

// requests adds those for lost packets.
func (f *feedback) requests(out []rtcp.Packet, at time.Duration) []rtcp.Packet {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ssrc, a := range f.streams {
		if wanted := a.wanted(at); len(wanted) > 0 {
			out = append(out, &rtcp.TransportLayerNack{SenderSSRC: f.ssrc, MediaSSRC: ssrc, Nacks: rtcp.NackPairsFromSequenceNumbers(wanted)})
		}
	}
	return out
}

// transportNumber finds the transport-wide sequence number in a packet's header extensions (RFC 8285), of which only id matters.
func transportNumber(b []byte, id uint8) (number uint16, ok bool) {
	if id == 0 || b[0]&0x10 == 0 {
		return 0, false
	}
	at := 12 + 4*int(b[0]&0xf)
	if len(b) < at+4 {
		return 0, false
	}
	profile, end := binary.BigEndian.Uint16(b[at:]), at+4+4*int(binary.BigEndian.Uint16(b[at+2:]))
	if end > len(b) {
		return 0, false
	}
	for at += 4; at < end; {
		var found uint8
		var n int
		switch {
		case b[at] == 0: // padding
			at++
			continue
		case profile == 0xbede:
			if found, n = b[at]>>4, int(b[at]&0xf)+1; found == 15 || found == 0 { // §4.2: the rest is not read
				return 0, false
			}
			at++
		case profile&0xfff0 == 0x1000 && at+1 < end:
			found, n = b[at], int(b[at+1])
			at += 2
		default:
			return 0, false
		}
		if at+n > end {
			return 0, false
		}
		if found == id {
			if n < 2 {
				return 0, false
			}
			return binary.BigEndian.Uint16(b[at:]), true
		}
		at += n
	}
	return 0, false
}
