package realtime

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
)

const (
	lookTimeout = time.Second // to look, or to fetch a stored image
	lookAge     = time.Second // of a live image
)

// NoticeImageDropped is the code of the notice that an image was not given to the model; the message says which and why.
const NoticeImageDropped = "image_dropped"

// eyes are what the model sees of the caller's video.
type eyes struct {
	looking bool                 // answers wait for it
	last    map[string]time.Time // by source: when the newest image that was given was taken
	items   []string             // of images in the provider's conversation, oldest first
}

// newTurn begins a turn of the caller: what they show at its beginning belongs to it.
func (r *run) newTurn() {
	r.response.texts, r.response.fails = 0, 0
	clear(r.tools.same)
	if r.p.Images == 0 || r.start.Look == nil || r.eyes.looking {
		return
	}
	r.eyes.looking = true
	r.session.Look(lookTimeout, func(ctx context.Context) []switcher.Sight { return r.start.Look(ctx, lookAge) })
}

// seen puts the images of a look in, the latest of each source, as far as they fit.
func (r *run) seen(sights []switcher.Sight, now time.Time) {
	r.eyes.looking = false
	item := dialect.Item{Type: dialect.ItemMessage, Role: "user"}
	left := r.p.ImageBytes
	for _, s := range sights {
		if len(s.JPEG) == 0 || !s.CapturedAt.After(r.eyes.last[s.Source]) {
			continue // nothing to see, or given already
		}
		size := base64.StdEncoding.EncodedLen(len(s.JPEG))
		switch {
		case len(item.Content) >= 2*r.p.Images:
			r.notice(NoticeImageDropped, fmt.Sprintf("%s: more than %d images in one turn", s.Source, r.p.Images))
			continue
		case size > left:
			r.notice(NoticeImageDropped, fmt.Sprintf("%s: %d bytes as base64, %d are left for this turn", s.Source, size, left))
			continue
		}
		left -= size
		r.eyes.last[s.Source] = s.CapturedAt
		item.Content = append(item.Content,
			dialect.Part{Type: "input_text", Text: caption(s, now)},
			dialect.Part{Type: "input_image", ImageURL: "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(s.JPEG), Detail: "low"})
	}
	if len(item.Content) == 0 {
		return
	}
	event := r.id("image")
	if r.p.ClientIDs {
		item.ID = event
		r.eyes.items = append(r.eyes.items, event)
	}
	r.send(&dialect.ItemCreate{EventID: event, Item: item})
	if len(r.eyes.items) > r.p.KeepImages && r.p.Delete {
		r.send(&dialect.ItemDelete{EventID: r.id("cut"), ItemID: r.eyes.items[0]})
		r.eyes.items = r.eyes.items[1:]
	}
}

// caption says what an image is; it stands among the caller's words, so it is marked as ours.
func caption(s switcher.Sight, now time.Time) string {
	text := "image of the video source " + s.Source
	if !s.CapturedAt.IsZero() {
		text += fmt.Sprintf(", taken %.1f s ago", max(now.Sub(s.CapturedAt).Seconds(), 0))
	}
	if s.State != "" && s.State != "live" {
		text += ", which is " + s.State + " now"
	}
	return marked(text)
}

// marked is a line of ours where others' words stand too; theirs cannot have these two.
func marked(line string) string {
	return "⟦" + strings.NewReplacer("⟦", "[", "⟧", "]").Replace(line) + "⟧"
}
