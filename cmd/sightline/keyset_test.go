package main

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sightline/gateway/auth"
)

// TestKeySetIsFetchedFromWhereItIsSaidToBe: from that address, over TLS or from this machine, and from nowhere that it is sent on to.
func TestKeySetIsFetchedFromWhereItIsSaidToBe(t *testing.T) {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	set := fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":"1","alg":"RS256","n":%q,"e":%q}]}`, b64(k.N.Bytes()), b64(big.NewInt(int64(k.E)).Bytes()))
	asked := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/keys":
			fmt.Fprint(w, set)
		case "/there":
			http.Redirect(w, r, "/keys", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/keys", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/endless":
			for range 1 << 10 {
				fmt.Fprint(w, strings.Repeat(" ", 1<<10))
			}
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	for path, want := range map[string]string{"/keys": "", "/there": "", "/away": "allowed are https", "/round": "redirects", "/endless": "over 262144 bytes", "/none": "404"} {
		fetch, err := fetchKeySet(web.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		v, err := auth.New(auth.Config{KeySet: fetch})
		if err != nil {
			t.Fatal(err)
		}
		err = v.Load(t.Context(), time.Now())
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if asked > 20 {
		t.Errorf("%d requests", asked)
	}
	for _, address := range []string{"http://192.0.2.1/keys", "http://localhost.example.org/keys", "ftp://localhost/keys", "https:///keys", "file:///etc/keys"} {
		if _, err := fetchKeySet(address); err == nil {
			t.Errorf("%s is asked", address)
		}
	}
	// A server that is not there yet keeps no gateway from starting; a file that is none does.
	s := authSettings{jwks: web.URL + "/none", audience: auth.DefaultAudience, maxLifetime: time.Hour}
	if v, err := s.verifier(slog.New(slog.DiscardHandler)); err != nil || v == nil {
		t.Errorf("%v", err)
	}
}
