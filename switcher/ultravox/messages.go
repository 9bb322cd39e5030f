package ultravox

import "encoding/json"

// newCall is the body of POST /api/calls.
type newCall struct {
	SystemPrompt         string         `json:"systemPrompt,omitempty"`
	Model                string         `json:"model"`
	Voice                string         `json:"voice,omitempty"`
	LanguageHint         string         `json:"languageHint,omitempty"`
	MaxDuration          string         `json:"maxDuration"` // "3600s"
	JoinTimeout          string         `json:"joinTimeout"`
	FirstSpeakerSettings firstSpeaker   `json:"firstSpeakerSettings"`
	Medium               medium         `json:"medium"`
	SelectedTools        []selectedTool `json:"selectedTools,omitempty"`
}

// firstSpeaker is the caller: a leg says nothing of its own accord.
type firstSpeaker struct {
	User struct{} `json:"user"`
}

type medium struct {
	ServerWebSocket serverWebSocket `json:"serverWebSocket"`
}

type serverWebSocket struct {
	InputSampleRate    int   `json:"inputSampleRate"`
	OutputSampleRate   int   `json:"outputSampleRate"`
	ClientBufferSizeMs int64 `json:"clientBufferSizeMs"`
}

type selectedTool struct {
	TemporaryTool temporaryTool `json:"temporaryTool"`
}

// temporaryTool is one that the client runs; its parameters are the properties of the tool's JSON Schema, one by one.
type temporaryTool struct {
	ModelToolName     string      `json:"modelToolName"`
	Description       string      `json:"description"`
	DynamicParameters []parameter `json:"dynamicParameters,omitempty"`
	Timeout           string      `json:"timeout"`
	Client            struct{}    `json:"client"`
}

type parameter struct {
	Name     string          `json:"name"`
	Location string          `json:"location"`
	Schema   json.RawMessage `json:"schema"`
	Required bool            `json:"required"`
}

// made is the answer; joinUrl lets anybody in who knows it, once.
type made struct {
	CallID  string `json:"callId"`
	JoinURL string `json:"joinUrl"`
}

// Types of messages; sound goes as binary ones.
const (
	typeText       = "user_text_message"
	typeToolResult = "client_tool_result"

	typeStarted    = "call_started"
	typeState      = "state"
	typeTranscript = "transcript"
	typeInvocation = "client_tool_invocation"
	typeClear      = "playback_clear_buffer"
	typePong       = "pong"
	typeDebug      = "debug"
)

// userText says something like the caller. Immediate interrupts what the model says; DeferResponse asks for no answer.
type userText struct {
	Type          string `json:"type"`
	Text          string `json:"text"`
	Urgency       string `json:"urgency,omitempty"` // immediate, soon, later
	DeferResponse bool   `json:"deferResponse,omitempty"`
}

type toolResult struct {
	Type         string `json:"type"`
	InvocationID string `json:"invocationId"`
	Result       string `json:"result,omitempty"`
	ResponseType string `json:"responseType,omitempty"`
	ErrorType    string `json:"errorType,omitempty"`
	ErrorMessage string `json:"errorMessage,omitempty"`
}

// server is any message of the provider.
type server struct {
	Type string `json:"type"`

	State string `json:"state"` // idle, listening, thinking, speaking

	Role    string  `json:"role"`   // of a transcript: user, agent
	Medium  string  `json:"medium"` // voice, text
	Text    *string `json:"text"`   // all so far
	Delta   *string `json:"delta"`  // or what is new
	Final   bool    `json:"final"`
	Ordinal int     `json:"ordinal"` // of the utterance in the call

	ToolName     string          `json:"toolName"`
	InvocationID string          `json:"invocationId"`
	Parameters   json.RawMessage `json:"parameters"`
}
