package frames

import (
	"time"

	"sightline/frames/internal/yuv"
)

// frame is one complete encoded frame in an unbroken chain. Its data is a buffer of the assembler's, given back by recycle.
type frame struct {
	data          []byte
	key           bool
	width, height int // pixels; key frames only
	temporal      temporal
	spatial       uint8 // its highest layer in space
	ts            uint32
	receivedAt    time.Time // of its last packet
	captured      capture
	hold          bool       // a better picture follows soon: images are made of that, if it comes
	watch         bool       // settling looks at its picture
	colour        yuv.Colour // what the RTP colour space extension said last; the stream's own word goes before it
}

// temporal is a frame's place among the layers in time.
type temporal struct {
	known        bool  // the packets tell a layer; else id and sync mean nothing
	id           uint8 // 0: the base, which refers to no other layer. A frame of layer n is decoded with all of 0 to n or not at all
	sync         bool  // refers to the base alone (VP8), or to no frame of its own layer since (VP9): from here on its layer may be joined
	unreferenced bool  // no other frame refers to it: it can always be left out
}

const (
	queueFrames = 8         // encoded frames between Push and Run
	queueBytes  = 8 << 20   // and their bytes
	spareFrames = 10        // kept for re-use: those queued, one being built, one being decoded
	spareBytes  = 256 << 10 // a larger buffer is not kept
)

// frameQueue is the bounded queue between Push and Run. Full: it drops back to a key frame.
type frameQueue struct {
	buf   [queueFrames]*frame
	n     int
	bytes int
}

// push adds f. A key frame always finds room: what is before it in a full queue is returned as dropped. An inter frame that finds none
// is refused (ok false), and the chain is broken behind the queue.
func (q *frameQueue) push(f *frame) (dropped []*frame, ok bool) {
	if q.n == len(q.buf) || q.n > 0 && q.bytes+len(f.data) > queueBytes {
		if !f.key {
			return nil, false
		}
		dropped = q.take(q.n)
	}
	q.buf[q.n] = f
	q.n++
	q.bytes += len(f.data)
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
	if first > 0 {
		dropped = q.take(first)
	}
	return q.take1(), dropped
}

// toKey drops the frames before the first key frame and reports whether there is one.
func (q *frameQueue) toKey() (dropped []*frame, found bool) {
	for i := range q.n {
		if q.buf[i].key {
			return q.take(i), true
		}
	}
	return q.take(q.n), false
}

// take removes the n oldest frames.
func (q *frameQueue) take(n int) []*frame {
	var fs []*frame
	for range n {
		fs = append(fs, q.take1())
	}
	return fs
}

func (q *frameQueue) take1() *frame {
	f := q.buf[0]
	copy(q.buf[:], q.buf[1:q.n])
	q.n--
	q.buf[q.n] = nil
	q.bytes -= len(f.data)
	return f
}

func (q *frameQueue) hasKey() bool {
	for _, f := range q.buf[:q.n] {
		if f.key {
			return true
		}
	}
	return false
}
