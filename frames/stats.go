package frames

import "time"

// State is what a source is doing, as agents and the page are told.
type State string

// The states of a source.
const (
	StateLive    State = "live"
	StateBlack   State = "black"   // pictures arrive and are black: muted or covered; known only while somebody watches
	StateStalled State = "stalled" // no packet for TrackConfig.StallAfter, or none yet
	StateEnded   State = "ended"   // Run has returned
)

// SourceState is what TrackConfig.OnState is told.
type SourceState struct {
	Name          string // the source's
	State         State
	Width, Height int // pixels of the newest key frame; 0 until one was seen
	Codec         Codec
	Screen        bool // it shows a screen: TrackConfig.Screen, or the sender says so in its packets' headers
	Frozen        bool // it is live and no screen, and in 15 s of pictures nothing has changed; known only while somebody watches
}

// PacketDrops counts packets thrown away, by cause.
type PacketDrops struct {
	Duplicate uint64 // same sequence number again (RTX on a loss-free link does this)
	Late      uint64 // its place in the order was given up before it came
	Malformed uint64 // payload is not of the codec's RTP format
	Stray     uint64 // far from the sequence and not followed by its neighbour
}

// FrameDrops counts frames thrown away, by cause.
type FrameDrops struct {
	Incomplete uint64 // a packet of it, or its first packet, never came
	NeedKey    uint64 // whole, but the chain before it is broken
	TooBig     uint64 // over 4 MiB or 2048 packets
	Refused    uint64 // header damaged, or the size or kind of its picture one that is not taken: no decoder saw it
	QueueFull  uint64 // decoding fell behind
	Skipped    uint64 // decoding fell behind and a newer key frame was there
	Decode     uint64 // the decoder refused it, or it panicked
	Corrupt    uint64 // the decoder says its picture is damaged
}

// Total is the number of frames thrown away.
func (d FrameDrops) Total() uint64 {
	return d.Incomplete + d.NeedKey + d.TooBig + d.Refused + d.QueueFull + d.Skipped + d.Decode + d.Corrupt
}

// TrackStats is a snapshot of one track. Counters only grow.
type TrackStats struct {
	Source        string
	Codec         Codec
	State         State
	Policy        Policy  // as set
	InEffect      Policy  // what that means at present
	PolicyReason  string  // why
	AfterKey      int     // frames decoded after each key frame; InEffect keyframe only
	Width, Height int     // pixels of the newest key frame
	FPS           float64 // frames of the layer in use arriving per second, over the last second or two
	BitrateBPS    float64 // payload bits per second of all layers, likewise

	RID                           string       // of the layer in use; empty: the sender names none
	Layers                        []LayerStats // all of them; those of a simulcast are several
	FullWidth, FullHeight         int          // pixels of the largest layer that the sender tells of
	SpatialLayer                  int          // of the newest frame: its highest one; 0: the lowest
	SpatialLayers                 int          // that the sender tells of in this stream
	TemporalLayer, TemporalLayers int          // of the newest frame; and how many were seen
	LayerSwitches                 uint64       // from one layer to another while images were made

	Packets       uint64 // received of all layers, whatever became of them
	Lost          uint64 // packets of all layers that had not arrived 500 ms (or 128 packets) after their turn; those that come later still are PacketDrops.Late, too
	PacketDrops   PacketDrops
	FrameDrops    FrameDrops
	Frames        uint64 // assembled whole and in an unbroken chain
	KeyFrames     uint64 // of these
	Decoded       uint64 // pictures
	Encoded       uint64 // images made; one may be delivered to many
	EncodeErrors  uint64
	Delivered     uint64 // images put into mailboxes or given to requests
	Superseded    uint64 // images displaced in a mailbox by a newer one before they were taken
	Unchanged     uint64 // images withheld from subscriptions that want changes, because their pictures showed none
	PolicySkipped uint64 // whole frames that the policy left undecoded; not among the drops
	PLIs          uint64 // key frames asked for
	PLIsAnswered  uint64 // key frames that came for it; several requests may have one answer
	PLIsIgnored   uint64 // not answered for a second
	Resets        uint64 // jumps of sequence or timestamp that restarted the assembler
	Subscriptions int
	Waiting       int // requests waiting for an image

	PLIAnswerTime    time.Duration // from a request to the whole key frame, smoothed; 0: none yet
	LastPacketAt     time.Time
	LastCapturedAt   time.Time     // of the newest image
	LastCaptureError time.Duration // likewise; 0: not known
	LastCaptureClock CaptureClock
	Screen, Frozen   bool   // as SourceState has them
	ReportsDoubted   uint64 // sender reports and capture times in headers that cannot be
	CBytes           int64  // C memory held by decoder and encoder, as far as they know
}

// Stats is a snapshot.
func (t *Track) Stats() TrackStats {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	s, a := t.st, t.asm
	s.Source, s.Codec = t.cfg.Source, t.cfg.Codec
	state := t.state(now)
	s.State, s.Width, s.Height = state.State, a.width, a.height
	s.Screen, s.Frozen, s.ReportsDoubted = state.Screen, state.Frozen, a.clock.doubted
	s.Policy, s.InEffect, s.PolicyReason = t.setting, PolicyIdle, "nobody watches"
	if v := t.chosen.now; a.active {
		s.InEffect, s.PolicyReason, s.AfterKey = v.policy, v.reason, v.after
	}
	s.PLIsIgnored, s.PLIAnswerTime = t.answers.ignored, t.answers.took
	t.layerStats(&s, s.State != StateEnded && s.State != StateStalled, now) // nothing arrives then, whatever the last second was like
	s.Subscriptions, s.Waiting = len(t.subs), len(t.waiters)
	return s
}
