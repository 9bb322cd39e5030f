package frames

import "time"

// frame is one complete encoded frame in an unbroken chain. Its data is a buffer of the assembler's, given back by recycle.
type frame struct {
	data          []byte
	key           bool
	width, height int // pixels; key frames only
	ts            uint32
	receivedAt    time.Time // of its last packet
	capturedAt    time.Time
}

const (
	queueFrames = 8         // encoded frames between Push and Run
	spareFrames = 10        // kept for re-use: those queued, one being built, one being decoded
	spareBytes  = 256 << 10 // a larger buffer is not kept
)

// frameQueue is the bounded queue between Push and Run. Full: it drops back to a key frame.
type frameQueue struct {
	buf [queueFrames]*frame
	n   int
}

// push adds f. A key frame always finds room: what is before it in a full queue is returned as dropped. An inter frame that finds none
// is refused (ok false), and the chain is broken behind the queue.
func (q *frameQueue) push(f *frame) (dropped []*frame, ok bool) {
	if q.n == len(q.buf) {
		if !f.key {
			return nil, false
		}
		dropped = q.clear()
	}
	q.buf[q.n] = f
	q.n++
	return dropped, true
}

// pop takes the newest key frame if there is one behind others (dropped: those others), else the oldest frame; nil when empty.
func (q *frameQueue) pop() (f *frame, dropped []*frame) {
	if q.n == 0 {
		return nil, nil
	}
	first := 0
	for i := 1; i < q.n; i++ {
		if q.buf[i].key {
			first = i
		}
	}
	f = q.buf[first]
	if first > 0 {
		dropped = append(dropped, q.buf[:first]...)
	}
	copy(q.buf[:], q.buf[first+1:q.n])
	left := q.n - first - 1
	clear(q.buf[left:q.n])
	q.n = left
	return f, dropped
}

// toKey drops the frames before the first key frame and reports whether there is one.
func (q *frameQueue) toKey() (dropped []*frame, found bool) {
	for i := range q.n {
		if q.buf[i].key {
			dropped = append(dropped, q.buf[:i]...)
			copy(q.buf[:], q.buf[i:q.n])
			clear(q.buf[q.n-i : q.n])
			q.n -= i
			return dropped, true
		}
	}
	return q.clear(), false
}

func (q *frameQueue) clear() []*frame {
	dropped := append([]*frame(nil), q.buf[:q.n]...)
	clear(q.buf[:])
	q.n = 0
	return dropped
}

func (q *frameQueue) hasKey() bool {
	for _, f := range q.buf[:q.n] {
		if f.key {
			return true
		}
	}
	return false
}
