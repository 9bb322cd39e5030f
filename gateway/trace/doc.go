// Package trace makes OpenTelemetry spans of what a session's switcher tells; it decides nothing, holds nothing up and never passes on what anybody said.
//
// A turn is one trace, or one subtree below the parent that the session was given (W3C Trace Context): it begins when the caller begins
// to speak and ends when the answer has been heard, with these spans in it:
//
//	turn ── speech      the caller speaks
//	     ├─ stt         one try of one recogniser; event end_of_sound
//	     ├─ llm         one request to one model; event first_token
//	     ├─ tts         one phrase by one voice; event first_sound
//	     ├─ tool        one tool call
//	     └─ playback    what the caller heard of one piece of the answer
//
// and the event first_audio_sent on the turn. A switch of pipelines is another:
//
//	switch ── prepare ── seed
//	       ├─ wait        for the end of what is being said
//	       ├─ commit
//	       └─ release
//
// The spans of a turn are made when it is over, with the times that were noted before. So a root is never without its children, nothing is
// asked of the exporter while somebody waits for an answer, and what is kept of a turn is bounded (maxParts).
package trace
