package realtime

import "sightline/switcher"

// Local is a server of the whole dialect on one's own machine: this product's GET /v1/realtime?model=local.
func Local() Profile {
	p := OpenAI()
	p.Provider, p.BaseURL, p.Transcription = "local", "", ""
	p.MaxLife = 0
	return p
}

// LocalAI is LocalAI, itself a chain of recogniser, model and voice.
func LocalAI() Profile {
	return Profile{
		Provider: "localai", KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Rate: 24000, Seeds: []switcher.SeedMode{switcher.SeedInstructions}, MaxInstructions: 16 << 10,
		ServerVAD: true, Answers: AnswersAlways, Transcribes: true,
	}
}

// VLLM is vLLM (omni models) and sglang-omni. Its server answers truncate without doing it, so it counts as not having it; the
// turns are found by us.
func VLLM() Profile {
	return Profile{
		Provider: "vllm", KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Rate: 24000, Seeds: []switcher.SeedMode{switcher.SeedInstructions}, MaxInstructions: 16 << 10,
		Answers: AnswersNever,
	}
}
