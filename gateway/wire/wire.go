// Package wire is every message of the agent socket (PROTOCOL.md §3): types, JSON names and the binary framing, for the gateway and for clients in Go; it opens no socket and keeps no state.
package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	chatctx "sightline/context"
	"sightline/gateway/problem"
)

// Subprotocol is the WebSocket subprotocol of the agent socket.
const Subprotocol = "sightline.agent.v1"

// WebSocket close codes of PROTOCOL.md §3, beside the standard ones.
const (
	CloseDrain         = 1001
	CloseInvalidUTF8   = 1007
	CloseAuth          = 1008
	CloseTooBig        = 1009
	CloseTooSlow       = 1013
	CloseProtocolError = 4000
	CloseNoSession     = 4004
	CloseReplaced      = 4009
)

// Type names a message.
type Type string

// Messages from client to gateway.
const (
	TypeHello           Type = "hello"
	TypeContextAppend   Type = "context.append"
	TypeContextUpdate   Type = "context.update"
	TypeContextRemove   Type = "context.remove"
	TypeContextTruncate Type = "context.truncate"
	TypeHandoff         Type = "handoff"
	TypeImageRequest    Type = "image.request"
	TypeWant            Type = "want"
	TypePing            Type = "ping"
	TypeBye             Type = "bye" // both ways
)

// Messages from gateway to client.
const (
	TypeWelcome      Type = "welcome"
	TypeContextEntry Type = "context.entry"
	TypeAck          Type = "ack"
	TypeError        Type = "error"
	TypePong         Type = "pong"
	TypeSource       Type = "source"
	TypeImage        Type = "image" // binary
)

// Hello is the first message of a client.
type Hello struct {
	Type       Type    `json:"type"`
	AgentID    string  `json:"agent_id"`
	ResumeFrom *uint64 `json:"resume_from,omitempty"` // last seq applied, 0 = from the start, absent = snapshot
	LogID      string  `json:"log_id,omitempty"`      // Welcome.LogID of when that seq was applied: another log is not resumed
	Want       Want    `json:"want"`
}

// Want is what a client wishes to be sent.
type Want struct {
	Context     bool        `json:"context,omitempty"`
	Images      []WantImage `json:"images,omitempty"`
	Audio       *WantAudio  `json:"audio,omitempty"`
	Transcripts bool        `json:"transcripts,omitempty"`
}

// WantImage asks for a source's images at a rate.
type WantImage struct {
	Source string  `json:"source"` // a source's name, or "*" for each
	FPS    float64 `json:"fps"`    // images a second, above 0 and at most Limits.MaxImageFPS
	// SpeakingFPS is the rate while the caller speaks, with an image of the moment that begins; 0: FPS.
	SpeakingFPS float64 `json:"speaking_fps,omitempty"`
	OnChange    bool    `json:"on_change,omitempty"`  // only images that show something new, at most that rate
	MaxGapMS    int     `json:"max_gap_ms,omitempty"` // with OnChange: one after so long nevertheless; 0: none
	Encode
}

// Encode says how an image is scaled and compressed. Zero fields mean the defaults: 1024×1024, stretch, quality 75.
type Encode struct {
	Width    int    `json:"width,omitempty"`    // pixels, 1–4096
	Height   int    `json:"height,omitempty"`   // pixels, 1–4096
	Fit      string `json:"fit,omitempty"`      // stretch, contain, cover or letterbox
	Quality  *int   `json:"quality,omitempty"`  // libjpeg's scale, 0–100
	Format   string `json:"format,omitempty"`   // jpeg or png
	Upscale  bool   `json:"upscale,omitempty"`  // lets contain enlarge
	Optimize bool   `json:"optimize,omitempty"` // fewer bytes for more CPU
	Sharp    bool   `json:"sharp,omitempty"`    // for text
}

// WantAudio asks for the caller's sound.
type WantAudio struct {
	In   bool `json:"in"`
	Rate int  `json:"rate"`
}

// ContextAppend adds an item. Item stays raw so that its errors can name the op.
type ContextAppend struct {
	Type Type            `json:"type"`
	OpID string          `json:"op_id"`
	Item json.RawMessage `json:"item"`

	AfterItemID string `json:"after_item_id,omitempty"` // the item it is to stand right after; absent = at the end
	BaseSeq     uint64 `json:"base_seq,omitempty"`      // with AfterItemID or Remove: the seq the author had applied; 0 = do not check
	// Remove names what the item stands for from now on: these go in the same entry.
	Remove []string `json:"remove,omitempty"`
}

// ContextChange is context.update (with Changes) and context.remove (without).
type ContextChange struct {
	Type    Type            `json:"type"`
	OpID    string          `json:"op_id"`
	ItemID  string          `json:"item_id"`
	BaseSeq uint64          `json:"base_seq,omitempty"`
	Changes json.RawMessage `json:"changes,omitempty"`
}

// ContextTruncate cuts the conversation to limits.
type ContextTruncate struct {
	Type      Type   `json:"type"`
	OpID      string `json:"op_id"`
	MaxItems  *int   `json:"max_items,omitempty"`
	MaxTokens *int   `json:"max_tokens,omitempty"`
	// Remove names what is to go, in the place of limits; BaseSeq is the seq the author had applied, 0 = do not check.
	Remove  []string `json:"remove,omitempty"`
	BaseSeq uint64   `json:"base_seq,omitempty"`
}

// Handoff passes the conversation to another agent.
type Handoff struct {
	Type      Type   `json:"type"`
	OpID      string `json:"op_id"`
	ToAgent   string `json:"to_agent"`
	FromAgent string `json:"from_agent,omitempty"` // default: the sender
	Reason    string `json:"reason,omitempty"`
	Summary   string `json:"summary,omitempty"`
}

// ImageRequest asks for one image now.
type ImageRequest struct {
	Type      Type   `json:"type"`
	RequestID string `json:"request_id"`
	Source    string `json:"source,omitempty"`     // default: the first source
	MaxAgeMS  *int   `json:"max_age_ms,omitempty"` // how old the picture may be; default 1000
	WaitMS    *int   `json:"wait_ms,omitempty"`    // how long to wait for a younger one; default 3000
	Attach    bool   `json:"attach,omitempty"`     // also append it to the context as a user message
	Encode
}

// WantMessage replaces the client's wishes.
type WantMessage struct {
	Type Type `json:"type"`
	Want Want `json:"want"`
}

// Bye ends the connection, either side's.
type Bye struct {
	Type     Type   `json:"type"`
	Reason   string `json:"reason,omitempty"`
	ResumeAt string `json:"resume_at,omitempty"` // another node's URL, before a drain
}

// Ping asks for a pong with the same id.
type Ping struct {
	Type Type   `json:"type"`
	ID   string `json:"id,omitempty"`
}

// Welcome answers hello. Exactly one of Snapshot and replayed entries follows the client's wish; see Hello.ResumeFrom.
type Welcome struct {
	Type     Type              `json:"type"`
	Session  string            `json:"session"`
	AgentID  string            `json:"agent_id"`
	LogID    string            `json:"log_id"` // another one under the same session id means another conversation
	Seq      uint64            `json:"seq"`    // the head when the client was welcomed
	Snapshot *chatctx.Snapshot `json:"snapshot,omitempty"`
	Replayed bool              `json:"replayed"` // entries from resume_from+1 on follow
	Limits   Limits            `json:"limits"`
	Sources  []Source          `json:"sources"`
	// Epoch and ActiveLeg say which pipeline has the floor: null when none has.
	Epoch     uint64  `json:"epoch"`
	ActiveLeg *string `json:"active_leg"`
}

// Limits are the bounds that the gateway holds a client to.
type Limits struct {
	MaxMessageBytes int     `json:"max_message_bytes"`
	MaxItemBytes    int     `json:"max_item_bytes"`
	MaxImageBytes   int     `json:"max_image_bytes"`
	OpsPerSecond    int     `json:"ops_per_second"`
	MaxImageFPS     float64 `json:"max_image_fps"`
}

// ContextEntry is an accepted operation.
type ContextEntry struct {
	Type Type `json:"type"`
	chatctx.Entry
}

// UnmarshalJSON reads the type and the entry; without it the embedded Entry's method would hide the type.
func (c *ContextEntry) UnmarshalJSON(data []byte) error {
	var head struct {
		Type Type `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	c.Type = head.Type
	return c.Entry.UnmarshalJSON(data)
}

// Ack says that an operation is in the log, or that a request was done.
type Ack struct {
	Type      Type     `json:"type"`
	OpID      string   `json:"op_id,omitempty"`
	RequestID string   `json:"request_id,omitempty"`
	Seq       uint64   `json:"seq,omitempty"`
	ItemID    string   `json:"item_id,omitempty"`
	Duplicate bool     `json:"duplicate"`
	Warnings  []string `json:"warnings,omitempty"`
}

// Error refuses one message; the socket stays.
type Error struct {
	Type      Type         `json:"type"`
	OpID      string       `json:"op_id,omitempty"`
	RequestID string       `json:"request_id,omitempty"`
	Code      problem.Code `json:"code"`
	Message   string       `json:"message"`
	Detail    *ErrorDetail `json:"detail,omitempty"`
}

// ErrorDetail helps a program with an Error.
type ErrorDetail struct {
	Field        string `json:"field,omitempty"`
	Seq          uint64 `json:"seq,omitempty"` // the head, for conflicts
	RetryAfterMS int    `json:"retry_after_ms,omitempty"`
}

// Source says how a named video input is doing.
type Source struct {
	Type   Type   `json:"type"`
	Name   string `json:"name"`
	State  string `json:"state"` // live, black, stalled or ended
	Width  int    `json:"width"`
	Height int    `json:"height"`
	Codec  string `json:"codec"`
	Screen bool   `json:"screen"` // it shows a screen
	Frozen bool   `json:"frozen"` // no screen, and pictures have kept coming for 15 s that are all as the first
}

// ImageHeader is the JSON header of a binary image; the payload is the image file.
type ImageHeader struct {
	Type         Type         `json:"type"`
	Source       string       `json:"source"`
	Seq          uint64       `json:"seq"` // of the source's images, from 1
	CapturedAt   chatctx.Time `json:"captured_at"`
	AgeMS        int64        `json:"age_ms"` // at the moment of sending
	Width        int          `json:"width"`
	Height       int          `json:"height"`
	MIME         string       `json:"mime"`
	RequestID    string       `json:"request_id,omitempty"`
	Superseded   uint64       `json:"superseded"` // how many were replaced since the last one sent
	Unchanged    uint64       `json:"unchanged"`  // how many were withheld by OnChange since the last one sent
	RTPTimestamp uint32       `json:"rtp_timestamp"`
	// CaptureErrorMS is how far off CapturedAt may be, nil: not known; CaptureClock says what it is known by: arrival, report, header.
	CaptureErrorMS *int64 `json:"capture_error_ms"`
	CaptureClock   string `json:"capture_clock"`
}

// Bounds of a binary message's header; the payload's bound is the socket's read limit.
const maxHeaderBytes = 64 << 10

var errHeader = errors.New("a binary message is 4 bytes of big-endian header length, that many bytes of a JSON object with a type, then the payload")

// EncodeBinary frames a header and a payload as one binary message.
func EncodeBinary(header any, payload []byte) ([]byte, error) {
	h, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	return append(AppendBinaryHeader(make([]byte, 0, 4+len(h)+len(payload)), h), payload...), nil
}

// AppendBinaryHeader appends the length and the JSON of a header, so that a writer can send the payload without copying it.
func AppendBinaryHeader(dst, headerJSON []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headerJSON)))
	return append(dst, headerJSON...)
}

// DecodeBinary takes a binary message apart. header and payload share message's memory.
func DecodeBinary(message []byte) (t Type, header, payload []byte, err error) {
	if len(message) < 4 {
		return "", nil, nil, errHeader
	}
	n := binary.BigEndian.Uint32(message)
	if n > maxHeaderBytes || int(n) > len(message)-4 {
		return "", nil, nil, fmt.Errorf("header length %d: %w", n, errHeader)
	}
	header, payload = message[4:4+n], message[4+n:]
	t, err = TypeOf(header)
	return t, header, payload, err
}

// TypeOf reads the type of a JSON message. It is an error when data is no JSON object, ErrNoType when it has no type.
func TypeOf(data []byte) (Type, error) {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return "", errors.New("a message is a JSON object")
	}
	var head struct {
		Type *Type `json:"type"`
	}
	err := json.Unmarshal(data, &head)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return "", ErrNoType
	}
	if err != nil {
		return "", fmt.Errorf("the message is no valid JSON object: %w", err)
	}
	if head.Type == nil {
		return "", ErrNoType
	}
	return *head.Type, nil
}

// ErrNoType says that a message is a JSON object, but one whose type is missing or no string.
var ErrNoType = errors.New("the message has no type, or one that is no string")
