package realtime

import (
	"time"

	"sightline/switcher"
)

// XAI is the voice API of xAI (Grok): event names of OpenAI, conversation.created first, item.created beside item.added. It
// answers and interrupts by itself, knows no truncate, and takes no images.
func XAI() Profile {
	return Profile{
		Provider: "xai", BaseURL: "https://api.x.ai/v1", KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Rate: 24000, Seeds: []switcher.SeedMode{switcher.SeedInstructions, switcher.SeedItems},
		MaxInstructions: 16000, // one reseller names 16,384 characters
		Delete:          true, ServerVAD: true, Answers: AnswersAlways, ClientIDs: true, Acks: true,
		Resumes: true, MaxLife: time.Hour,
	}
}
