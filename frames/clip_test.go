package frames

import (
	"context"
	"image"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"

	"sightline/frames/internal/stilljpeg"
	"sightline/frames/internal/vp8hdr"
	"sightline/frames/internal/vpx"
	"sightline/frames/ivf"
)

// clip is a real VP8 stream with what a decoder that gets all of it makes of each frame.
type clip struct {
	frames [][]byte
	keys   []bool
	truth  []*Picture
}

func loadClip(t testing.TB, name string) *clip {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, fs, err := ivf.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	dec, err := vpx.NewVP8()
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	c := &clip{}
	for i, fr := range fs {
		pic, err := dec.Decode(fr.Data)
		if err != nil {
			t.Fatalf("%s: frame %d: %v", name, i, err)
		}
		h, err := vp8hdr.Parse(fr.Data)
		if err != nil {
			t.Fatal(err)
		}
		c.frames, c.keys, c.truth = append(c.frames, fr.Data), append(c.keys, h.Key), append(c.truth, pic.Clone())
	}
	return c
}

// publisher sends a clip round and round, as a browser does: asked for a key frame, it jumps to the clip's next one.
type publisher struct {
	clip  *clip
	pos   int
	seq   uint16
	ts    uint32
	pay   codecs.VP8Payloader
	pli   atomic.Bool
	truth map[uint32]*Picture // by timestamp
}

func newPublisher(c *clip) *publisher {
	return &publisher{clip: c, seq: 65000, ts: 1<<32 - 90000, pay: codecs.VP8Payloader{EnablePictureID: true}, truth: map[uint32]*Picture{}}
}

// frame gives the next frame's packets.
func (p *publisher) frame() (ps []*rtp.Packet) {
	if p.pli.Swap(false) {
		for p.pos%len(p.clip.frames) == 0 || !p.clip.keys[p.pos%len(p.clip.frames)] {
			p.pos++
			if p.pos%len(p.clip.frames) == 0 {
				break
			}
		}
	}
	i := p.pos % len(p.clip.frames)
	p.pos++
	p.truth[p.ts] = p.clip.truth[i]
	parts := p.pay.Payload(1200, p.clip.frames[i])
	for n, part := range parts {
		ps = append(ps, &rtp.Packet{
			Header:  rtp.Header{Version: 2, SequenceNumber: p.seq, Timestamp: p.ts, Marker: n == len(parts)-1},
			Payload: part,
		})
		p.seq++
	}
	p.ts += 3000
	return ps
}

// rig runs a track inside a synctest bubble.
type rig struct {
	t      *testing.T
	track  *Track
	mu     sync.Mutex
	states []SourceState
	plis   []time.Time
	onPLI  func()
	stop   func()
}

// newRig starts a track; the bubble's clock is the track's.
func newRig(t *testing.T, change func(*TrackConfig)) *rig {
	t.Helper()
	r := &rig{t: t}
	cfg := TrackConfig{
		Source: "camera",
		RequestKeyFrame: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.plis = append(r.plis, time.Now())
			if r.onPLI != nil {
				r.onPLI()
			}
		},
		OnState: func(s SourceState) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.states = append(r.states, s)
		},
	}
	if change != nil {
		change(&cfg)
	}
	track, err := NewTrack(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.track = track
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- track.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := track.Stats().CBytes; n != 0 {
			t.Errorf("%d bytes of C memory after Run", n)
		}
	})
	synctest.Wait()
	return r
}

// feed pushes packets now and lets the track work until it has nothing more to do.
func (r *rig) feed(ps ...*rtp.Packet) {
	for _, p := range ps {
		r.track.Push(p, time.Now())
	}
	synctest.Wait()
}

// play sends n frames, one each 1/30 s.
func (r *rig) play(p *publisher, n int) {
	for range n {
		r.feed(p.frame()...)
		time.Sleep(time.Second / 30)
	}
}

func (r *rig) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.plis)
}

// stateNames is what was told, in order.
func (r *rig) stateNames() (s []State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, st := range r.states {
		s = append(s, st.State)
	}
	return s
}

// ownSize is an image as like the picture as a JPEG gets.
var ownSize = EncodeOptions{Format: JPEG, Quality: 95}

// psnr compares an image of the picture's own size with the picture, in the luma of every other row.
func psnr(t *testing.T, img *Image, truth *Picture) float64 {
	t.Helper()
	if truth == nil {
		t.Fatalf("image of timestamp %d: no frame of that time was sent", img.RTPTimestamp)
	}
	dec, _, err := stilljpeg.Decode(img.Data) // libjpeg: this is most of the tests' time under the race detector
	if err != nil {
		t.Fatalf("image %d: %v", img.Seq, err)
	}
	y, ok := dec.(*image.YCbCr)
	if !ok || y.Rect.Dx() != truth.Width || y.Rect.Dy() != truth.Height {
		t.Fatalf("image %d: %T of %v, want YCbCr of %d×%d", img.Seq, dec, dec.Bounds(), truth.Width, truth.Height)
	}
	sum := 0.0
	rows := 0
	for row := 0; row < truth.Height; row += 2 {
		rows++
		for col := range truth.Width {
			want := min(max((float64(truth.Y[row*truth.YStride+col])-16)*255/219, 0), 255)
			d := float64(y.Y[row*y.YStride+col]) - want
			sum += d * d
		}
	}
	return 10 * math.Log10(255*255*float64(truth.Width*rows)/max(sum, 1e-9))
}
