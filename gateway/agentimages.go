package gateway

import (
	"slices"
	"sync"
	"time"

	"sightline/frames"
	"sightline/gateway/wire"
)

// imageFeeds is what one agent follows: one subscription per source that its wishes name. Only the agent's writer uses it.
type imageFeeds struct {
	agent    *agent
	wishes   []wire.WantImage
	feeds    map[*source]*imageFeed
	speaking bool // the caller does
}

// imageFeed is one subscription to one source's track, with a goroutine that wakes the writer.
type imageFeed struct {
	wish   wire.WantImage
	screen bool // its defaults are those of a screen
	sub    *frames.Subscription
	track  *frames.Track
	stop   chan struct{}
	done   sync.WaitGroup
}

func newImageFeeds(a *agent) *imageFeeds {
	return &imageFeeds{agent: a, feeds: map[*source]*imageFeed{}}
}

// follow takes new wishes, checked before.
func (f *imageFeeds) follow(wishes []wire.WantImage) {
	f.wishes = wishes
	f.refresh()
}

// refresh makes the subscriptions what the wishes and the sources ask for; those that fit already go on undisturbed.
func (f *imageFeeds) refresh() {
	for _, src := range f.agent.session.allSources() {
		wish, wanted := f.wishFor(src.name)
		track := src.current()
		feed := f.feeds[src]
		if feed != nil && (!wanted || feed.track != track || !sameWish(feed.wish, wish) || feed.screen != src.screen()) {
			feed.close()
			delete(f.feeds, src)
			feed = nil
		}
		if feed == nil && wanted && track != nil {
			f.feeds[src] = f.start(wish, src.screen(), track)
		}
	}
}

// wishFor finds the wish for a source; its own name goes before "*".
func (f *imageFeeds) wishFor(name string) (wire.WantImage, bool) {
	for _, want := range []string{name, "*"} {
		if i := slices.IndexFunc(f.wishes, func(w wire.WantImage) bool { return w.Source == want }); i >= 0 {
			return f.wishes[i], true
		}
	}
	return wire.WantImage{}, false
}

func sameWish(a, b wire.WantImage) bool {
	x, _ := encodeOptions(a.Encode, false)
	y, _ := encodeOptions(b.Encode, false)
	return a.FPS == b.FPS && a.SpeakingFPS == b.SpeakingFPS && a.OnChange == b.OnChange && a.MaxGapMS == b.MaxGapMS && x.Equal(y)
}

// hear lets the rates follow the caller's speech.
func (f *imageFeeds) hear(speaking bool) {
	if f.speaking == speaking {
		return
	}
	f.speaking = speaking
	for _, feed := range f.feeds {
		feed.sub.Speech(speaking, time.Now())
	}
}

func (f *imageFeeds) start(wish wire.WantImage, screen bool, track *frames.Track) *imageFeed {
	options, _ := encodeOptions(wish.Encode, screen) // checked when the wish came in
	feed := &imageFeed{
		wish: wish, screen: screen, track: track, stop: make(chan struct{}),
		sub: track.Subscribe(frames.Want{
			FPS: wish.FPS, SpeakingFPS: wish.SpeakingFPS, Options: options,
			OnChange: wish.OnChange, MaxGap: time.Duration(wish.MaxGapMS) * time.Millisecond,
		}),
	}
	feed.sub.Speech(f.speaking, time.Now())
	f.agent.session.wantsChanged()
	feed.done.Go(func() {
		for {
			select {
			case <-feed.sub.C():
				f.agent.poke()
			case <-feed.stop:
				return
			}
		}
	})
	return feed
}

func (feed *imageFeed) close() {
	close(feed.stop)
	feed.sub.Close()
	feed.done.Wait()
}

func (f *imageFeeds) close() {
	for _, feed := range f.feeds {
		feed.close()
	}
	clear(f.feeds)
}

// writeNewest sends the newest image of each source that has one.
func (f *imageFeeds) writeNewest() error {
	for _, feed := range f.feeds {
		img, superseded, ok := feed.sub.Take()
		if !ok {
			continue
		}
		if err := f.agent.writeImage(img, "", passedOver{superseded, feed.sub.Unchanged()}); err != nil {
			return writeProblem(err)
		}
	}
	return nil
}
