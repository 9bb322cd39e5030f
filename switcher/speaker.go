package switcher

import (
	"context"
	"time"
)

// Speaker is where the sound of a session's legs is played to the caller; its clock alone knows what was heard. It is made
// by the gateway; its methods may be called from any goroutine.
type Speaker interface {
	// Play queues sound of a turn behind what is queued. It waits while the queue is full, until ctx ends.
	Play(ctx context.Context, turn TurnID, rate int, pcm []int16) error
	// EndTurn says that no more sound of the turn comes: when it has been heard to its end, it is reported as done.
	EndTurn(turn TurnID)
	// Stop ends playback within one packet, with a short fade, forgets what is queued, and says what was heard of each turn
	// that was not done. Sound of these turns that comes later is dropped.
	Stop() []HeardTurn
	// Heard is the channel of what was heard: a turn's first packet, its progress at most ten times a second, and its end.
	// One goroutine reads it; progress is left out while it does not.
	Heard() <-chan HeardTurn
}

// TurnID names what a leg says: a turn of an epoch.
type TurnID struct {
	Epoch uint64
	Item  string
}

// HeardTurn is how much of a turn the caller has heard.
type HeardTurn struct {
	TurnID
	Played  time.Duration // of its sound
	Started time.Time     // when its first packet was sent; zero: nothing was
	Done    bool          // to its end
	Stopped bool          // by Stop
}

// ToolRun executes one tool call and gives what it answers; an error of the tool is an answer too. It is called once for a
// call id. It ends when ctx does.
type ToolRun func(ctx context.Context, call ToolCallOut) (output string, isError bool)
