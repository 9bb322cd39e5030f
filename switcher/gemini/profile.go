package gemini

import (
	"time"

	"sightline/switcher"
)

// Profile is all that differs between services and generations of models; nothing else asks which it is.
type Profile struct {
	Provider string // for people
	BaseURL  string // "": Config.URL has to name one
	Path     string // added to it
	// KeyHeader carries KeyPrefix and the key; KeyQuery is a parameter that does instead. Both "": no key is sent.
	KeyHeader, KeyPrefix, KeyQuery string
	ModelPrefix                    string // of a model's name that has no "/"

	Seeds           []switcher.SeedMode // best first
	MaxInstructions int                 // bytes
	History         History
	Signature       string // of calls in the history, which newer models ask for

	Video       bool          // takes images, as frames of a video
	FramePause  time.Duration // between two of them
	FrameBytes  int           // of one, as base64
	Compression bool          // can forget the oldest instead of ending the session

	Resumes bool          // it could take a lost connection up again; not used: a fresh leg is seeded from our own context
	MaxLife time.Duration // of one connection, 0: no limit is known
}

// History says how a model takes turns that it is told of instead of hearing them.
type History string

// The ways.
const (
	HistoryAnyTime History = "any time" // before the talk and during it
	HistoryInitial History = "initial"  // announced in the setup, before the talk; later texts are said like the caller's
	HistoryNone    History = "none"     // not at all; texts are said like the caller's
)

// Gemini31 is the Live API at Google's developer endpoint with models from 3.1 on.
func Gemini31() Profile {
	return Profile{
		Provider: "gemini", BaseURL: "https://generativelanguage.googleapis.com", Path: "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent",
		KeyHeader: "x-goog-api-key", ModelPrefix: "models/",
		Seeds: []switcher.SeedMode{switcher.SeedHybrid, switcher.SeedInstructions, switcher.SeedItems}, MaxInstructions: 48 << 10,
		History: HistoryInitial, Signature: "skip_thought_signature_validator",
		Video: true, FramePause: time.Second, FrameBytes: 512 << 10, Compression: true,
		Resumes: true, MaxLife: 10 * time.Minute,
	}
}

// Gemini25 is the same endpoint with models of 2.5.
func Gemini25() Profile {
	p := Gemini31()
	p.History, p.Signature = HistoryAnyTime, ""
	return p
}

// Vertex is p on Vertex AI: a region's host is to be given, a bearer token is the key, and the model's whole resource name its name.
func Vertex(p Profile) Profile {
	p.Provider, p.BaseURL, p.Path = "vertex", "", "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent"
	p.KeyHeader, p.KeyPrefix, p.ModelPrefix = "Authorization", "Bearer ", ""
	return p
}
