package frames

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pion/rtp"
)

// Codec names a video codec as in SDP.
type Codec string

// CodecVP8 is the one codec so far.
const CodecVP8 Codec = "VP8"

// ErrNoImage is wrapped by what Track.Image returns when no image is fresh enough in time.
var ErrNoImage = errors.New("no image fresh enough")

// TrackConfig is what a Track is made from. Zero fields mean the documented default.
type TrackConfig struct {
	Source          string // name of the video input; goes into every Image
	Codec           Codec  // "" = VP8
	RequestKeyFrame func() // sends one PLI; called from Run's goroutines, spaced 500 ms to 5 s; nil = the sender takes none
	Budget          *Budget
	Log             *slog.Logger
	StallAfter      time.Duration     // no packet for so long = stalled; default 2 s
	OnState         func(SourceState) // called on change from one of Run's goroutines, never concurrently; must not block
}

// Track turns the packets of one video track into images.
type Track struct{ cfg TrackConfig }

// Request asks for one image now.
type Request struct {
	Options EncodeOptions
	MaxAge  time.Duration // an image captured this long ago will do; 0 = it must arrive after the request
	Wait    time.Duration // how long to wait for one; 0 = take what is there
}

// NewTrack checks the config. Nothing starts before Run.
func NewTrack(cfg TrackConfig) (*Track, error) {
	if cfg.Codec != CodecVP8 && cfg.Codec != "" {
		return nil, fmt.Errorf("codec %q: must be %q", cfg.Codec, CodecVP8)
	}
	return &Track{cfg: cfg}, nil
}

// Push takes one packet that arrived at the given time. It never blocks; p belongs to the track from now on.
func (t *Track) Push(p *rtp.Packet, at time.Time) {}

// Run decodes and encodes until ctx ends; it returns with every goroutine gone and all C memory freed.
func (t *Track) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Subscribe adds a watcher. Validate the Want first: a rate out of range is moved into it, bad options make every encoding fail.
func (t *Track) Subscribe(w Want) *Subscription {
	return &Subscription{track: t, box: NewLatest[*Image](), want: w}
}

// Image gives a cached image or waits for a fresh one.
func (t *Track) Image(ctx context.Context, r Request) (*Image, error) { return nil, ErrNoImage }

// Stats is a snapshot.
func (t *Track) Stats() TrackStats { return TrackStats{} }
