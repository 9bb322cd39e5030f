package project

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// Lengths that providers take.
const (
	chatCallID     = 40 // OpenAI chat: "string too long. Expected a string with maximum length 40"
	responsesID    = 64 // OpenAI Responses
	realtimeID     = 32 // OpenAI Realtime
	anthropicID    = 64 // no documented length; the pattern is ^[a-zA-Z0-9_-]+$
	geminiID       = 64 // no documented rule
	toolNameLength = 64
)

// mappedPrefix begins every id made here. Own ids that begin with it are mapped as well, unless they have the form of those made
// here: those stay, so that a conversation that has been a provider's and came back keeps its ids. normalise sees to it that such
// an id and the one it was made of, both in one conversation, do not become one.
const (
	mappedPrefix = "sl_"
	mappedDigits = 22 // base64url digits of the hash, 132 bits
)

// mapID gives id as the provider takes it: itself when it is 1 to limit of [A-Za-z0-9_-], else a hash of it (25 characters, below
// every provider's limit). It depends on nothing but id and limit: the same id is the same in every projection, and what was mapped
// is mapped to itself.
func mapID(id string, limit int) string {
	if len(id) >= 1 && len(id) <= limit && plainID(id) && (!strings.HasPrefix(id, mappedPrefix) || isMapped(id)) {
		return id
	}
	return hashID(id)
}

// isMapped reports whether an id has the form of those made here.
func isMapped(id string) bool {
	return strings.HasPrefix(id, mappedPrefix) && len(id) == len(mappedPrefix)+mappedDigits && plainID(id)
}

func hashID(id string) string {
	sum := sha256.Sum256([]byte(id))
	var made [len(mappedPrefix) + 43]byte
	base64.RawURLEncoding.Encode(made[copy(made[:], mappedPrefix):], sum[:])
	return string(made[:len(mappedPrefix)+mappedDigits])
}

func plainID(id string) bool {
	for i := 0; i < len(id); i++ {
		c := id[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// toolName gives name as all providers take it: 1 to 64 of [A-Za-z0-9_-], and for Gemini no digit and no dash first.
func toolName(name string, gemini bool) string {
	if len(name) >= 1 && len(name) <= toolNameLength && plainID(name) && (!gemini || letterFirst(name)) {
		return name
	}
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && plainID(string(r)) {
			return r
		}
		return '_'
	}, name)
	if name == "" {
		name = "unnamed_tool"
	}
	if gemini && !letterFirst(name) {
		name = "_" + name
	}
	return name[:min(len(name), toolNameLength)]
}

func letterFirst(name string) bool {
	c := name[0] | 0x20
	return c >= 'a' && c <= 'z' || name[0] == '_'
}

// argumentsObject gives arguments as the text of a JSON object: providers take nothing else, or hand it to a parser that takes
// nothing else.
func argumentsObject(arguments string) (object string, wrapped bool) {
	trimmed := strings.TrimSpace(arguments)
	switch {
	case trimmed == "":
		return "{}", false
	case !json.Valid([]byte(trimmed)):
		return `{"text":` + jsonString(arguments) + `}`, true
	case trimmed[0] != '{':
		return `{"value":` + trimmed + `}`, true
	}
	return trimmed, false
}

// jsonString is s as JSON without the escapes that only HTML needs.
func jsonString(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// rawObject is object for a place where JSON stands inside JSON. Escapes of half a surrogate pair, which JSON allows and parsers
// refuse ("no low surrogate in string"), become U+FFFD.
func rawObject(object string) json.RawMessage {
	if !strings.Contains(object, `\u`) {
		return json.RawMessage(object)
	}
	out := []byte(object)
	for i := 0; i+1 < len(out); i++ {
		if out[i] != '\\' {
			continue
		}
		if high, ok := surrogate(out, i); !ok {
			i++ // skips the escaped character
		} else if _, low := lowSurrogate(out, i+6); high && low {
			i += 11
		} else {
			copy(out[i:], `\ufffd`)
			i += 5
		}
	}
	return out
}

// surrogate: does an escape of half a pair stand at i, and is it the first half?
func surrogate(b []byte, i int) (high, ok bool) {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' || b[i+2]|0x20 != 'd' {
		return false, false
	}
	switch b[i+3] | 0x20 {
	case '8', '9', 'a', 'b':
		return true, true
	case 'c', 'd', 'e', 'f':
		return false, true
	}
	return false, false
}

func lowSurrogate(b []byte, i int) (high, low bool) {
	high, ok := surrogate(b, i)
	return high, ok && !high
}
