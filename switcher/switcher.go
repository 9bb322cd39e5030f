// Package switcher names what a pipeline leg is and what it is given; it will decide which leg has the floor, and knows neither HTTP nor pixels.
package switcher

import (
	"context"
	"time"

	chatctx "sightline/context"
)

// Kind is how a leg turns what was said into an answer.
type Kind string

// The two kinds: a chain of recogniser, model and voice, or one model that hears and speaks.
const (
	Cascade  Kind = "cascade"
	Realtime Kind = "realtime"
)

// State is where a leg stands in its life.
type State string

// The states, as the session's HTTP answer prints them.
const (
	Registered State = "registered" // known, not connected
	Preparing  State = "preparing"  // connecting and being seeded
	Ready      State = "ready"      // could take the floor
	Active     State = "active"     // has the floor
	Failed     State = "failed"
)

// LegInfo describes a leg to people and programs.
type LegInfo struct {
	Name     string `json:"name"`
	Kind     Kind   `json:"kind"`
	State    State  `json:"state"`
	Epoch    uint64 `json:"epoch"` // counts the commits of the session; output of an older epoch is nobody's
	Provider string `json:"provider"`
}

// Leg is one running pipeline. It is asked once per turn and answers with text; a leg that is asked no more stops when
// its context ends.
type Leg interface {
	// Info may be called at any time, from any goroutine.
	Info() LegInfo
	// Answer replies to the last user message of the turn; an empty answer says nothing. Errors are the leg's own: the
	// session stays as it was.
	Answer(ctx context.Context, turn Turn) (string, error)
}

// Turn is what a leg is given to answer: the conversation, whose last item is the user's, and what can be seen now.
type Turn struct {
	At    time.Time
	Items chatctx.Items
	Seen  []Sight
}

// Sight is a video source as a leg without eyes sees it: figures of its newest image.
type Sight struct {
	Source        string        // name of the video input: "camera", "screen"
	State         string        // live, black, stalled or ended
	Width, Height int           // pixels of the image, 0 when there is none
	Bytes         int           // of the JPEG
	Brightness    float64       // mean luma, 0 (black) to 255 (white)
	Age           time.Duration // since it was captured
}
