package dialect

import "encoding/json"

// betaSession is where the beta had the fields that GA has elsewhere.
type betaSession struct {
	Modalities      []string           `json:"modalities"`
	InputFormat     json.RawMessage    `json:"input_audio_format"`
	OutputFormat    json.RawMessage    `json:"output_audio_format"`
	Voice           json.RawMessage    `json:"voice"`
	Transcription   Opt[Transcription] `json:"input_audio_transcription"`
	TurnDetection   Opt[TurnDetection] `json:"turn_detection"`
	MaxOutputTokens json.RawMessage    `json:"max_response_output_tokens"`
}

// UnmarshalJSON reads a session of GA or of the beta; GA fields win.
func (s *Session) UnmarshalJSON(data []byte) error {
	type plain Session
	err := unmarshal(data, (*plain)(s))
	if lax(err) != nil {
		return err
	}
	var b betaSession
	if lax(json.Unmarshal(data, &b)) != nil {
		return err
	}
	if s.OutputModalities == nil && len(b.Modalities) > 0 {
		// The beta's ["text","audio"] is GA's ["audio"]: sound with its transcript.
		s.OutputModalities = []string{"text"}
		for _, m := range b.Modalities {
			if m == "audio" {
				s.OutputModalities = []string{"audio"}
			}
		}
	}
	if s.MaxOutputTokens == nil {
		s.MaxOutputTokens = b.MaxOutputTokens
	}
	in := AudioInput{Format: betaFormat(b.InputFormat), Transcription: b.Transcription, TurnDetection: b.TurnDetection}
	out := AudioOutput{Format: betaFormat(b.OutputFormat), Voice: b.Voice}
	if in.Format == nil && !in.Transcription.Set && !in.TurnDetection.Set && out.Format == nil && out.Voice == nil {
		return err
	}
	ga := Session{Audio: s.Audio}
	s.Audio = &Audio{Input: &in, Output: &out}
	s.Merge(ga)
	return err
}

// betaFormat reads "pcm16", "g711_ulaw" and "g711_alaw"; nil for anything else.
func betaFormat(data json.RawMessage) *Format {
	switch string(data) {
	case `"pcm16"`:
		return &Format{Type: "audio/pcm", Rate: 24000}
	case `"g711_ulaw"`:
		return &Format{Type: "audio/pcmu"}
	case `"g711_alaw"`:
		return &Format{Type: "audio/pcma"}
	}
	return nil
}
