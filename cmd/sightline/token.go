package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"sightline/gateway/auth"
)

const tokenUsage = `usage: sightline token --auth-key KEY --session ID --role ROLE [--ttl 1h] [--sub NAME]

Prints a token that a gateway with the same secret takes, or with the public key that belongs to KEY.
KEY is a file with the secret or the private key (PEM), or the secret itself; SIGHTLINE_AUTH_KEY stands in for it.

  publisher  publishes to the session by WHIP
  agent      attaches to it, reads and writes its conversation, sees its images, switches its pipeline
  admin      does all of that, ends sessions, and with --session '*' reads metrics and drains the gateway

`

// token is `sightline token`.
func (p program) token(args []string) int {
	var text strings.Builder
	f := flag.NewFlagSet("sightline token", flag.ContinueOnError)
	f.SetOutput(&text)
	key := f.String("auth-key", p.getenv("SIGHTLINE_AUTH_KEY"), "`key` that signs; best a file, or in the environment")
	f.Lookup("auth-key").DefValue = "" // --help shows defaults, and this is a secret
	session := f.String("session", "", "session `id`, or * for all")
	role := f.String("role", "", "publisher, agent or admin")
	ttl := f.Duration("ttl", time.Hour, "how long the token is good for; a gateway takes none that lives longer than its --auth-max-lifetime")
	sub := f.String("sub", "", "who it is for: the author of what is appended with it over HTTP (default: the role)")
	audience := f.String("audience", cmp.Or(p.getenv("SIGHTLINE_AUTH_AUDIENCE"), auth.DefaultAudience), "the gateway's --auth-audience")
	takeover := f.Bool("takeover", false, "may publish in the place of who publishes to the session now")
	f.Usage = func() { fmt.Fprint(&text, tokenUsage); f.PrintDefaults() }
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(p.stdout, text.String())
		return exitOK
	case err != nil:
	case f.NArg() > 0:
		err = errors.New("it takes flags only: --help lists them")
	case *key == "":
		err = errors.New("say which key signs: --auth-key, or SIGHTLINE_AUTH_KEY")
	case *session == "" || *role == "":
		err = errors.New("say what the token is for: --session and --role")
	case *ttl < time.Second:
		err = fmt.Errorf("--ttl %v: allowed is 1s and longer", *ttl)
	}
	if err != nil {
		fmt.Fprintln(p.stderr, "sightline token:", err)
		return exitUsage
	}
	now := time.Now()
	token, err := mint(*key, auth.Claims{
		Subject: cmp.Or(*sub, *role), Session: *session, Role: auth.Role(*role), Takeover: *takeover, Expires: now.Add(*ttl),
	}, *audience, now)
	if err != nil {
		fmt.Fprintln(p.stderr, "sightline token:", err)
		return exitFail
	}
	if *ttl > auth.DefaultMaxLifetime {
		fmt.Fprintf(p.stderr, "sightline token: this one lives longer than %v, the most that a gateway takes without --auth-max-lifetime\n", auth.DefaultMaxLifetime)
	}
	fmt.Fprintln(p.stdout, token)
	return exitOK
}

func mint(key string, c auth.Claims, audience string, now time.Time) (string, error) {
	data, err := readKey(key)
	if err != nil {
		return "", fmt.Errorf("--auth-key: %w", err)
	}
	k, err := auth.ParseSigningKey(data)
	if err != nil {
		return "", fmt.Errorf("--auth-key: %w", err)
	}
	return auth.Sign(k, c, audience, now)
}
