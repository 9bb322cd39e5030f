package frames

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pion/rtp"
	"pgregory.net/rapid"
)

// Operations of a mistreated stream: one byte each, the argument in its upper five bits.
const (
	opSend     = iota // send the next 1+arg packets
	opLose            // leave the next 1+arg out
	opHold            // keep the next packet back
	opRelease         // send a packet that was kept back or sent before: the arg-th from the end
	opTruncate        // send the next packet cut within its descriptor (what is cut behind it, only SRTP can tell)
	opPad             // send 1+arg padding packets
	opWait            // let arg×10 ms pass
	opDisturb         // arg picks: jump of sequence or timestamp, a damaged descriptor byte, sleep and wake
)

// mistreat plays one stream under ops, checks the assembler after each step and what comes out at the end.
func mistreat(ops []byte, as *testCodec) error {
	m := &mistreated{at: t0, s: sender{seq: 65500, ts: 1<<32 - 9000, mtu: 120, as: as}, sent: map[string]int{}, key: map[int]bool{}}
	if m.a = asleep(CodecVP8); as != nil {
		m.a = asleep(as.codec)
	}
	m.s.pay.EnablePictureID = len(ops) > 0 && ops[0]&0x80 != 0
	m.a.wake()
	for i, op := range ops {
		if err := m.step(op&7, int(op>>3)); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	if !m.a.active {
		m.a.wake()
	}
	for range 48 { // whatever happened, the stream must come back; a jump back into the window costs seqWindow packets
		m.at = m.at.Add(holeWait)
		if err := m.step(opSend, 31); err != nil {
			return err
		}
	}
	return m.healed()
}

type mistreated struct {
	a       *assembler
	at      time.Time
	s       sender
	pending []*rtp.Packet
	of      []int // frame number of each pending packet
	past    []*rtp.Packet
	sent    map[string]int // frame bytes to number
	key     map[int]bool
	n       int // frames made
	last    int // frame that came out last, from 1
}

// next gives the next packet of the stream; every 12th frame is a key frame.
func (m *mistreated) next() (*rtp.Packet, int) {
	if len(m.pending) == 0 {
		m.n++
		key := m.n%12 == 1
		f := m.s.frame(key, m.n, 30+m.n*37%500)
		m.sent[string(f)], m.key[m.n] = m.n, key
		for _, p := range m.s.packets(f) {
			m.pending, m.of = append(m.pending, p), append(m.of, m.n)
		}
		m.s.sent = nil
	}
	p, n := m.pending[0], m.of[0]
	m.pending, m.of = m.pending[1:], m.of[1:]
	return p, n
}

func (m *mistreated) push(p *rtp.Packet) error {
	m.past = append(m.past, p)
	if len(m.past) > 40 {
		m.past = m.past[1:]
	}
	m.at = m.at.Add(time.Millisecond)
	q := *p
	return m.took(m.a.push(&q, m.at))
}

// took holds the invariants: only frames that were sent, in order, none twice, and no inter frame but right after the one before it.
func (m *mistreated) took(fs []*frame) error {
	for _, f := range fs {
		n, ok := m.sent[string(f.data)]
		switch {
		case !ok:
			return fmt.Errorf("a frame of %d bytes came out that nobody sent", len(f.data))
		case n <= m.last:
			return fmt.Errorf("frame %d came out after %d", n, m.last)
		case f.key != m.key[n]:
			return fmt.Errorf("frame %d: key %v", n, f.key)
		case !f.key && n != m.last+1:
			return fmt.Errorf("inter frame %d came out after %d: a broken chain", n, m.last)
		case f.captured.at.After(f.receivedAt) || f.receivedAt.After(m.at):
			return fmt.Errorf("frame %d: captured %v, received %v, now %v", n, f.captured.at, f.receivedAt, m.at)
		}
		m.last = n
		m.a.recycle(f)
	}
	return m.a.check()
}

func (m *mistreated) step(op byte, arg int) error {
	switch op {
	case opSend:
		for range 1 + arg {
			p, _ := m.next()
			if err := m.push(p); err != nil {
				return err
			}
		}
	case opLose:
		for range 1 + arg {
			m.next()
		}
	case opHold:
		p, _ := m.next()
		m.past = append(m.past, p)
	case opRelease:
		if len(m.past) > arg {
			return m.push(m.past[len(m.past)-1-arg])
		}
	case opTruncate:
		p, _ := m.next()
		q := *p
		n := 1
		if m.s.as != nil {
			n = m.s.as.tells(q.Payload)
		} else if q.Payload[0]&0x80 != 0 {
			n = 4
		}
		q.Payload = q.Payload[:1+arg%n]
		if err := m.push(&q); err != nil {
			return err
		}
		m.past = m.past[:len(m.past)-1] // its whole form is never sent
	case opPad:
		for range 1 + arg {
			if len(m.pending) > 0 { // its number would be in the middle of those of the pending
				return nil
			}
			if err := m.push(m.s.pad()); err != nil {
				return err
			}
		}
	case opWait:
		m.at = m.at.Add(time.Duration(arg) * 10 * time.Millisecond)
		return m.took(m.a.tick(m.at))
	case opDisturb:
		return m.disturb(arg)
	}
	return nil
}

func (m *mistreated) disturb(arg int) error {
	switch arg & 3 {
	case 0:
		m.pending, m.of = nil, nil
		m.s.seq += uint16(arg) * 1000
	case 1:
		m.pending, m.of = nil, nil
		m.s.ts += uint32(arg) * 4 * videoClock
	case 2:
		p, _ := m.next()
		if m.s.as != nil { // a flipped bit is a bit of the data: SRTP's business
			return m.push(p)
		}
		q := *p
		q.Payload = bytes.Clone(p.Payload)
		q.Payload[0] ^= byte(1 << (arg >> 2 % 7)) // any bit of the descriptor's first byte but X, which would shift the data
		if err := m.push(&q); err != nil {
			return err
		}
		m.past = m.past[:len(m.past)-1]
	case 3:
		if m.a.active {
			m.a.sleep()
		} else {
			m.a.wake()
		}
	}
	return m.a.check()
}

func (m *mistreated) healed() error {
	if m.a.needKey || m.last < m.n-1 {
		return fmt.Errorf("not healed: frame %d of %d came out last, need key %v", m.last, m.n, m.a.needKey)
	}
	return nil
}

// seeds are op sequences for each kind of trouble.
func fuzzSeeds() map[string][]byte {
	op := func(op byte, arg int) byte { return op | byte(arg)<<3 }
	return map[string][]byte{
		"clean":      {op(opSend, 31), op(opSend, 31)},
		"loss":       {op(opSend, 20), op(opLose, 0), op(opSend, 31), op(opWait, 16), op(opSend, 31)},
		"reorder":    {op(opSend, 5), op(opHold, 0), op(opSend, 3), op(opRelease, 4), op(opHold, 0), op(opHold, 0), op(opRelease, 0), op(opRelease, 2), op(opSend, 31)},
		"duplicates": {op(opSend, 9), op(opRelease, 0), op(opRelease, 5), op(opSend, 31), op(opRelease, 31)},
		"truncated":  {op(opSend, 9), op(opTruncate, 1), op(opSend, 31), op(opTruncate, 0), op(opTruncate, 30), op(opSend, 31)},
		"padding":    {op(opSend, 2), op(opPad, 7), op(opSend, 30), op(opPad, 31), op(opSend, 31)},
		"jumps":      {op(opSend, 31), op(opDisturb, 28), op(opSend, 31), op(opDisturb, 29), op(opSend, 31), op(opDisturb, 3), op(opSend, 31), op(opDisturb, 3)},
		"descriptor": {op(opSend, 9), op(opDisturb, 18), op(opSend, 31), op(opDisturb, 30), op(opSend, 31), op(opDisturb, 2), op(opSend, 31)},
		"ids":        {op(opSend, 31) | 0x80, op(opSend, 31), op(opLose, 3), op(opSend, 31)},
	}
}

func FuzzAssembler(f *testing.F) {
	for _, s := range fuzzSeeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 400 {
			return
		}
		if err := mistreat(ops, nil); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAssemblerUnderAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := rapid.SliceOfN(rapid.Byte(), 0, 120).Draw(t, "ops")
		if err := mistreat(ops, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzAssemblerPackets feeds packets nobody would send: only bounds and the absence of panics are asked for.
func FuzzAssemblerPackets(f *testing.F) {
	for _, d := range descriptors {
		f.Add(append([]byte{0, 1, 0, 0, byte(len(d))}, d...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, at, seq, ts := asleep(CodecVP8), t0, uint16(65530), uint32(7)
		a.wake()
		for len(b) >= 5 {
			seq += binary.BigEndian.Uint16(b)
			ts += uint32(b[2]) << 10
			at = at.Add(time.Duration(b[3]&0x7f) * time.Millisecond)
			marker, n := b[3]&0x80 != 0, min(int(b[4]), len(b)-5)
			p := &rtp.Packet{Header: rtp.Header{SequenceNumber: seq, Timestamp: ts, Marker: marker}, Payload: b[5 : 5+n]}
			b = b[5+n:]
			for _, f := range a.push(p, at) {
				a.recycle(f)
			}
			if err := a.check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestFuzzSeedsAreCommitted(t *testing.T) {
	for name, ops := range fuzzSeeds() {
		if err := mistreat(ops, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", ops)
		path := filepath.Join("testdata", "fuzz", "FuzzAssembler", name)
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %v; it should be:\n%s", path, err, want)
		}
	}
}
