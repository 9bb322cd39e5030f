package realtime

import (
	"time"

	"sightline/switcher"
)

// OpenAI is the Realtime API of OpenAI (GA).
func OpenAI() Profile {
	return Profile{
		Provider: "openai", BaseURL: "https://api.openai.com/v1", KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Rate: 24000, Seeds: []switcher.SeedMode{switcher.SeedHybrid, switcher.SeedInstructions, switcher.SeedItems}, MaxInstructions: 48 << 10,
		// No ceiling for images is published; large ones have closed connections.
		Images: 4, ImageBytes: 512 << 10, KeepImages: 4,
		Truncate: true, Delete: true, ServerVAD: true, Answers: AnswersTold, ClientIDs: true, Acks: true,
		Transcribes: true, Transcription: "gpt-4o-mini-transcribe",
		MaxLife: 60 * time.Minute,
	}
}
