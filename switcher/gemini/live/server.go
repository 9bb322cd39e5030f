package live

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"sightline/context/project"
)

// Server is a message of the server; it may have several of its fields at once.
type Server struct {
	SetupComplete           *SetupComplete    `json:"setupComplete,omitempty"`
	ServerContent           *ServerContent    `json:"serverContent,omitempty"`
	ToolCall                *ToolCall         `json:"toolCall,omitempty"`
	ToolCallCancellation    *ToolCancellation `json:"toolCallCancellation,omitempty"`
	GoAway                  *GoAway           `json:"goAway,omitempty"`
	SessionResumptionUpdate *ResumptionUpdate `json:"sessionResumptionUpdate,omitempty"`
	UsageMetadata           *Usage            `json:"usageMetadata,omitempty"`
	VoiceActivity           *VoiceActivity    `json:"voiceActivity,omitempty"`
}

// SetupComplete answers Setup.
type SetupComplete struct {
	SessionID string `json:"sessionId,omitempty"`
}

// ServerContent is a piece of the model's turn, or of what was said.
type ServerContent struct {
	ModelTurn           *Content       `json:"modelTurn,omitempty"`
	InputTranscription  *Transcription `json:"inputTranscription,omitempty"`
	OutputTranscription *Transcription `json:"outputTranscription,omitempty"`
	GenerationComplete  bool           `json:"generationComplete,omitempty"`
	TurnComplete        bool           `json:"turnComplete,omitempty"`
	Interrupted         bool           `json:"interrupted,omitempty"`
	WaitingForInput     bool           `json:"waitingForInput,omitempty"`
	TurnCompleteReason  string         `json:"turnCompleteReason,omitempty"`
}

// Content is what the model made.
type Content struct {
	Role  string `json:"role,omitempty"`
	Parts []Part `json:"parts,omitempty"`
}

// Part is sound, text (a Thought is not for the caller), or a call, which some models tell of here as well as in ToolCall.
type Part struct {
	Text         string                      `json:"text,omitempty"`
	Thought      bool                        `json:"thought,omitempty"`
	InlineData   *Blob                       `json:"inlineData,omitempty"`
	FunctionCall *project.GeminiFunctionCall `json:"functionCall,omitempty"`
}

// Transcription goes on with what was said; it has no order among the pieces of ModelTurn.
type Transcription struct {
	Text     string `json:"text,omitempty"`
	Finished bool   `json:"finished,omitempty"`
}

// ToolCall asks for functions.
type ToolCall struct {
	FunctionCalls []project.GeminiFunctionCall `json:"functionCalls"`
}

// ToolCancellation takes calls back.
type ToolCancellation struct {
	IDs []string `json:"ids"`
}

// GoAway says when the connection will end; TimeLeft is like "59.5s".
type GoAway struct {
	TimeLeft string `json:"timeLeft,omitempty"`
}

// Left is TimeLeft, 0 where it is none.
func (g GoAway) Left() time.Duration {
	d, err := time.ParseDuration(g.TimeLeft)
	if err != nil || d < 0 {
		return 0
	}
	return d
}

// ResumptionUpdate gives a handle by which a lost connection could be taken up.
type ResumptionUpdate struct {
	NewHandle string `json:"newHandle,omitempty"`
	Resumable bool   `json:"resumable,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	TotalTokenCount     int              `json:"totalTokenCount,omitempty"`
	PromptTokensDetails []ModalityTokens `json:"promptTokensDetails,omitempty"`
}

// ModalityTokens are the tokens of text, sound, images.
type ModalityTokens struct {
	Modality   string `json:"modality"`
	TokenCount int    `json:"tokenCount"`
}

// VoiceActivity is what the provider's detector found; few sessions get it.
type VoiceActivity struct {
	Type string `json:"voiceActivityType,omitempty"`
}

// EncodeServer writes a message, for servers.
func EncodeServer(s Server) ([]byte, error) { return json.Marshal(s) }

// DecodeServer reads a message. Fields of a wrong type count as absent; known says whether there was anything that we know.
func DecodeServer(data []byte) (s Server, known bool, err error) {
	err = json.Unmarshal(data, &s)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		err = nil
	}
	return s, s != Server{}, err
}

// ErrAudio says that a piece of sound is not base64 of PCM16.
var ErrAudio = errors.New("audio must be base64 of PCM16 little endian samples")

// PCM reads sound: its rate in Hz stands in the mimeType, "audio/pcm;rate=24000".
func (b *Blob) PCM() (pcm []int16, rate int, err error) {
	kind, parameters, _ := strings.Cut(b.MIMEType, ";")
	if kind = strings.ToLower(strings.TrimSpace(kind)); kind != "audio/pcm" && kind != "audio/l16" && kind != "" {
		return nil, 0, ErrAudio
	}
	rate = OutRate
	for _, p := range strings.Split(parameters, ";") {
		if v, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(p)), "rate="); ok {
			if n, err := strconv.Atoi(v); err == nil && n >= 8000 && n <= 48000 {
				rate = n
			}
		}
	}
	raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(b.Data, "="))
	if err != nil || len(raw)%2 != 0 {
		return nil, 0, ErrAudio
	}
	pcm = make([]int16, len(raw)/2)
	for i := range pcm {
		pcm[i] = int16(uint16(raw[2*i]) | uint16(raw[2*i+1])<<8)
	}
	return pcm, rate, nil
}
