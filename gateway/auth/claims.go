package auth

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	chatctx "sightline/context"
)

// Role is what the holder of a token is.
type Role string

// The roles. What each may do is PROTOCOL.md §8's.
const (
	Publisher Role = "publisher"
	Agent     Role = "agent"
	Admin     Role = "admin"
)

// AnySession is the session of a token that is good for all of them.
const AnySession = "*"

// Claims are what a token says, once it is verified.
type Claims struct {
	Subject  string // who it was given to; the author of what is appended with it
	Session  string // an id or AnySession
	Role     Role
	Takeover bool // may replace who publishes to a session now
	Expires  time.Time
	Token    string // names the token in tables of rates and quotas; it cannot be used as one
}

// Covers says whether the token is for a session.
func (c Claims) Covers(session string) bool { return c.Session == AnySession || c.Session == session }

// maxSubject is what the conversation takes as an author, in bytes.
const maxSubject = 128

// check refuses claims that no gateway takes; it is the same for those that are signed and those that are verified.
func (c Claims) check() error {
	switch {
	case c.Subject == "":
		return fmt.Errorf("sub is missing: it says who the token was given to")
	case len(c.Subject) > maxSubject || !utf8.ValidString(c.Subject) || strings.ContainsFunc(c.Subject, unicode.IsControl):
		return fmt.Errorf("sub: allowed are 1 to %d bytes of UTF-8 without control characters", maxSubject)
	case c.Subject == "caller" || c.Subject == "system" || strings.HasPrefix(c.Subject, "leg:"):
		return fmt.Errorf("sub %q is an author of the gateway's own: choose another", c.Subject)
	case c.Session != AnySession && !chatctx.ValidID(c.Session):
		return fmt.Errorf("session %q: allowed are * and a session id, 1 to 64 of A-Z, a-z, 0-9, _ and -", clip(c.Session))
	case c.Role != Publisher && c.Role != Agent && c.Role != Admin:
		return fmt.Errorf("role %q: allowed are publisher, agent and admin", clip(string(c.Role)))
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 80)] }

// wireClaims are Claims as JSON has them.
type wireClaims struct {
	jwt.RegisteredClaims
	Session  string `json:"session"`
	Role     Role   `json:"role"`
	Takeover bool   `json:"takeover,omitempty"`
}

// UnmarshalJSON reads a number as a date only when it is one: a time beyond year 9999 is refused instead of wrapped.
func (w *wireClaims) UnmarshalJSON(data []byte) error {
	type plain wireClaims
	var times struct {
		Exp, Iat, Nbf *float64
	}
	if err := json.Unmarshal(data, &times); err != nil {
		return err
	}
	for _, t := range []*float64{times.Exp, times.Iat, times.Nbf} {
		if t != nil && (*t < 0 || *t > 253402300799) {
			return fmt.Errorf("a time of the token is no date")
		}
	}
	return json.Unmarshal(data, (*plain)(w))
}
