// Package live is the messages of Gemini's Live API (BidiGenerateContent) for both ends of a socket, strict in what it writes and lax in what it reads; it opens no socket.
package live

import (
	"encoding/base64"
	"encoding/json"

	"sightline/context/project"
)

// Rates of PCM16 mono in Hz: what the provider takes, and what it gives unless its mimeType says otherwise.
const (
	InRate  = 16000
	OutRate = 24000
)

// Client is a message of the client; it has exactly one of its fields.
type Client struct {
	Setup         *Setup         `json:"setup,omitempty"`
	ClientContent *ClientContent `json:"clientContent,omitempty"`
	RealtimeInput *RealtimeInput `json:"realtimeInput,omitempty"`
	ToolResponse  *ToolResponse  `json:"toolResponse,omitempty"`
}

// Setup comes first, and once.
type Setup struct {
	Model                    string                 `json:"model"`
	GenerationConfig         GenerationConfig       `json:"generationConfig"`
	SystemInstruction        *project.GeminiContent `json:"systemInstruction,omitempty"`
	Tools                    []Tool                 `json:"tools,omitempty"`
	RealtimeInputConfig      *RealtimeInputConfig   `json:"realtimeInputConfig,omitempty"`
	ContextWindowCompression *Compression           `json:"contextWindowCompression,omitempty"`
	HistoryConfig            *HistoryConfig         `json:"historyConfig,omitempty"`
	InputAudioTranscription  *Empty                 `json:"inputAudioTranscription,omitempty"`
	OutputAudioTranscription *Empty                 `json:"outputAudioTranscription,omitempty"`
}

// Empty is an object that means something by being there.
type Empty struct{}

// GenerationConfig says how to answer: ResponseModalities is ["AUDIO"].
type GenerationConfig struct {
	ResponseModalities []string      `json:"responseModalities"`
	SpeechConfig       *SpeechConfig `json:"speechConfig,omitempty"`
}

// SpeechConfig names the voice and, as a BCP-47 code, the language.
type SpeechConfig struct {
	VoiceConfig  *VoiceConfig `json:"voiceConfig,omitempty"`
	LanguageCode string       `json:"languageCode,omitempty"`
}

// VoiceConfig names a voice of the provider.
type VoiceConfig struct {
	PrebuiltVoiceConfig PrebuiltVoice `json:"prebuiltVoiceConfig"`
}

// PrebuiltVoice names a voice of the provider.
type PrebuiltVoice struct {
	VoiceName string `json:"voiceName"`
}

// Tool holds the functions that the model may call.
type Tool struct {
	FunctionDeclarations []Function `json:"functionDeclarations"`
}

// Function is one of them; ParametersJSONSchema is the JSON Schema as its author wrote it.
type Function struct {
	Name                 string          `json:"name"`
	Description          string          `json:"description,omitempty"`
	ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

// RealtimeInputConfig says who finds the caller's turns, and what they do.
type RealtimeInputConfig struct {
	AutomaticActivityDetection *ActivityDetection `json:"automaticActivityDetection,omitempty"`
	ActivityHandling           string             `json:"activityHandling,omitempty"`
}

// ActivityDetection is the provider's own.
type ActivityDetection struct {
	Disabled          bool `json:"disabled,omitempty"`
	SilenceDurationMs int  `json:"silenceDurationMs,omitempty"`
}

// Compression lets the provider forget the oldest of the conversation instead of ending it.
type Compression struct {
	SlidingWindow Empty `json:"slidingWindow"`
}

// HistoryConfig announces that the first ClientContent is what was said before.
type HistoryConfig struct {
	InitialHistoryInClientContent bool `json:"initialHistoryInClientContent"`
}

// ClientContent adds turns; TurnComplete asks for an answer, or ends the initial history. It interrupts an answer.
type ClientContent struct {
	Turns        []project.GeminiContent `json:"turns,omitempty"`
	TurnComplete bool                    `json:"turnComplete"`
}

// RealtimeInput is one of its fields.
type RealtimeInput struct {
	Audio          *Blob  `json:"audio,omitempty"`
	Video          *Blob  `json:"video,omitempty"`
	Text           string `json:"text,omitempty"`
	ActivityStart  *Empty `json:"activityStart,omitempty"`
	ActivityEnd    *Empty `json:"activityEnd,omitempty"`
	AudioStreamEnd bool   `json:"audioStreamEnd,omitempty"`
}

// Blob is media; Data is base64.
type Blob struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"`
}

// ToolResponse answers calls by their ids.
type ToolResponse struct {
	FunctionResponses []project.GeminiFunctionResponse `json:"functionResponses"`
}

// Encode writes a message; an error is a function's schema that is no JSON.
func Encode(c Client) ([]byte, error) { return json.Marshal(c) }

// DecodeClient reads a message of the client, for servers.
func DecodeClient(data []byte) (Client, error) {
	var c Client
	err := json.Unmarshal(data, &c)
	return c, err
}

// AppendAudio writes a realtimeInput of PCM16 behind dst. scratch is reused for the bytes; both are returned.
func AppendAudio(dst, scratch []byte, pcm []int16) (message, bytes []byte) {
	scratch = scratch[:0]
	for _, s := range pcm {
		scratch = append(scratch, byte(s), byte(uint16(s)>>8))
	}
	dst = append(dst, `{"realtimeInput":{"audio":{"mimeType":"audio/pcm;rate=16000","data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, scratch)
	return append(dst, `"}}}`...), scratch
}
