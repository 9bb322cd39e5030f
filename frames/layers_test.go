package frames

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"pgregory.net/rapid"
)

// encoding is one layer of a simulcast as its sender makes it. Each frame says whose it is and which.
type encoding struct {
	layer   *Layer
	id      int
	side    int // of its key frames; the other one is half of it
	n       int // frames so far
	seq     uint16
	ts      uint32
	ssrc    uint32
	asked   int
	wantKey bool
}

const perFrame = 3 // packets

// send gives the packets of its next frame.
func (e *encoding) send() (ps []*rtp.Packet) {
	key := e.n == 0 || e.wantKey
	e.wantKey = false
	data := testFrame(key, 0, 250)
	if key {
		binary.LittleEndian.PutUint16(data[6:], uint16(e.side))
		binary.LittleEndian.PutUint16(data[8:], uint16(e.side/2))
	}
	data[14], data[15] = byte(e.id), byte(e.n>>8)
	data[16] = byte(e.n)
	e.n++
	parts := (&codecs.VP8Payloader{}).Payload(100, data)
	if len(parts) != perFrame {
		panic("a frame of another number of packets")
	}
	for i, part := range parts {
		ps = append(ps, &rtp.Packet{
			Header:  rtp.Header{Version: 2, SSRC: e.ssrc, SequenceNumber: e.seq, Timestamp: e.ts, Marker: i == len(parts)-1},
			Payload: part,
		})
		e.seq++
	}
	e.ts += 9000
	return ps
}

// simulcast is a track with its sender, without Run: time passes by step, and what would be decoded is looked at.
type simulcast struct {
	fatal func(format string, args ...any)
	t     *Track
	from  []*encoding
	last  [2]int // id and number of the newest frame for the decoder; id -1: none
	seen  map[int]int
}

func newSimulcast(fatal func(string, ...any), sides ...int) *simulcast {
	track, err := NewTrack(TrackConfig{Source: "camera", Policy: PolicyFull, RequestKeyFrame: func() { fatal("the track's own request was used") }})
	if err != nil {
		fatal("%v", err)
	}
	s := &simulcast{fatal: fatal, t: track, last: [2]int{-1, 0}, seen: map[int]int{}}
	for i, side := range sides {
		e := &encoding{id: i, side: side, ssrc: uint32(1000 + i), seq: uint16(65000 + 100*i), ts: uint32(i * 77777)}
		if e.layer, err = track.Layer(string(rune('a'+i)), func() { e.asked++; e.wantKey = true }); err != nil {
			fatal("%v", err)
		}
		s.from = append(s.from, e)
	}
	return s
}

func (s *simulcast) want(side int) *Subscription {
	return s.t.Subscribe(Want{FPS: 30, Options: EncodeOptions{Quality: 75, Resize: &ResizeOptions{Width: side, Height: side / 2}}})
}

// push sends one packet and looks at what it brings the decoder.
func (s *simulcast) push(e *encoding, p *rtp.Packet) {
	e.layer.Push(p, time.Now())
	s.look()
}

func (s *simulcast) look() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	for _, f := range s.t.queue.take(s.t.queue.n) {
		id, n := int(f.data[14]), int(f.data[15])<<8|int(f.data[16])
		if !f.key && (id != s.last[0] || n != s.last[1]+1) {
			s.fatal("frame %d of layer %d, no key frame, behind frame %d of layer %d", n, id, s.last[1], s.last[0])
		}
		if f.key && f.width != s.from[id].side {
			s.fatal("key frame of layer %d is %d wide, want %d", id, f.width, s.from[id].side)
		}
		s.last = [2]int{id, n}
		s.seen[id]++
		s.t.asm.recycle(f)
	}
}

func (s *simulcast) check() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	awake := 0
	for _, l := range s.t.lay.all {
		if err := l.asm.check(); err != nil {
			s.fatal("layer %s: %v", l.rid, err)
		}
		if l.asm.active {
			awake++
		}
	}
	if awake > 2 {
		s.fatal("%d layers are assembled", awake)
	}
}

// step is one frame interval: every layer of on sends a frame.
func (s *simulcast) step(on ...int) {
	for _, i := range on {
		for _, p := range s.from[i].send() {
			s.push(s.from[i], p)
		}
	}
	time.Sleep(time.Second / 10)
	s.t.controlStep(time.Now())
	s.look()
	s.check()
}

func (s *simulcast) run(d time.Duration, on ...int) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		s.step(on...)
	}
}

// wantUsed compares the layer in use, and the switches so far.
func (s *simulcast) wantUsed(t *testing.T, rid string, switches uint64) {
	t.Helper()
	if st := s.t.Stats(); st.RID != rid || st.LayerSwitches != switches {
		t.Errorf("layer %q after %d switches, want %q and %d: %+v", st.RID, st.LayerSwitches, rid, switches, st.Layers)
	}
}

// TestG10OneLayerIsDecodedAndSwitchedAtKeyFrames plays a call: what the sender sends and what is wanted change, and after each change the right
// layer comes, from its key frame on, while the last one goes on until then.
func TestG10OneLayerIsDecodedAndSwitchedAtKeyFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulcast(t.Fatalf, 320, 640, 1280)
		s.run(5*time.Second, 0, 1, 2) // nobody watches
		for _, e := range s.from {
			if e.asked != 0 {
				t.Errorf("layer %d was asked for %d key frames while nobody watched", e.id, e.asked)
			}
		}
		if len(s.seen) != 0 {
			t.Errorf("frames %v while nobody watched", s.seen)
		}
		small := s.want(300)
		s.run(time.Second, 0, 1, 2)
		s.wantUsed(t, "a", 0)
		large := s.want(1000)
		s.run(4*time.Second, 0, 1, 2)
		s.wantUsed(t, "c", 1)
		large.Close()
		s.run(2*time.Second, 0, 1, 2)
		s.wantUsed(t, "c", 1) // not at once
		s.run(2*time.Second, 0, 1, 2)
		s.wantUsed(t, "a", 2)
		large = s.want(1000)
		s.run(5*time.Second, 0, 1, 2)
		s.wantUsed(t, "c", 3)
		s.run(2*time.Second, 0, 1) // the sender leaves the largest out
		s.wantUsed(t, "b", 4)
		s.run(2*time.Second, 0, 1, 2) // and sends it again
		s.wantUsed(t, "b", 4)
		s.run(2*time.Second, 0, 1, 2)
		s.wantUsed(t, "c", 5)
		large.Close()
		small.Close()
		s.run(3*time.Second, 0, 1, 2)
		if s.t.asm.active || s.t.lay.next != nil {
			t.Error("awake, and nobody watches")
		}
		st := s.t.Stats()
		var packets uint64
		for i, l := range st.Layers {
			if packets += l.Packets; l.Packets != perFrame*uint64(s.from[i].n) || l.Width != s.from[i].side || l.Lost != 0 || !l.Sent {
				t.Errorf("layer %d of %d frames: %+v", i, s.from[i].n, l)
			}
		}
		if st.Packets != packets || st.FullWidth != 1280 {
			t.Errorf("%d packets, of all layers %d; the largest is %d wide", st.Packets, packets, st.FullWidth)
		}
	})
}

// A layer that sends no key frame is not switched to, and is asked in vain with growing patience; the one in use goes on.
func TestALayerWithoutKeyFramesIsNotSwitchedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulcast(t.Fatalf, 320, 1280)
		sub := s.want(300)
		s.run(4*time.Second, 0, 1)
		sub.Close()
		s.want(1000)
		deaf := s.from[1]
		before := deaf.asked
		for range 20 * 10 {
			deaf.wantKey = false
			s.step(0, 1)
		}
		if n := deaf.asked - before; n < 4 || n > 9 {
			t.Errorf("asked %d times in 20 s, want 4 to 9: 0.5 s apart at first, then up to 5 s", n)
		}
		s.wantUsed(t, "a", 0)
		s.run(8*time.Second, 0, 1) // now it hears
		s.wantUsed(t, "b", 1)
	})
}

// TestG10LayersUnderAnything: whatever is lost, left out, wanted and sent anew, no frame reaches the decoder whose predecessor it has not had.
func TestG10LayersUnderAnything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newSimulcast(rt.Fatalf, 320, 640, 1280)
			subs := []*Subscription{s.want(300)}
			on := []int{0, 1, 2}
			for range rapid.IntRange(1, 15).Draw(rt, "events") {
				switch rapid.IntRange(0, 4).Draw(rt, "event") {
				case 0:
					subs = append(subs, s.want(rapid.SampledFrom([]int{200, 500, 1200}).Draw(rt, "side")))
				case 1:
					if len(subs) > 0 {
						subs[0].Close()
						subs = subs[1:]
					}
				case 2:
					on = rapid.SampledFrom([][]int{{0, 1, 2}, {0, 1}, {0}, {2}, {1, 2}, {}}).Draw(rt, "on")
				case 3: // lost packets
					for _, e := range s.from {
						for i, p := range e.send() {
							if i != rapid.IntRange(0, perFrame).Draw(rt, "lost") {
								s.push(e, p)
							}
						}
					}
				case 4: // the stream goes on under another SSRC, as after a reconnect of the encoder
					e := s.from[rapid.IntRange(0, 2).Draw(rt, "anew")]
					e.ssrc, e.seq, e.ts = e.ssrc+100, uint16(rapid.IntRange(0, 65535).Draw(rt, "seq")), e.ts+1<<30
				}
				for range rapid.IntRange(0, 40).Draw(rt, "steps") {
					s.step(on...)
				}
			}
			for _, sub := range subs {
				sub.Close()
			}
			s.want(1200)
			s.run(30*time.Second, 0, 1, 2) // longer than every patience
			if st := s.t.Stats(); st.RID != "c" {
				rt.Fatalf("layer %q in the end, want c: %+v", st.RID, st.Layers)
			}
		})
	})
}

func TestLayersAreKnownByRID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulcast(t.Fatalf, 320, 640)
		s.want(600)
		s.run(time.Second, 0, 1)
		again, err := s.t.Layer("b", func() { s.from[1].asked++; s.from[1].wantKey = true })
		if err != nil || again != s.from[1].layer {
			t.Fatalf("another layer for the same RID: %v", err)
		}
		e := s.from[1]
		old := e.ssrc
		e.ssrc, e.seq, e.ts = 4711, 7, 1<<31
		s.run(time.Second, 0, 1)
		late := &rtp.Packet{Header: rtp.Header{Version: 2, SSRC: old, SequenceNumber: e.seq, Timestamp: e.ts}, Payload: []byte{0x10, 0x01}}
		s.push(e, late) // of the old stream
		s.run(time.Second, 0, 1)
		s.wantUsed(t, "b", s.t.Stats().LayerSwitches)
		if st := s.t.Stats().Layers[1]; st.SSRC != 4711 || st.Lost > 0 {
			t.Errorf("%+v", st)
		}
		for i := 2; i < MaxLayers; i++ {
			if _, err := s.t.Layer(string(rune('a'+i)), nil); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.t.Layer("one too many", nil); err == nil {
			t.Error("a ninth layer is taken")
		}
	})
}

// Without RIDs there is one layer, and Push is its.
func TestATrackWithoutLayersHasOne(t *testing.T) {
	track, err := NewTrack(TrackConfig{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := track.Layer("", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &encoding{side: 320}
	for i, p := range e.send() {
		if i%2 == 0 {
			track.Push(p, t0)
		} else {
			l.Push(p, t0)
		}
	}
	st := track.Stats()
	if len(st.Layers) != 1 || st.Layers[0].Packets != perFrame || st.Packets != perFrame || st.Width != 320 || st.RID != "" || !st.Layers[0].Used {
		t.Errorf("%+v", st)
	}
}
