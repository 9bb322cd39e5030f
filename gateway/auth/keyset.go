package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"
)

// Bounds of a key set.
const (
	MaxKeySet    = 256 << 10 // bytes
	maxKeys      = 64
	refreshEvery = 10 * time.Minute
	refreshPause = 30 * time.Second // between two attempts, whoever asks
	refreshLimit = 5 * time.Second  // of one attempt
	staleAfter   = 24 * time.Hour   // keys that could not be fetched anew for so long are used no more
)

var errNoKey = errors.New("no such key")

// keySet keeps the keys of a JSON Web Key Set and fetches them anew when they are old, or when a token names one that is not there.
type keySet struct {
	fetch func(context.Context) ([]byte, error)

	mu      sync.Mutex
	keys    []Key
	fetched time.Time     // the last time that it worked
	tried   time.Time     // the last time
	busy    chan struct{} // closed when the attempt under way is over; nil without one
}

func newKeySet(fetch func(context.Context) ([]byte, error)) *keySet { return &keySet{fetch: fetch} }

// find gives the key of an id for an algorithm. A token without an id gets one only where no other key could be meant.
func (s *keySet) find(ctx context.Context, id, algorithm string, now time.Time) (Key, error) {
	key, ok := s.match(id, algorithm)
	if s.due(ok, now) {
		if err := s.refresh(ctx, now); err == nil {
			key, ok = s.match(id, algorithm)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fetched.IsZero() || now.Sub(s.fetched) > staleAfter:
		return Key{}, ErrUnavailable
	case !ok:
		return Key{}, errNoKey
	}
	return key, nil
}

func (s *keySet) match(id, algorithm string) (found Key, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		switch {
		case k.Algorithm() != algorithm || id != "" && k.id != id:
		case ok: // two could be meant
			return Key{}, false
		default:
			found, ok = k, true
		}
	}
	return found, ok
}

// due: it is old, or lacks what is looked for; but not soon after the last attempt. An attempt under way is waited for by who needs it.
func (s *keySet) due(found bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy != nil {
		return !found
	}
	return (!found || now.Sub(s.fetched) > refreshEvery) && now.Sub(s.tried) >= refreshPause
}

// renew fetches the set because of a token that no key of it fits, but not soon after the last attempt; false: nothing has changed.
func (s *keySet) renew(ctx context.Context, now time.Time) bool {
	return s.due(false, now) && s.refresh(ctx, now) == nil
}

// refresh fetches the set, or waits for who does. It outlives the request that began it: who hangs up must not keep others waiting.
func (s *keySet) refresh(ctx context.Context, now time.Time) error {
	s.mu.Lock()
	if busy := s.busy; busy != nil {
		s.mu.Unlock()
		select {
		case <-busy:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	done := make(chan struct{})
	s.busy, s.tried = done, now
	s.mu.Unlock()

	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshLimit)
	defer cancel()
	data, err := s.fetch(limited)
	var keys []Key
	if err == nil {
		keys, err = ParseKeySet(data)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.keys, s.fetched = keys, now
	}
	s.busy = nil
	close(done)
	return err
}

// jwk is one key of a set (RFC 7517 §4, RFC 7518 §6, RFC 8037 §2).
type jwk struct {
	Kty string   `json:"kty"`
	Kid string   `json:"kid"`
	Alg string   `json:"alg"`
	Use string   `json:"use"`
	Ops []string `json:"key_ops"`
	Crv string   `json:"crv"`
	N   string   `json:"n"`
	E   string   `json:"e"`
	X   string   `json:"x"`
	Y   string   `json:"y"`
}

// ParseKeySet reads the keys of a set that verify RS256, ES256 or EdDSA. Others are passed over, secrets (oct) too: a set is public.
func ParseKeySet(data []byte) ([]Key, error) {
	if len(data) > MaxKeySet {
		return nil, fmt.Errorf("the key set is over %d bytes", MaxKeySet)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil || set.Keys == nil {
		return nil, errors.New("this is no JSON Web Key Set: an object with a list \"keys\"")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the key set has %d keys, more than %d", len(set.Keys), maxKeys)
	}
	var keys []Key
	for _, text := range set.Keys {
		var j jwk
		if json.Unmarshal(text, &j) != nil || j.Use != "" && j.Use != "sig" || j.Ops != nil && !slices.Contains(j.Ops, "verify") {
			continue
		}
		key, err := j.key()
		if err == nil && (j.Alg == "" || j.Alg == key.Algorithm()) {
			key.id = j.Kid
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key for RS256, ES256 or EdDSA")
	}
	return keys, nil
}

func (j jwk) key() (Key, error) {
	number := func(s string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			return nil
		}
		return b
	}
	x, y := number(j.X), number(j.Y)
	switch {
	case j.Kty == "RSA":
		e := new(big.Int).SetBytes(number(j.E))
		if !e.IsInt64() || e.Int64() > 1<<31-1 {
			return Key{}, errNoKey
		}
		return publicKey(&rsa.PublicKey{N: new(big.Int).SetBytes(number(j.N)), E: int(e.Int64())})
	case j.Kty == "EC" && j.Crv == "P-256" && len(x) == 32 && len(y) == 32:
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
		if err != nil {
			return Key{}, err
		}
		return publicKey(public)
	case j.Kty == "OKP" && j.Crv == "Ed25519" && len(x) == ed25519.PublicKeySize:
		return publicKey(ed25519.PublicKey(x))
	}
	return Key{}, errNoKey
}
