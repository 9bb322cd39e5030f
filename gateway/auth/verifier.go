package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Defaults and bounds of a Verifier.
const (
	DefaultAudience    = "sightline"
	DefaultLeeway      = 30 * time.Second // clocks may differ by so much
	DefaultMaxLifetime = 24 * time.Hour
	MaxToken           = 8 << 10 // bytes
)

// ErrUnavailable is why a token could be neither taken nor refused: the key set cannot be had.
var ErrUnavailable = errors.New("the keys that tokens are checked with cannot be had now")

// Config says whose tokens are taken. One of Key and KeySet is required.
type Config struct {
	Key Key
	// KeySet fetches a JSON Web Key Set (RFC 7517 §5); its result is kept. It is called by whoever checks a token, never twice at once.
	KeySet func(context.Context) ([]byte, error)

	Audience    string        // that aud must name; default DefaultAudience
	Leeway      time.Duration // default DefaultLeeway
	MaxLifetime time.Duration // from iat, or where there is none from now, to exp; default DefaultMaxLifetime
}

// Verifier checks tokens. It may be used from any goroutine.
type Verifier struct {
	cfg  Config
	own  atomic.Pointer[Key] // cfg.Key, or what has taken its place
	keys *keySet             // nil: own
}

// New checks cfg; it fetches nothing.
func New(cfg Config) (*Verifier, error) {
	if (cfg.Key.method == nil) == (cfg.KeySet == nil) {
		return nil, errors.New("auth: one of Key and KeySet is required")
	}
	if cfg.Audience == "" {
		cfg.Audience = DefaultAudience
	}
	if cfg.Leeway == 0 {
		cfg.Leeway = DefaultLeeway
	}
	if cfg.MaxLifetime == 0 {
		cfg.MaxLifetime = DefaultMaxLifetime
	}
	if cfg.MaxLifetime < time.Second || cfg.Leeway < 0 {
		return nil, fmt.Errorf("auth: longest life of a token %v: allowed is 1s and longer", cfg.MaxLifetime)
	}
	v := &Verifier{cfg: cfg}
	v.own.Store(&cfg.Key)
	if cfg.KeySet != nil {
		v.keys = newKeySet(cfg.KeySet)
	}
	return v, nil
}

// Leeway is how long after exp a token still counts.
func (v *Verifier) Leeway() time.Duration { return v.cfg.Leeway }

// Load fetches the key set now, so that what is wrong with it shows at the start. Without a key set it does nothing.
func (v *Verifier) Load(ctx context.Context, now time.Time) error {
	if v.keys == nil {
		return nil
	}
	return v.keys.refresh(ctx, now)
}

// SetKey takes tokens of another key from now on, in the place of Config.Key.
func (v *Verifier) SetKey(key Key) error {
	if v.keys != nil || key.method == nil {
		return errors.New("auth: a key takes the place of a key")
	}
	v.own.Store(&key)
	return nil
}

// Verify gives the claims of a token that is good at now. Its errors are sentences that may be shown to who sent the token; they hold
// nothing of it. errors.Is(err, ErrUnavailable) means that it cannot be told now.
func (v *Verifier) Verify(ctx context.Context, token string, now time.Time) (Claims, error) {
	if len(token) > MaxToken {
		return Claims{}, fmt.Errorf("the token is over %d bytes", MaxToken)
	}
	w, err := v.parse(ctx, token, now)
	if errors.Is(err, jwt.ErrTokenSignatureInvalid) && v.keys != nil && v.keys.renew(ctx, now) {
		w, err = v.parse(ctx, token, now) // its key has another's name, or none
	}
	if err != nil {
		return Claims{}, said(err, v.cfg.Audience)
	}
	from := now
	if w.IssuedAt != nil {
		from = w.IssuedAt.Time
	}
	if w.ExpiresAt.Sub(from) > v.cfg.MaxLifetime {
		return Claims{}, fmt.Errorf("the token lives for longer than %v, the most that is taken", v.cfg.MaxLifetime)
	}
	c := Claims{Subject: w.Subject, Session: w.Session, Role: w.Role, Takeover: w.Takeover, Expires: w.ExpiresAt.UTC(), Token: name(token)}
	return c, c.check()
}

func (v *Verifier) parse(ctx context.Context, token string, now time.Time) (w wireClaims, err error) {
	_, err = v.parser(now).ParseWithClaims(token, &w, func(t *jwt.Token) (any, error) {
		if _, critical := t.Header["crit"]; critical { // RFC 7515 §4.1.11: what is not understood is refused
			return nil, errors.New("crit")
		}
		key, err := v.key(ctx, t, now)
		if err != nil {
			return nil, err
		}
		if t.Method != key.method { // the key's algorithm, not the header's
			return nil, fmt.Errorf("%w of another algorithm than the key", jwt.ErrTokenSignatureInvalid)
		}
		return key.verify, nil
	})
	return w, err
}

func (v *Verifier) parser(now time.Time) *jwt.Parser {
	return jwt.NewParser(
		jwt.WithValidMethods([]string{"HS256", "RS256", "ES256", "EdDSA"}), jwt.WithStrictDecoding(),
		jwt.WithAudience(v.cfg.Audience), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(v.cfg.Leeway),
		jwt.WithTimeFunc(func() time.Time { return now }),
	)
}

func (v *Verifier) key(ctx context.Context, t *jwt.Token, now time.Time) (Key, error) {
	if v.keys == nil {
		return *v.own.Load(), nil
	}
	id, _ := t.Header["kid"].(string)
	return v.keys.find(ctx, id, t.Method.Alg(), now)
}

// name is a hash of what is signed, so that nobody but the signer can make a second name for one token.
func name(token string) string {
	sum := sha256.Sum256([]byte(token[:max(strings.LastIndexByte(token, '.'), 0)]))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// said is what is told of a token that is refused.
func said(err error, audience string) error {
	for _, known := range []struct {
		is   error
		text string
	}{
		{ErrUnavailable, ""},
		{jwt.ErrTokenExpired, "the token has expired"},
		{jwt.ErrTokenNotValidYet, "the token is not valid yet"},
		{jwt.ErrTokenUsedBeforeIssued, "the token is from the future: is a clock wrong?"},
		{jwt.ErrTokenInvalidAudience, fmt.Sprintf("the token is for another audience than %q", audience)},
		{jwt.ErrTokenRequiredClaimMissing, "the token lacks exp or aud"},
		{jwt.ErrTokenSignatureInvalid, "the token's signature is not by a key of this gateway"},
		{errNoKey, "the token's signature is not by a key of this gateway"},
		{jwt.ErrTokenUnverifiable, "the token cannot be verified: its header asks for what is not served"},
	} {
		if errors.Is(err, known.is) {
			if known.text == "" {
				return known.is
			}
			return errors.New(known.text)
		}
	}
	return errors.New("this is no token (JWT) with the claims sub, aud, exp, session and role")
}

// Sign makes a token. issued and c.Expires are cut to whole seconds.
func Sign(key Key, c Claims, audience string, issued time.Time) (string, error) {
	if key.sign == nil {
		return "", errors.New("this key only verifies: tokens are signed with the private key or the secret")
	}
	if err := c.check(); err != nil {
		return "", err
	}
	t := jwt.NewWithClaims(key.method, wireClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Subject: c.Subject, Audience: jwt.ClaimStrings{audience},
			ExpiresAt: jwt.NewNumericDate(c.Expires), IssuedAt: jwt.NewNumericDate(issued),
		},
		Session: c.Session, Role: c.Role, Takeover: c.Takeover,
	})
	if key.id != "" {
		t.Header["kid"] = key.id
	}
	return t.SignedString(key.sign)
}
