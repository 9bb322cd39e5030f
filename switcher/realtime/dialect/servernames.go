package dialect

func (SessionCreated) EventType() string      { return "session.created" }                      // EventType implements Event.
func (SessionUpdated) EventType() string      { return "session.updated" }                      // EventType implements Event.
func (ConversationCreated) EventType() string { return "conversation.created" }                 // EventType implements Event.
func (Error) EventType() string               { return "error" }                                // EventType implements Event.
func (RateLimits) EventType() string          { return "rate_limits.updated" }                  // EventType implements Event.
func (InputAudioCommitted) EventType() string { return "input_audio_buffer.committed" }         // EventType implements Event.
func (InputAudioCleared) EventType() string   { return "input_audio_buffer.cleared" }           // EventType implements Event.
func (SpeechStarted) EventType() string       { return "input_audio_buffer.speech_started" }    // EventType implements Event.
func (SpeechStopped) EventType() string       { return "input_audio_buffer.speech_stopped" }    // EventType implements Event.
func (TimeoutTriggered) EventType() string    { return "input_audio_buffer.timeout_triggered" } // EventType implements Event.
func (ItemAdded) EventType() string           { return "conversation.item.added" }              // EventType implements Event.
func (ItemDone) EventType() string            { return "conversation.item.done" }               // EventType implements Event.
func (ItemCreated) EventType() string         { return "conversation.item.created" }            // EventType implements Event.
func (ItemRetrieved) EventType() string       { return "conversation.item.retrieved" }          // EventType implements Event.
func (ItemTruncated) EventType() string       { return "conversation.item.truncated" }          // EventType implements Event.
func (ItemDeleted) EventType() string         { return "conversation.item.deleted" }            // EventType implements Event.
func (TranscriptionDelta) EventType() string {
	return "conversation.item.input_audio_transcription.delta"
} // EventType implements Event.
func (TranscriptionCompleted) EventType() string {
	return "conversation.item.input_audio_transcription.completed"
} // EventType implements Event.
func (TranscriptionFailed) EventType() string {
	return "conversation.item.input_audio_transcription.failed"
}                                               // EventType implements Event.
func (ResponseCreated) EventType() string       { return "response.created" }                       // EventType implements Event.
func (ResponseDone) EventType() string          { return "response.done" }                          // EventType implements Event.
func (OutputItemAdded) EventType() string       { return "response.output_item.added" }             // EventType implements Event.
func (OutputItemDone) EventType() string        { return "response.output_item.done" }              // EventType implements Event.
func (ContentPartAdded) EventType() string      { return "response.content_part.added" }            // EventType implements Event.
func (ContentPartDone) EventType() string       { return "response.content_part.done" }             // EventType implements Event.
func (OutputTextDelta) EventType() string       { return "response.output_text.delta" }             // EventType implements Event.
func (OutputTextDone) EventType() string        { return "response.output_text.done" }              // EventType implements Event.
func (OutputAudioDelta) EventType() string      { return "response.output_audio.delta" }            // EventType implements Event.
func (OutputAudioDone) EventType() string       { return "response.output_audio.done" }             // EventType implements Event.
func (OutputTranscriptDelta) EventType() string { return "response.output_audio_transcript.delta" } // EventType implements Event.
func (OutputTranscriptDone) EventType() string  { return "response.output_audio_transcript.done" }  // EventType implements Event.
func (ArgumentsDelta) EventType() string        { return "response.function_call_arguments.delta" } // EventType implements Event.
func (ArgumentsDone) EventType() string         { return "response.function_call_arguments.done" }  // EventType implements Event.
func (OutputBufferStarted) EventType() string   { return "output_audio_buffer.started" }            // EventType implements Event.
func (OutputBufferStopped) EventType() string   { return "output_audio_buffer.stopped" }            // EventType implements Event.
func (OutputBufferCleared) EventType() string   { return "output_audio_buffer.cleared" }            // EventType implements Event.

func (SessionCreated) server()         {}
func (SessionUpdated) server()         {}
func (ConversationCreated) server()    {}
func (Error) server()                  {}
func (RateLimits) server()             {}
func (InputAudioCommitted) server()    {}
func (InputAudioCleared) server()      {}
func (SpeechStarted) server()          {}
func (SpeechStopped) server()          {}
func (TimeoutTriggered) server()       {}
func (ItemAdded) server()              {}
func (ItemDone) server()               {}
func (ItemCreated) server()            {}
func (ItemRetrieved) server()          {}
func (ItemTruncated) server()          {}
func (ItemDeleted) server()            {}
func (TranscriptionDelta) server()     {}
func (TranscriptionCompleted) server() {}
func (TranscriptionFailed) server()    {}
func (ResponseCreated) server()        {}
func (ResponseDone) server()           {}
func (OutputItemAdded) server()        {}
func (OutputItemDone) server()         {}
func (ContentPartAdded) server()       {}
func (ContentPartDone) server()        {}
func (OutputTextDelta) server()        {}
func (OutputTextDone) server()         {}
func (OutputAudioDelta) server()       {}
func (OutputAudioDone) server()        {}
func (OutputTranscriptDelta) server()  {}
func (OutputTranscriptDone) server()   {}
func (ArgumentsDelta) server()         {}
func (ArgumentsDone) server()          {}
func (OutputBufferStarted) server()    {}
func (OutputBufferStopped) server()    {}
func (OutputBufferCleared) server()    {}

// newServer gives a pointer to an empty event of a type, nil for one that is not known.
func newServer(typ string) ServerEvent {
	if make, ok := serverEvents[typ]; ok {
		return make()
	}
	return nil
}

var serverEvents = map[string]func() ServerEvent{
	"session.created":                                       func() ServerEvent { return new(SessionCreated) },
	"session.updated":                                       func() ServerEvent { return new(SessionUpdated) },
	"conversation.created":                                  func() ServerEvent { return new(ConversationCreated) },
	"error":                                                 func() ServerEvent { return new(Error) },
	"rate_limits.updated":                                   func() ServerEvent { return new(RateLimits) },
	"input_audio_buffer.committed":                          func() ServerEvent { return new(InputAudioCommitted) },
	"input_audio_buffer.cleared":                            func() ServerEvent { return new(InputAudioCleared) },
	"input_audio_buffer.speech_started":                     func() ServerEvent { return new(SpeechStarted) },
	"input_audio_buffer.speech_stopped":                     func() ServerEvent { return new(SpeechStopped) },
	"input_audio_buffer.timeout_triggered":                  func() ServerEvent { return new(TimeoutTriggered) },
	"conversation.item.added":                               func() ServerEvent { return new(ItemAdded) },
	"conversation.item.done":                                func() ServerEvent { return new(ItemDone) },
	"conversation.item.created":                             func() ServerEvent { return new(ItemCreated) },
	"conversation.item.retrieved":                           func() ServerEvent { return new(ItemRetrieved) },
	"conversation.item.truncated":                           func() ServerEvent { return new(ItemTruncated) },
	"conversation.item.deleted":                             func() ServerEvent { return new(ItemDeleted) },
	"conversation.item.input_audio_transcription.delta":     func() ServerEvent { return new(TranscriptionDelta) },
	"conversation.item.input_audio_transcription.completed": func() ServerEvent { return new(TranscriptionCompleted) },
	"conversation.item.input_audio_transcription.failed":    func() ServerEvent { return new(TranscriptionFailed) },
	"response.created":                                      func() ServerEvent { return new(ResponseCreated) },
	"response.done":                                         func() ServerEvent { return new(ResponseDone) },
	"response.output_item.added":                            func() ServerEvent { return new(OutputItemAdded) },
	"response.output_item.done":                             func() ServerEvent { return new(OutputItemDone) },
	"response.content_part.added":                           func() ServerEvent { return new(ContentPartAdded) },
	"response.content_part.done":                            func() ServerEvent { return new(ContentPartDone) },
	"response.output_text.delta":                            func() ServerEvent { return new(OutputTextDelta) },
	"response.output_text.done":                             func() ServerEvent { return new(OutputTextDone) },
	"response.output_audio.delta":                           func() ServerEvent { return new(OutputAudioDelta) },
	"response.output_audio.done":                            func() ServerEvent { return new(OutputAudioDone) },
	"response.output_audio_transcript.delta":                func() ServerEvent { return new(OutputTranscriptDelta) },
	"response.output_audio_transcript.done":                 func() ServerEvent { return new(OutputTranscriptDone) },
	"response.function_call_arguments.delta":                func() ServerEvent { return new(ArgumentsDelta) },
	"response.function_call_arguments.done":                 func() ServerEvent { return new(ArgumentsDone) },
	"output_audio_buffer.started":                           func() ServerEvent { return new(OutputBufferStarted) },
	"output_audio_buffer.stopped":                           func() ServerEvent { return new(OutputBufferStopped) },
	"output_audio_buffer.cleared":                           func() ServerEvent { return new(OutputBufferCleared) },
}
