package realtime

import (
	"time"

	"sightline/switcher"
)

// Profile is all that differs between providers of the dialect; each has a file of its own, and nothing else asks who it is.
type Profile struct {
	Provider string // for people
	BaseURL  string // /realtime is added; "": Config.URL has to name one
	// KeyHeader carries KeyPrefix and the key; "": no key is sent.
	KeyHeader, KeyPrefix string

	Rate            int                 // Hz of PCM16 both ways
	Seeds           []switcher.SeedMode // best first
	MaxInstructions int                 // bytes

	Images     int // most of one turn; 0: it takes none
	ImageBytes int // base64 characters of all of one turn
	KeepImages int // live images that stay in its conversation; older ones are deleted

	Truncate  bool    // cuts its own message to what was heard
	Delete    bool    // takes items out
	ServerVAD bool    // finds the caller's turns
	Answers   Answers // … and answers them by itself
	// ClientIDs: it keeps the ids that we give to items. Acks: it answers every item with item.added or item.created.
	ClientIDs, Acks bool
	// Transcribes: it takes audio.input.transcription; Transcription is the model named there unless Config does.
	Transcribes   bool
	Transcription string

	Resumes bool          // it could take a lost connection up again; not used: a fresh leg is seeded from our own context
	MaxLife time.Duration // of one session, 0: no limit is known
}

// Answers says whether a provider answers the turns that it finds.
type Answers string

// The ways.
const (
	AnswersTold   Answers = "told"   // as create_response says: off until the leg has the floor
	AnswersAlways Answers = "always" // whatever anybody says: it hears nothing until the leg has the floor
	AnswersNever  Answers = "never"  // we ask
)
