package gemini_test

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"slices"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/gemini"
	"sightline/switcher/gemini/faketest"
)

func picture() []byte {
	var b bytes.Buffer
	_ = jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8)), nil)
	return b.Bytes()
}

// watching sees a new image of each source whenever it looks.
func watching(sources ...string) switcher.Start {
	return switcher.Start{Look: func(context.Context, time.Duration) (sights []switcher.Sight) {
		for _, s := range sources {
			sights = append(sights, switcher.Sight{Source: s, State: "live", JPEG: picture(), CapturedAt: time.Now()})
		}
		return sights
	}}
}

func frames(r *rig) (n int) {
	for _, k := range r.kinds() {
		if k == "video" {
			n++
		}
	}
	return n
}

// TestFramesWhileTheCallerSpeaks: one a second, in their turn, whatever the number of sources; the fake counts.
func TestFramesWhileTheCallerSpeaks(t *testing.T) {
	for name, f := range flavours() {
		for _, sources := range [][]string{{"camera"}, {"camera", "screen"}} {
			t.Run(name, func(t *testing.T) {
				with(t, setup{script: faketest.Script{History: f.history}, cfg: gemini.Config{Profile: f.profile, TheirTurns: f.theirs}, start: watching(sources...)}, func(r *rig) {
					r.floor(false)
					r.idle(3 * time.Second)
					if n := frames(r); n != 0 {
						t.Errorf("%d frames before the caller speaks", n)
					}
					r.speak(4 * time.Second)
					r.done(1)
					n := frames(r)
					if n < 4 || n > 6 || uint64(n) != r.leg.Counters().Frames {
						t.Errorf("%d frames in 4 s", n)
					}
					r.idle(3 * time.Second)
					if frames(r) != n {
						t.Error("frames after the caller spoke")
					}
					if r.p.Setup().ContextWindowCompression == nil {
						t.Error("video without compression ends after two minutes")
					}
				})
			})
		}
	}
}

func TestATypedQuestionIsShownWhatThereIsToSee(t *testing.T) {
	for name, f := range flavours() {
		t.Run(name, func(t *testing.T) {
			with(t, setup{script: faketest.Script{History: f.history}, cfg: gemini.Config{Profile: f.profile, TheirTurns: f.theirs}, start: watching("camera")}, func(r *rig) {
				r.floor(false)
				r.put(switcher.ItemIn{Item: user("q", "What is this?"), Respond: true})
				r.done(1)
				if said := faketest.Say(r.p.Conversation()); !strings.Contains(said, "image") || !strings.Contains(said, "What is this?") {
					if f.theirs && strings.Count(strings.Join(r.kinds(), " "), "video") == 1 {
						return // it came before the turn
					}
					t.Errorf("%s\n%v", said, r.kinds())
				}
			})
		})
	}
}

// TestAStoredImageOfTheQuestion goes with it, and not the live one.
func TestAStoredImageOfTheQuestion(t *testing.T) {
	sha := strings.Repeat("ab", 32)
	for name, f := range flavours() {
		t.Run(name, func(t *testing.T) {
			start := watching("camera")
			start.Image = func(context.Context, string) (string, []byte, error) { return "image/jpeg", picture(), nil }
			with(t, setup{script: faketest.Script{History: f.history}, cfg: gemini.Config{Profile: f.profile, TheirTurns: f.theirs}, start: start}, func(r *rig) {
				r.floor(false)
				m := &chatctx.Message{ID: "q", Role: chatctx.RoleUser, Content: chatctx.Content{chatctx.Text{Text: "What was this?"}, chatctx.ImageContent{URL: chatctx.BlobPrefix + sha, Width: 8, Height: 8}}}
				r.put(switcher.ItemIn{Item: m, Respond: true})
				r.done(1)
				if r.noticed(gemini.NoticeImageDropped) != 0 {
					t.Errorf("%v", all[switcher.NoticeOut](r))
				}
				if said := faketest.Say(r.p.Conversation()); !strings.Contains(said, "What was this?") || f.history != faketest.AnyTime && frames(r) == 0 || f.history == faketest.AnyTime && !strings.Contains(said, "image") {
					t.Errorf("%s\n%v", said, r.kinds())
				}
			})
		})
	}
}

func TestLargeAndOldImagesStayAway(t *testing.T) {
	start := switcher.Start{Look: func(context.Context, time.Duration) []switcher.Sight {
		return []switcher.Sight{
			{Source: "huge", State: "live", JPEG: make([]byte, 1<<20), CapturedAt: time.Now()},
			{Source: "frozen", State: "stalled", JPEG: picture(), CapturedAt: time.Unix(1, 0)},
			{Source: "none", State: "black"},
		}
	}}
	with(t, setup{start: start}, func(r *rig) {
		r.floor(false)
		r.speak(3 * time.Second)
		r.done(1)
		if n := frames(r); n != 1 || r.noticed(gemini.NoticeImageDropped) == 0 {
			t.Errorf("%d frames, %d notices", n, r.noticed(gemini.NoticeImageDropped))
		}
		if !slices.Contains(r.kinds(), "video") {
			t.Error("no frame")
		}
	})
}
