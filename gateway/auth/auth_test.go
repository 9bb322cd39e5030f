package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

const secret = "a secret of more than thirty-two bytes"

func claims() Claims {
	return Claims{Subject: "ann", Session: "demo", Role: Agent, Expires: now.Add(time.Hour)}
}

func mustKey(t *testing.T, parse func([]byte) (Key, error), data []byte) Key {
	t.Helper()
	k, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func verifier(t *testing.T, data []byte) *Verifier {
	t.Helper()
	v, err := New(Config{Key: mustKey(t, ParseKey, data)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func sign(t *testing.T, k Key, c Claims) string {
	t.Helper()
	token, err := Sign(k, c, DefaultAudience, now)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// pair is a key pair as PEM.
func pair(t *testing.T, private any, public any) (privatePEM, publicPEM []byte) {
	t.Helper()
	a, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: a}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b})
}

type keys struct{ private, public []byte }

func allKeys(t *testing.T) map[string]keys {
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pub, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]keys{"HS256": {[]byte(secret), []byte(secret + "\n")}}
	for name, k := range map[string][2]any{"RS256": {r, &r.PublicKey}, "ES256": {e, &e.PublicKey}, "EdDSA": {ed, pub}} {
		a, b := pair(t, k[0], k[1])
		all[name] = keys{a, b}
	}
	return all
}

func TestEachKindOfKeyVerifiesItsOwnTokens(t *testing.T) {
	all := allKeys(t)
	for signer, a := range all {
		token := sign(t, mustKey(t, ParseSigningKey, a.private), claims())
		for name, b := range all {
			got, err := verifier(t, b.public).Verify(t.Context(), token, now)
			if name != signer {
				if err == nil {
					t.Errorf("a token of %s is taken with a key of %s", signer, name)
				}
				continue
			}
			want := claims()
			want.Token = got.Token
			if err != nil || got != want || got.Token == "" || strings.Contains(token, got.Token) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
}

// forge makes a token of any header and claims; mac signs it, nil leaves the signature empty.
func forge(header, claims string, key []byte) string {
	signed := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	if key == nil {
		return signed + "."
	}
	k, _ := secretKey(append(key, make([]byte, max(0, MinSecret-len(key)))...))
	mac, _ := k.method.Sign(signed, k.sign)
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac)
}

func TestAlgorithmConfusionIsImpossible(t *testing.T) {
	good := fmt.Sprintf(`{"sub":"ann","aud":"sightline","session":"demo","role":"admin","exp":%d}`, now.Add(time.Hour).Unix())
	for name, k := range allKeys(t) {
		if name == "HS256" {
			continue
		}
		v := verifier(t, k.public)
		for _, key := range [][]byte{k.public, []byte(strings.TrimSpace(string(k.public)))} { // the public key taken as a secret
			for _, header := range []string{`{"alg":"HS256"}`, `{"alg":"HS256","typ":"JWT","kid":""}`, `{"alg":"` + name + `"}`} {
				if _, err := v.Verify(t.Context(), forge(header, good, key), now); err == nil {
					t.Errorf("%s: %s signed with the public key is taken", name, header)
				}
			}
		}
	}
	v := verifier(t, []byte(secret))
	for _, header := range []string{`{"alg":"none"}`, `{"alg":"None"}`, `{"alg":"HS384"}`, `{"alg":""}`, `{}`, `{"alg":["HS256"]}`, `{"alg":"HS256","crit":["b64"]}`} {
		for _, key := range [][]byte{nil, []byte(secret)} {
			if _, err := v.Verify(t.Context(), forge(header, good, key), now); err == nil {
				t.Errorf("%s is taken (signed: %v)", header, key != nil)
			}
		}
	}
	if _, err := v.Verify(t.Context(), forge(`{"alg":"HS256"}`, good, []byte(secret)), now); err != nil {
		t.Errorf("the same with the right header: %v", err)
	}
}

func TestClaimsAreHeldToTheirRules(t *testing.T) {
	v := verifier(t, []byte(secret))
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	base := map[string]any{"sub": "ann", "aud": "sightline", "session": "demo", "role": "agent", "exp": at(time.Hour)}
	for name, c := range map[string]struct {
		change map[string]any
		want   string // "" = taken
	}{
		"as it is":                 {nil, ""},
		"aud in a list":            {map[string]any{"aud": []string{"other", "sightline"}}, ""},
		"any session":              {map[string]any{"session": "*"}, ""},
		"expired within leeway":    {map[string]any{"exp": at(-29 * time.Second)}, ""},
		"expired":                  {map[string]any{"exp": at(-31 * time.Second)}, "expired"},
		"no exp":                   {map[string]any{"exp": nil}, "lacks exp"},
		"exp a word":               {map[string]any{"exp": "soon"}, "no token"},
		"exp past all dates":       {map[string]any{"exp": 1e300}, "no token"},
		"exp negative":             {map[string]any{"exp": -1}, "no token"},
		"lives too long":           {map[string]any{"exp": at(25 * time.Hour)}, "longer than 24h"},
		"too long since iat":       {map[string]any{"iat": at(-24 * time.Hour)}, "longer than 24h"},
		"iat in the future":        {map[string]any{"iat": at(time.Minute)}, "from the future"},
		"nbf in the future":        {map[string]any{"nbf": at(time.Minute)}, "not valid yet"},
		"no aud":                   {map[string]any{"aud": nil}, "aud"},
		"another aud":              {map[string]any{"aud": "other"}, "another audience"},
		"no sub":                   {map[string]any{"sub": nil}, "sub is missing"},
		"sub of the gateway's own": {map[string]any{"sub": "caller"}, "gateway's own"},
		"sub of a leg":             {map[string]any{"sub": "leg:x"}, "gateway's own"},
		"sub with a line end":      {map[string]any{"sub": "a\nb"}, "control characters"},
		"sub too long":             {map[string]any{"sub": strings.Repeat("a", 129)}, "128 bytes"},
		"no session":               {map[string]any{"session": nil}, "session"},
		"session no id":            {map[string]any{"session": "a/b"}, "session"},
		"session no string":        {map[string]any{"session": 5}, "no token"},
		"no role":                  {map[string]any{"role": nil}, "role"},
		"role unknown":             {map[string]any{"role": "root"}, "role"},
		"role in capitals":         {map[string]any{"role": "Admin"}, "role"},
		"takeover no bool":         {map[string]any{"takeover": "true"}, "no token"},
	} {
		m := map[string]any{}
		for k, value := range base {
			m[k] = value
		}
		for k, value := range c.change {
			if m[k] = value; value == nil {
				delete(m, k)
			}
		}
		text, _ := json.Marshal(m)
		_, err := v.Verify(t.Context(), forge(`{"alg":"HS256"}`, string(text), []byte(secret)), now)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestOneTokenHasOneName(t *testing.T) {
	v, key := verifier(t, []byte(secret)), mustKey(t, ParseSigningKey, []byte(secret))
	token := sign(t, key, claims())
	first, err := v.Verify(t.Context(), token, now)
	if err != nil {
		t.Fatal(err)
	}
	// The last letter of a base64 signature has bits that do not count, if they are let.
	for _, letter := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=" {
		other := token[:len(token)-1] + string(letter)
		if got, err := v.Verify(t.Context(), other, now); err == nil && got.Token != first.Token {
			t.Errorf("%q is taken under another name", letter)
		} else if err == nil && other != token {
			t.Errorf("%q is taken, too", letter)
		}
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weakPrivate, weakPublic := pair(t, weak, &weak.PublicKey)
	_, curve := pair(t, p384, &p384.PublicKey)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"short":       {[]byte(strings.Repeat("a", 31)), "31 bytes"},
		"only space":  {[]byte(strings.Repeat(" ", 99)), "0 bytes"},
		"private":     {weakPrivate, "public key only"},
		"1024 bits":   {weakPublic, "1024 bits"},
		"P-384":       {curve, "P-256"},
		"half of PEM": {weakPublic[:len(weakPublic)-20], "PEM"},
		"two blocks":  {append(weakPublic[:len(weakPublic):len(weakPublic)], curve...), "PEM"},
	} {
		if _, err := ParseKey(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := ParseSigningKey(weakPublic); err == nil {
		t.Error("a public key signs")
	}
	if _, err := Sign(mustKey(t, ParseKey, allKeys(t)["EdDSA"].public), claims(), "x", now); err == nil {
		t.Error("a public key signs")
	}
}

func TestNothingPrintsAKeyOrAToken(t *testing.T) {
	key := mustKey(t, ParseSigningKey, []byte(secret))
	printed := fmt.Sprintf("%v %+v %#v %s", key, key, key, key)
	token := sign(t, key, claims())
	for _, v := range []string{token, token + "x", token[:40], "a.b.c"} {
		_, err := verifier(t, []byte(strings.Repeat("z", 40))).Verify(t.Context(), v, now)
		printed += fmt.Sprint(err)
	}
	if strings.Contains(printed, secret) || strings.Contains(printed, token[:20]) {
		t.Error(printed)
	}
}

// set is a key set as JSON.
func set(t *testing.T, keys map[string]string) []byte {
	t.Helper()
	var list []string
	for id, k := range keys {
		list = append(list, strings.Replace(k, "{", `{"kid":"`+id+`",`, 1))
	}
	return []byte(`{"keys":[` + strings.Join(list, ",") + `]}`)
}

func okp(t *testing.T, private []byte) string {
	t.Helper()
	public := mustKey(t, ParseSigningKey, private).verify.(ed25519.PublicKey)
	return fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","use":"sig","alg":"EdDSA","x":%q}`, base64.RawURLEncoding.EncodeToString(public))
}

func TestKeySetIsKeptRefreshedAndBounded(t *testing.T) {
	first, second := allKeys(t)["EdDSA"].private, allKeys(t)["EdDSA"].private
	served, fetches, broken := set(t, map[string]string{"1": okp(t, first)}), 0, false
	v, err := New(Config{KeySet: func(context.Context) ([]byte, error) {
		fetches++
		if broken {
			return nil, errors.New("down")
		}
		return served, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	verify := func(private []byte, at time.Time) error {
		c, key := claims(), mustKey(t, ParseSigningKey, private)
		c.Expires, key.id = at.Add(time.Hour), map[bool]string{true: "1", false: "2"}[&private[0] == &first[0]]
		token, err := Sign(key, c, DefaultAudience, at)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Verify(t.Context(), token, at)
		return err
	}
	step := func(what string, err error, ok bool, total int) {
		t.Helper()
		if (err == nil) != ok || fetches != total {
			t.Errorf("%s: %v, %d fetches; want ok=%v, %d", what, err, fetches, ok, total)
		}
	}
	step("the first token fetches", verify(first, now), true, 1)
	step("the next does not", verify(first, now), true, 1)
	for range 100 {
		step("unknown keys do not so soon", verify(second, now.Add(29*time.Second)), false, 1)
	}
	served = set(t, map[string]string{"2": okp(t, second)})
	step("an unknown key fetches", verify(second, now.Add(31*time.Second)), true, 2)
	step("what is withdrawn is gone", verify(first, now.Add(32*time.Second)), false, 2)
	broken = true
	step("an outage does no harm", verify(second, now.Add(2*time.Hour)), true, 3)
	if err := verify(second, now.Add(25*time.Hour)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("after a day of outage: %v", err)
	}
}

// TestAKeyThatIsReplacedWithoutANameIsFetched: tokens without a kid, and keys that keep theirs.
func TestAKeyThatIsReplacedWithoutANameIsFetched(t *testing.T) {
	for _, kid := range []string{"", "same"} {
		first, second := allKeys(t)["EdDSA"].private, allKeys(t)["EdDSA"].private
		served, fetches := set(t, map[string]string{kid: okp(t, first)}), 0
		v, err := New(Config{KeySet: func(context.Context) ([]byte, error) { fetches++; return served, nil }})
		if err != nil {
			t.Fatal(err)
		}
		verify := func(private []byte, at time.Time) error {
			c, key := claims(), mustKey(t, ParseSigningKey, private)
			c.Expires, key.id = at.Add(time.Hour), kid
			token, err := Sign(key, c, DefaultAudience, at)
			if err != nil {
				t.Fatal(err)
			}
			_, err = v.Verify(t.Context(), token, at)
			return err
		}
		if err := verify(first, now); err != nil || fetches != 1 {
			t.Fatalf("kid %q: %v after %d fetches", kid, err, fetches)
		}
		served = set(t, map[string]string{kid: okp(t, second)})
		for range 100 {
			if verify(second, now.Add(29*time.Second)) == nil || fetches != 1 {
				t.Fatalf("kid %q: %d fetches, as fast as somebody asks", kid, fetches)
			}
		}
		if err := verify(second, now.Add(31*time.Second)); err != nil || fetches != 2 {
			t.Errorf("kid %q: the new key: %v after %d fetches", kid, err, fetches)
		}
		if verify(first, now.Add(32*time.Second)) == nil || fetches != 2 {
			t.Errorf("kid %q: the old key is still taken, after %d fetches", kid, fetches)
		}
	}
}

func TestAnotherKeyTakesThePlaceOfAKey(t *testing.T) {
	pair := func() (sign, verify Key) {
		k := allKeys(t)["EdDSA"]
		return mustKey(t, ParseSigningKey, k.private), mustKey(t, ParseKey, k.public)
	}
	oldSign, oldKey := pair()
	newSign, newKey := pair()
	v, err := New(Config{Key: oldKey})
	if err != nil {
		t.Fatal(err)
	}
	check := func(sign Key, good bool) {
		t.Helper()
		token, err := Sign(sign, claims(), DefaultAudience, now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(t.Context(), token, now); (err == nil) != good {
			t.Errorf("%v, want good=%v", err, good)
		}
	}
	check(oldSign, true)
	check(newSign, false)
	if err := v.SetKey(newKey); err != nil || v.SetKey(Key{}) == nil {
		t.Errorf("%v", err)
	}
	check(oldSign, false)
	check(newSign, true)
}

func TestKeySetParsing(t *testing.T) {
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := e.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	ec := fmt.Sprintf(`{"kty":"EC","crv":"P-256","x":%q,"y":%q}`, b64(point[1:33]), b64(point[33:]))
	offCurve := fmt.Sprintf(`{"kty":"EC","crv":"P-256","x":%q,"y":%q}`, b64(point[1:33]), b64(point[1:33]))
	for name, c := range map[string]struct {
		data string
		keys int
	}{
		"one":             {`{"keys":[` + ec + `]}`, 1},
		"with others":     {`{"keys":[{"kty":"oct","k":"` + b64([]byte(secret)) + `"},5,{"kty":"EC","crv":"P-521"},` + ec + `,` + offCurve + `]}`, 1},
		"for encryption":  {`{"keys":[` + strings.Replace(ec, "{", `{"use":"enc",`, 1) + `]}`, 0},
		"for another alg": {`{"keys":[` + strings.Replace(ec, "{", `{"alg":"HS256",`, 1) + `]}`, 0},
		"a secret":        {`{"keys":[{"kty":"oct","k":"` + b64([]byte(secret)) + `"}]}`, 0},
		"none":            {`{"keys":[]}`, 0},
		"no set":          {`{}`, 0},
		"no JSON":         {`<html>`, 0},
		"too many":        {`{"keys":[` + strings.Repeat(ec+",", 64) + ec + `]}`, 0},
		"too large":       {`{"keys":[` + ec + `]}` + strings.Repeat(" ", MaxKeySet), 0},
	} {
		keys, err := ParseKeySet([]byte(c.data))
		if len(keys) != c.keys || (err == nil) != (c.keys > 0) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	key, _ := ParseSigningKey([]byte(secret))
	v, _ := New(Config{Key: key})
	good, _ := Sign(key, claims(), DefaultAudience, now)
	f.Add(good)
	f.Add("a.b.c")
	f.Add(strings.Replace(good, ".", "..", 1))
	f.Fuzz(func(t *testing.T, token string) {
		if c, err := v.Verify(context.Background(), token, now); err == nil && token != good {
			t.Fatalf("taken: %+v", c)
		}
	})
}
