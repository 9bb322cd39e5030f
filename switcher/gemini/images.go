package gemini

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/gemini/live"
)

const lookAge = time.Second // of a live image

// NoticeImageDropped is the code of the notice that an image was not given to the model; the message says which and why.
const NoticeImageDropped = "image_dropped"

// eyes are what the model sees: one frame a second at most, whatever it is of.
type eyes struct {
	looking bool                 // what is asked waits for it
	looked  time.Time            // the newest look began
	sent    time.Time            // the newest frame
	frame   string               // that waits, base64, "" none
	stored  bool                 // it is of the conversation, not of the live video
	last    map[string]time.Time // by source: when the newest frame was captured
	turn    map[string]time.Time // … and when it was given
}

// sees: there is video, and the model takes it.
func (r *run) sees() bool { return r.p.Video && r.start.Look != nil }

func (r *run) lookAround(now time.Time) {
	if !r.sees() || r.eyes.looking || !r.floor {
		return
	}
	r.eyes.looking, r.eyes.looked = true, now
	r.session.Look(lookTimeout, func(ctx context.Context) []switcher.Sight { return r.start.Look(ctx, lookAge) })
}

// seen takes the frame of the source that had its turn the longest ago: a stream of frames says of none whose it is.
func (r *run) seen(sights []switcher.Sight) {
	e := &r.eyes
	e.looking = false
	var best *switcher.Sight
	for i, s := range sights {
		switch {
		case len(s.JPEG) == 0 || !s.CapturedAt.After(e.last[s.Source]): // nothing to see, or given already
		case base64.StdEncoding.EncodedLen(len(s.JPEG)) > r.p.FrameBytes:
			r.notice(NoticeImageDropped, fmt.Sprintf("%s: %d bytes as base64, %d are allowed", s.Source, base64.StdEncoding.EncodedLen(len(s.JPEG)), r.p.FrameBytes))
		case best == nil || e.turn[s.Source].Before(e.turn[best.Source]):
			best = &sights[i]
		}
	}
	if best == nil {
		return
	}
	if e.frame != "" && e.stored {
		return // what is asked about goes first
	}
	e.last[best.Source], e.turn[best.Source] = best.CapturedAt, e.looked
	e.frame = base64.StdEncoding.EncodeToString(best.JPEG) // supersedes one that waits
}

// showStored gives an image of the conversation as a frame.
func (r *run) showStored(b *project.GeminiBlob) {
	e := &r.eyes
	if b.MIMEType != "image/jpeg" || len(b.Data) > r.p.FrameBytes || e.frame != "" && e.stored {
		r.notice(NoticeImageDropped, fmt.Sprintf("a %s of %d bytes as base64: one JPEG a second of at most %d goes to the model now", b.MIMEType, len(b.Data), r.p.FrameBytes))
		return
	}
	e.frame, e.stored = b.Data, true
}

// frameDue: a frame waits, and the last one was long enough ago.
func (r *run) frameDue(now time.Time) bool {
	return r.eyes.frame != "" && now.Sub(r.eyes.sent) >= r.p.FramePause
}

func (r *run) sendFrame(now time.Time) {
	r.realtime(live.RealtimeInput{Video: &live.Blob{MIMEType: "image/jpeg", Data: r.takeFrame(now)}})
}

func (r *run) takeFrame(now time.Time) (data string) {
	e := &r.eyes
	data, e.frame, e.stored, e.sent = e.frame, "", false, now
	r.counts.frames.Add(1)
	return data
}
