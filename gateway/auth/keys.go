package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// Bounds of keys.
const (
	MinSecret  = 32 // bytes of an HS256 secret (RFC 7518 §3.2)
	maxSecret  = 64 << 10
	minRSABits = 2048
	maxRSABits = 8192 // a larger one makes each check slow
)

// Key verifies tokens of one algorithm, and may sign them. Its zero value does neither.
type Key struct {
	id     string // of a key set, "" otherwise
	method jwt.SigningMethod
	verify any // []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey, as method wants it
	sign   any // nil: it only verifies
}

// Algorithm is the one algorithm (RFC 7518 §3.1) of the key's tokens, "" of the zero value.
func (k Key) Algorithm() string {
	if k.method == nil {
		return ""
	}
	return k.method.Alg()
}

// String names the algorithm and nothing of the key.
func (k Key) String() string { return "key of " + k.Algorithm() }

// GoString is String: not even %#v shows a secret.
func (k Key) GoString() string { return k.String() }

// ParseKey reads a key that verifies: PEM with a public key (RSA of 2048 bits and more: RS256; P-256: ES256; Ed25519: EdDSA), or else a
// secret of at least MinSecret bytes (HS256). Space and line ends around a secret do not count.
func ParseKey(data []byte) (Key, error) {
	block, secret, err := split(data)
	switch {
	case err != nil:
		return Key{}, err
	case block == nil:
		return secretKey(secret)
	case block.Type != "PUBLIC KEY":
		return Key{}, fmt.Errorf("the PEM block is a %q: a gateway needs the public key only, a PUBLIC KEY", clip(block.Type))
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return Key{}, errors.New("the PEM block holds no public key that can be read")
	}
	return publicKey(public)
}

// ParseSigningKey reads a key that signs: PEM with a private key (PKCS #8, or the older forms of RSA and EC keys), or a secret.
func ParseSigningKey(data []byte) (Key, error) {
	block, secret, err := split(data)
	if err != nil {
		return Key{}, err
	}
	if block == nil {
		return secretKey(secret)
	}
	var private any
	switch block.Type {
	case "PRIVATE KEY":
		private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		private, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		private, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return Key{}, fmt.Errorf("the PEM block is a %q: tokens are signed with a PRIVATE KEY or a secret", clip(block.Type))
	}
	signer, ok := private.(crypto.Signer)
	if err != nil || !ok {
		return Key{}, errors.New("the PEM block holds no private key that can be read")
	}
	key, err := publicKey(signer.Public())
	key.sign = private
	return key, err
}

// split tells PEM from a secret.
func split(data []byte) (block *pem.Block, secret []byte, err error) {
	secret = bytes.TrimSpace(data)
	if !bytes.Contains(data, []byte("-----BEGIN ")) {
		return nil, secret, nil
	}
	block, rest := pem.Decode(secret)
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return nil, nil, errors.New("it looks like PEM and is not one whole PEM block")
	}
	return block, nil, nil
}

func secretKey(secret []byte) (Key, error) {
	if len(secret) < MinSecret || len(secret) > maxSecret {
		return Key{}, fmt.Errorf("the secret has %d bytes: allowed are %d to %d, such as from openssl rand -hex 32", len(secret), MinSecret, maxSecret)
	}
	return Key{method: jwt.SigningMethodHS256, verify: bytes.Clone(secret), sign: bytes.Clone(secret)}, nil
}

func publicKey(public any) (Key, error) {
	switch k := public.(type) {
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSABits || n > maxRSABits || k.E < 3 {
			return Key{}, fmt.Errorf("the RSA key has %d bits: allowed are %d to %d", n, minRSABits, maxRSABits)
		}
		return Key{method: jwt.SigningMethodRS256, verify: k}, nil
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return Key{}, errors.New("the EC key is not of P-256, the curve of ES256")
		}
		return Key{method: jwt.SigningMethodES256, verify: k}, nil
	case ed25519.PublicKey:
		return Key{method: jwt.SigningMethodEdDSA, verify: k}, nil
	}
	return Key{}, fmt.Errorf("a %T: allowed are RSA, EC (P-256) and Ed25519", public)
}
