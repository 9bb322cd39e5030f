package rtc

import (
	"slices"
	"time"

	"github.com/pion/rtcp"
)

// maxLate is how far behind a packet may be, as a late one.
const maxLate = 3000

// arrivals is what is known of how one SSRC's packets arrive. Pure: times are passed in, as durations since the connection began.
type arrivals struct {
	clock  int64 // of RTP timestamps, Hz
	twccID uint8 // header extension, 0: none
	nack   bool  // lost packets are asked for

	received  uint32
	base, top uint32 // extended sequence numbers: the first, the highest (RFC 3550 A.1)
	jitter    int64  // 1/16 of a clock tick (RFC 3550 A.8)
	transit   int64
	lastSR    uint32 // the middle of its NTP time
	lastSRAt  time.Duration

	expectedBefore, receivedBefore uint32 // at the last report

	fresh   uint16    // what would follow a packet from far behind
	missing []missing // in order; at most maxMissing
}

// missing is a packet that has not come.
type missing struct {
	seq  uint16
	asks int
	next time.Duration // when to ask
}

// note takes one packet and says whether others before it are missing since now.
func (a *arrivals) note(seq uint16, timestamp uint32, at time.Duration) (gap bool) {
	a.received++
	ticks := int64(at) / int64(time.Microsecond) * a.clock / 1e6
	transit := int64(int32(uint32(ticks) - timestamp))
	if a.received == 1 {
		a.base, a.top, a.transit = uint32(seq), uint32(seq), transit
		return false
	}
	step := int16(seq - uint16(a.top))
	if step < -maxLate { // the sender has begun anew when the next one goes on from there (RFC 3550 A.1)
		if a.fresh != seq {
			a.fresh = seq + 1
			return false
		}
		*a = arrivals{clock: a.clock, twccID: a.twccID, nack: a.nack, lastSR: a.lastSR, lastSRAt: a.lastSRAt, received: 1, base: uint32(seq), top: uint32(seq), transit: transit}
		return false
	}
	if step <= 0 { // late, or again
		a.found(seq)
		return false
	}
	d := int64(int32(transit - a.transit))
	a.transit = transit
	a.jitter += max(d, -d) - (a.jitter+8)>>4
	if step > 1 && a.nack {
		gap = a.lose(uint16(a.top)+1, int(step)-1, at)
	}
	a.top += uint32(step)
	return gap
}

// lose notes n packets from first on as missing. Of a gap that is too long nothing is asked for, nor of what was missing before it.
func (a *arrivals) lose(first uint16, n int, at time.Duration) bool {
	if n > maxMissing {
		a.missing = a.missing[:0]
		return false
	}
	if over := len(a.missing) + n - maxMissing; over > 0 {
		a.missing = slices.Delete(a.missing, 0, over)
	}
	for i := range n {
		a.missing = append(a.missing, missing{seq: first + uint16(i), next: at + nackDelay})
	}
	return true
}

// found takes a packet from the missing ones.
func (a *arrivals) found(seq uint16) {
	a.missing = slices.DeleteFunc(a.missing, func(m missing) bool { return m.seq == seq })
}

// wanted are the packets to ask for now. One that was asked for to the last is given up.
func (a *arrivals) wanted(at time.Duration) (seqs []uint16) {
	a.missing = slices.DeleteFunc(a.missing, func(m missing) bool { return m.asks > len(nackWaits) })
	for i := range a.missing {
		m := &a.missing[i]
		if at < m.next {
			continue
		}
		seqs = append(seqs, m.seq)
		if m.asks < len(nackWaits) {
			m.next = at + nackWaits[m.asks]
		}
		m.asks++
	}
	return seqs
}

// report is the reception report of now (RFC 3550 A.3); what is lost since the last one is counted anew from here.
func (a *arrivals) report(ssrc uint32, at time.Duration) rtcp.ReceptionReport {
	expected := a.top - a.base + 1
	lost := int64(expected) - int64(a.received)
	interval, got := expected-a.expectedBefore, a.received-a.receivedBefore
	a.expectedBefore, a.receivedBefore = expected, a.received
	fraction := uint8(0)
	if interval > got {
		fraction = uint8(min((interval-got)<<8/interval, 255))
	}
	r := rtcp.ReceptionReport{
		SSRC: ssrc, FractionLost: fraction, LastSequenceNumber: a.top, Jitter: uint32(a.jitter >> 4),
		TotalLost: uint32(min(max(lost, 0), 1<<23-1)), // 24 bits, signed; what came twice is not told
	}
	if a.lastSR != 0 {
		r.LastSenderReport, r.Delay = a.lastSR, uint32((at-a.lastSRAt)*65536/time.Second)
	}
	return r
}
