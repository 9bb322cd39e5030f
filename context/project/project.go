package project

import (
	"encoding/json"
	"time"

	chatctx "sightline/context"
)

// Loss is one thing that is not in the output as it was in the items.
type Loss struct {
	Kind   string `json:"kind"`              // one of the Lost… constants
	ItemID string `json:"item_id,omitempty"` // "" when it concerns no single item
	Detail string `json:"detail,omitempty"`  // for a person to read
}

// The kinds of Loss.
const (
	LostOrphanOutput   = "orphan_output"         // left out: an output whose call is not there
	LostDuplicateCall  = "duplicate_call"        // left out: a second call with the same call_id
	LostEarlierOutput  = "earlier_output"        // left out: a later output of the same call took its place
	LostEmpty          = "empty"                 // left out: nothing to see in it
	LostHiddenCall     = "hidden_call"           // left out: a call that Options.HideTools names, with its output
	LostUnheard        = "unheard_text"          // left out: what the model made and nobody heard
	LostImage          = "dropped_image"         // a line of text stands for an image
	LostSwitch         = "pipeline_switch"       // left out: models do not see switches
	LostTools          = "tools"                 // not part of messages: ActiveConfig has the tool list in force
	LostInstructions   = "replaced_instructions" // left out: a later config_update took their place
	LostOthers         = "other_agent"           // left out: the instructions of another agent
	LostErrorFlag      = "error_flag"            // the format has no place for is_error
	LostOlder          = "older"                 // left out: over the bound
	LostSignature      = "thought_signature"     // Gemini's own marks on a call are not known
	ChangedMadeUp      = "synthesised_output"    // made up: the output of a call that has none
	ChangedNoOutput    = "empty_output"          // made up: "(no output)"
	ChangedMoved       = "moved"                 // stands elsewhere
	ChangedMerged      = "merged"                // joined with another
	ChangedRole        = "role_changed"          // under another role
	ChangedCallID      = "call_id_changed"       // other id: the provider's alphabet and length
	ChangedName        = "name_changed"          // other tool name, for the same reason
	ChangedArguments   = "arguments_wrapped"     // arguments that were no JSON object
	ChangedText        = "text_escaped"          // reserved or broken characters were replaced
	ChangedImage       = "image_changed"         // made smaller, of another kind, or its declared type corrected
	ChangedClipped     = "clipped"               // cut in the middle: over the bound
	AddedTurn          = "added_turn"            // added: a line where the provider wants the user to speak
	LostInstructionsIn = "instructions_left_out" // Text has no place for instructions
)

// Options of a projection. The zero value is usable.
type Options struct {
	// KeepImages is how many of the newest images stay, per source; 0 = 4, below 0 = none.
	KeepImages int
	// Images finds the bytes of a stored image (chatctx.Log.Blob does); nil = none can be found. The bytes are only read.
	Images func(sha256 string) (mime string, data []byte, err error)
	// Downscale makes an image fit: no side above maxSide pixels, at most maxBytes bytes, as JPEG or PNG; nil = an image that the
	// provider would refuse becomes a line of text.
	Downscale func(mime string, data []byte, maxSide, maxBytes int) ([]byte, error)
	// MaxImageSide is the longest side in pixels above which Downscale is asked; 0 = 1568, beyond which providers scale down
	// themselves.
	MaxImageSide int
	// MaxImageBytes is the most base64 characters of one image; 0 or more than the provider takes = what the provider takes.
	MaxImageBytes int
	// Now is the time from which the age of images counts; zero = the time they were taken is shown instead, which keeps a
	// provider's prompt cache warm.
	Now time.Time
	// ForAgent is the agent the output is for: handoffs to it are told as taking over, other agents' instructions are left out.
	ForAgent string
	// Running are the call_ids of calls that are still being worked on.
	Running map[string]bool
	// HideTools are tools whose calls and outputs are left out, the tool that switches pipelines above all: a model that reads of
	// a switch asks for it again.
	HideTools []string
	// Developer makes OpenAI's instructions a developer message; else system, which other servers know too.
	Developer bool
	// NotesAsUser keeps OpenAI chat output free of system messages but the first, for servers whose chat template refuses them:
	// handoffs and summaries then stand in marked user messages.
	NotesAsUser bool
	// AllowLastAssistant leaves an Anthropic or Gemini conversation ending with the assistant: a prefill. Many models refuse it.
	AllowLastAssistant bool
	// GeminiSignature is put on the first call of each model turn as its thoughtSignature. Gemini 3 refuses calls of the current
	// turn without one; "skip_thought_signature_validator" is what Google names for histories from elsewhere.
	GeminiSignature string
}

const (
	defaultKeepImages = 4
	defaultImageSide  = 1568 // pixels
)

func (o Options) keepImages() int {
	switch {
	case o.KeepImages < 0:
		return 0
	case o.KeepImages == 0:
		return defaultKeepImages
	}
	return o.KeepImages
}

func (o Options) imageSide() int {
	if o.MaxImageSide > 0 {
		return o.MaxImageSide
	}
	return defaultImageSide
}

// Config is what is in force at the end of a conversation.
type Config struct {
	Instructions string          // system and developer messages and config updates, by rule 8
	Tools        json.RawMessage // the tool list of the last config_update that has one, nil when none has
}

// ActiveConfig gives the instructions and tools in force after items. Every projector applies the same instructions; the tools
// belong beside the messages, in the provider's own form.
func ActiveConfig(items chatctx.Items, o Options) (Config, []Loss) {
	n := normaliser{o: o}
	var tools json.RawMessage
	for _, item := range items {
		switch it := item.(type) {
		case *chatctx.Message:
			if it.Role == chatctx.RoleSystem || it.Role == chatctx.RoleDeveloper {
				n.instruct(it)
			}
		case *chatctx.ConfigUpdate:
			n.configure(it)
			if len(it.Tools) > 0 {
				tools = it.Tools
			}
		}
	}
	return Config{Instructions: n.joinInstructions(), Tools: tools}, n.losses
}
