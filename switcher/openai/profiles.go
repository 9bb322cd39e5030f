package openai

import "fmt"

// Profile says how a server differs from the interface it speaks. The zero value suits most: it asks for little and takes much.
type Profile struct {
	Developer     bool     // instructions go as developer messages, not as system messages
	SystemInside  bool     // system messages may stand between others; else notes of ours are marked user messages
	MaxCompletion bool     // the bound of an answer is max_completion_tokens, not max_tokens
	NoUsage       bool     // stream_options is refused
	NoTools       bool     // tools are refused
	NoImages      bool     // images are refused
	SpeechFormats []string // of audio/speech, best first; empty = wav, pcm: only a WAV says its rate
	SpeechRate    int      // Hz of pcm, 0 = 24000
}

// ProfileOf is the profile of a known server: "openai", "llamacpp", "vllm", "ollama", "localai", "" for any other. What a server
// refuses is found out and remembered in any case; a profile saves the first refusal.
func ProfileOf(name string) (Profile, error) {
	switch name {
	case "", "llamacpp", "vllm", "localai":
		return Profile{}, nil
	case "openai":
		return Profile{SystemInside: true, MaxCompletion: true, SpeechFormats: []string{"pcm", "wav"}}, nil
	case "ollama":
		return Profile{NoUsage: true}, nil
	}
	return Profile{}, fmt.Errorf("profile %q: known are openai, llamacpp, vllm, ollama, localai", name)
}
