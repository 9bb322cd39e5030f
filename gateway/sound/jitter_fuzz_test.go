package sound

import (
	"testing"
	"time"
)

// FuzzJitter: whatever comes, in whatever order, steps are sound, memory is bounded, and the line's invariants hold.
func FuzzJitter(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 250, 251, 252, 253, 254, 255})
	f.Add([]byte{1, 1, 1, 1, 200, 1, 1, 1, 9, 9, 9, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 2000 {
			return
		}
		l := newLine(t)
		for i, op := range script {
			arg := int(op) * 37 % 251
			switch op % 12 {
			case 0:
				l.send(960, -1)
			case 1:
				l.send(120, time.Duration(arg)*time.Millisecond)
			case 2:
				l.seq += uint16(arg)
			case 3:
				l.seq -= uint16(arg)
			case 4:
				l.ts += uint32(arg * 97)
			case 5:
				l.ts -= uint32(arg * 997)
			case 6:
				p := l.send(960, 0)
				p.Payload = script[i:]
			case 7:
				l.ssrc = uint32(arg & 1)
			case 8:
				l.seq += 1 << 14
			case 9:
				l.ts += 1 << uint(arg%32)
			case 10:
				for range arg % 40 {
					l.send(960, time.Duration(arg)*time.Millisecond)
				}
			default:
				l.send(960, 0)
				l.play()
			}
		}
		for range 60 {
			l.play()
		}
		if l.jitter.held != 0 && len(l.way) == 0 {
			t.Fatalf("%d packets still wait after 1.2 s", l.jitter.held)
		}
	})
}
