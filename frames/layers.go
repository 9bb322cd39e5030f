package frames

import (
	"fmt"
	"slices"
	"time"

	"github.com/pion/rtp"
)

// MaxLayers bounds the layers of one track.
const MaxLayers = 8

// sizeAsks is how often a layer that is sent and of which no key frame was seen is asked for one: without it, its size is not known.
const sizeAsks = 6

// rivalPackets is how many packets in a row show that a layer's stream goes on under another SSRC.
const rivalPackets = 3

// Layer is one encoding of a track's video: of a simulcast one of several, of different sizes, each a stream of its own; else the only one. All
// of them are read and counted, and one is decoded. That one changes at a whole key frame of the next, behind which nothing of the last one is
// decoded (G10).
type Layer struct {
	track *Track

	// guarded by track.mu
	rid     string
	request func() // asks the sender for a key frame of this layer; nil: it takes no requests
	ssrc    uint32
	rival   uint32 // another SSRC, which sent …
	rivals  int    // … so many packets since ssrc last did
	asm     assembler
	pulse   pulse
	packets uint64
	used    bool // frames of it were decoded
	yields  bool // a frame came out since it was last woken
	asks    keyRequester
	asked   int // without an answer, for its size
}

// layering is what a track knows of its layers.
type layering struct {
	all       []*Layer // the first one never changes its place
	cur, next *Layer   // in use; and the one waited for a key frame of, nil: none
	chooser   layerChooser
	frames    uint64 // of all layers
	side      int    // what was wanted last, pixels
}

func (l *layering) first() *Layer { return l.all[0] }

// Layer adds a layer of a simulcast, known by its RID. A RID that is there already is the same layer, whose sender has begun a stream of
// another SSRC. The first layer takes the place of the one that a track has from the beginning. request sends one PLI for this layer's SSRC,
// as TrackConfig.RequestKeyFrame does.
func (t *Track) Layer(rid string, request func()) (*Layer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.lay.all, func(l *Layer) bool { return l.rid == rid }); i >= 0 {
		t.lay.all[i].request = request
		return t.lay.all[i], nil
	}
	if l := t.lay.all[0]; len(t.lay.all) == 1 && l.rid == "" && l.packets == 0 {
		l.rid, l.request = rid, request
		return l, nil
	}
	if len(t.lay.all) == MaxLayers {
		return nil, fmt.Errorf("track has %d layers, the limit", MaxLayers)
	}
	l, err := t.newLayer(rid, request)
	if err != nil {
		return nil, err
	}
	t.lay.all = append(t.lay.all, l)
	return l, nil
}

func (t *Track) newLayer(rid string, request func()) (*Layer, error) {
	asm, err := newAssembler(t.cfg.Codec)
	if err != nil {
		return nil, err
	}
	asm.said.ids = t.cfg.Extensions
	if d, ok := asm.depay.(*h264Depacketizer); ok {
		d.told(t.cfg.ParameterSets)
	}
	return &Layer{track: t, rid: rid, request: request, asm: asm}, nil
}

// Push takes one packet of this layer; see Track.Push. Several layers may be pushed to at a time.
func (l *Layer) Push(p *rtp.Packet, at time.Time) (kept bool) { return l.track.push(l, p, at) }

// receive takes one packet and gives the frames it completes; t.mu is held.
func (l *Layer) receive(p *rtp.Packet, at time.Time) []*frame {
	l.packets++
	if !l.current(p, at) {
		l.asm.pdrops.Stray++
		return nil
	}
	if len(p.Payload) > 0 {
		if p.Timestamp != l.asm.lastTS || l.asm.lastTSAt.IsZero() {
			l.track.lay.frames++
		}
		l.pulse.beat(at, l.track.lay.frames)
	}
	fs := l.asm.push(p, at)
	if l.asm.width > 0 {
		l.asked = 0
	}
	return fs
}

// current reports whether a packet is of the layer's stream. One of another SSRC takes its place when it is silent, or when rivalPackets came
// and none of it: what is still under way of an old stream, or a packet gone astray, ends no stream.
func (l *Layer) current(p *rtp.Packet, at time.Time) bool {
	if l.packets == 1 {
		l.ssrc = p.SSRC
	}
	if p.SSRC == l.ssrc {
		l.rivals = 0
		return true
	}
	if p.SSRC != l.rival {
		l.rival, l.rivals = p.SSRC, 0
	}
	if l.rivals++; l.rivals < rivalPackets && at.Sub(l.pulse.last) < layerSilent {
		return false
	}
	l.ssrc, l.rivals = p.SSRC, 0
	l.asm.anotherStream()
	return true
}

// took says what came out of a layer; false: nothing of it is wanted. t.mu is held.
func (t *Track) took(l *Layer, fs []*frame, at time.Time) bool {
	if len(fs) == 0 {
		return false
	}
	if l == t.lay.next { // its first frame is a key frame: it takes over
		t.lay.cur.asm.sleep()
		t.lay.next = nil
		t.enter(l)
		t.st.LayerSwitches++
	}
	if l != t.lay.cur {
		return false
	}
	if !l.yields {
		l.yields = true
		t.lay.chooser.took(at)
	}
	l.used = true
	f := fs[len(fs)-1]
	t.st.SpatialLayer, t.st.TemporalLayer = int(f.spatial), int(f.temporal.id)
	t.st.TemporalLayers = max(t.st.TemporalLayers, t.st.TemporalLayer+1)
	return true
}

// enter makes l the layer in use; t.mu is held.
func (t *Track) enter(l *Layer) {
	t.lay.cur, t.asm = l, &l.asm
	signal(t.control)
}

// wake starts assembling the best layer; nothing of any is decoded now. t.mu is held.
func (t *Track) wakeLayer(at time.Time) {
	t.noteSide()
	if len(t.lay.all) > 1 {
		t.enter(t.lay.all[t.chooseLayer(-1, at)])
	}
	t.lay.cur.yields = false
	t.asm.wake()
}

// sleepLayers stops assembling; t.mu is held.
func (t *Track) sleepLayers() {
	t.asm.sleep()
	t.giveUpNext()
}

func (t *Track) giveUpNext() {
	if t.lay.next != nil {
		t.lay.next.asm.sleep()
		t.lay.next = nil
	}
}

// chooseLayer gives the index of the layer to decode when that of index cur is, -1 for none; t.mu is held.
func (t *Track) chooseLayer(cur int, at time.Time) int {
	var views [MaxLayers]layerView
	for i, l := range t.lay.all {
		alive := l.pulse.look(at, t.lay.frames)
		views[i] = layerView{max(l.asm.width, l.asm.height), alive, alive && l.pulse.steady(at), l.used}
	}
	return max(t.lay.chooser.choose(views[:len(t.lay.all)], cur, t.lay.side, at), 0)
}

// noteSide tells all layers what is wanted; t.mu is held.
func (t *Track) noteSide() {
	if side := t.wantedSide(); side > 0 {
		t.lay.side = side
	}
	for _, l := range t.lay.all {
		l.asm.lay.side = t.lay.side
	}
}

// stepLayers lets the layers be chosen anew and gives the requests for key frames that are due. t.mu is held.
func (t *Track) stepLayers(at time.Time) (asks []func()) {
	if !t.asm.active {
		return nil
	}
	t.noteSide()
	if len(t.lay.all) < 2 {
		return nil
	}
	cur := slices.Index(t.lay.all, t.lay.cur)
	if !t.lay.cur.yields {
		cur = -1
	}
	best := t.lay.all[t.chooseLayer(cur, at)]
	switch {
	case best == t.lay.next:
	case best == t.lay.cur:
		t.giveUpNext()
	case cur < 0: // no frame to go on with
		t.sleepLayers()
		t.enter(best)
		best.asm.wake()
	default:
		t.giveUpNext()
		t.lay.next = best
		best.yields, best.asks = false, keyRequester{}
		best.asm.wake()
	}
	if t.lay.next != nil {
		t.enqueueNext(t.lay.next.asm.tick(at), at)
	}
	for _, l := range t.lay.all {
		size := l != t.lay.cur && l.asm.width == 0 && l.asked < sizeAsks && l.pulse.look(at, t.lay.frames)
		if l.request == nil || !l.asks.due(size || l == t.lay.next && l.asm.cur == nil, at) {
			continue
		}
		if size {
			l.asked++
		}
		t.st.PLIs++
		asks = append(asks, l.request)
	}
	return asks
}

// enqueueNext takes what the next layer gave when time passed; t.mu is held.
func (t *Track) enqueueNext(fs []*frame, at time.Time) {
	if t.took(t.lay.next, fs, at) {
		t.enqueue(fs)
	}
}

// Report takes a sender report of this layer's stream; see Track.Report.
func (l *Layer) Report(r SenderReport, at time.Time) {
	l.track.mu.Lock()
	defer l.track.mu.Unlock()
	if !l.track.over {
		l.asm.clock.report(r, at)
	}
}

// LayerStats is a snapshot of one layer. Counters only grow.
type LayerStats struct {
	RID           string // empty: the sender names none
	SSRC          uint32
	Used          bool // it is the one decoded, or would be
	Sent          bool // it is being sent
	Width, Height int  // pixels of its newest key frame; 0: none was seen
	FPS           float64
	BitrateBPS    float64
	Packets       uint64
	Lost          uint64
}

// layerStats fills in what is counted by layer; t.mu is held.
func (t *Track) layerStats(s *TrackStats, flowing bool, now time.Time) {
	for _, l := range t.lay.all {
		a := &l.asm
		ls := LayerStats{
			RID: l.rid, SSRC: l.ssrc, Used: l == t.lay.cur, Sent: flowing && l.pulse.look(now, t.lay.frames),
			Width: a.width, Height: a.height, Packets: l.packets, Lost: a.seq.lost,
		}
		if ls.Sent {
			ls.FPS, ls.BitrateBPS = a.meter.rates(now)
		}
		s.Layers = append(s.Layers, ls)
		s.BitrateBPS += ls.BitrateBPS
		s.Lost += a.seq.lost
		s.PacketDrops.add(a.pdrops)
		s.Resets += a.resets
		s.Frames += a.frames
		s.KeyFrames += a.keys
		s.FrameDrops.Incomplete += a.fdrops.Incomplete
		s.FrameDrops.NeedKey += a.fdrops.NeedKey
		s.FrameDrops.TooBig += a.fdrops.TooBig
		s.FrameDrops.Refused += a.fdrops.Refused
		for _, size := range append(a.lay.sizes[:a.lay.n:a.lay.n], [2]int{a.width, a.height}) {
			if size[0]*size[1] > s.FullWidth*s.FullHeight {
				s.FullWidth, s.FullHeight = size[0], size[1]
			}
		}
		if ls.Used {
			s.SpatialLayers = max(a.lay.n, s.SpatialLayer+1)
			s.RID, s.FPS = l.rid, ls.FPS
		}
	}
}

func (d *PacketDrops) add(o PacketDrops) {
	d.Duplicate += o.Duplicate
	d.Late += o.Late
	d.Malformed += o.Malformed
	d.Stray += o.Stray
}
