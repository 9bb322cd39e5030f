package agentclient

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// start runs a client against g until the test ends; stop ends it earlier and gives Run's error.
func start(t *testing.T, g *gateway, fromStart bool, h Handler) (c *Client, stop func() error) {
	t.Helper()
	c, err := New(Config{URL: g.URL, Session: "demo", AgentID: "a1", Token: "secret", WaitForSession: true, FromStart: fromStart,
		Want: wire.Want{Context: true}, Handler: h, RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	ended := false
	stop = func() error {
		cancel()
		ended = true
		return <-done
	}
	t.Cleanup(func() {
		if !ended {
			if err := stop(); err != nil {
				t.Errorf("Run: %v", err)
			}
		}
	})
	return c, stop
}

func TestG1EveryEntryOnceAcrossCutConnections(t *testing.T) {
	const entries = 60
	g := serve(t, nil, func(n int, s socket, hello wire.Hello) {
		if hello.ResumeFrom == nil {
			t.Error("hello without resume_from")
			return
		}
		s.welcome(entries, true)
		from := *hello.ResumeFrom
		for seq := from + 1; seq <= entries; seq++ {
			s.entry(seq)
			if seq-from == 7 {
				s.NetConn().Close() // no close frame: the cable is cut
				return
			}
		}
		s.untilGone()
	})
	seen := make(chan uint64, 2*entries)
	c, _ := start(t, g, true, Handler{Entry: func(e chatctx.Entry) { seen <- e.Seq }})
	for want := uint64(1); want <= entries; want++ {
		if got := <-seen; got != want {
			t.Fatalf("entry %d, want %d", got, want)
		}
	}
	if n := c.Stats().Attached; n < 8 {
		t.Errorf("attached %d times: the cuts did not happen", n)
	}
	if c.Chat().Len() != entries || len(seen) != 0 {
		t.Errorf("mirror has %d items, %d entries came twice", c.Chat().Len(), len(seen))
	}
}

func TestG1AGapIsMendedByResuming(t *testing.T) {
	g := serve(t, nil, func(n int, s socket, hello wire.Hello) {
		s.welcome(3, true)
		if n == 0 {
			s.entry(1)
			s.entry(3)
		} else {
			for seq := *hello.ResumeFrom + 1; seq <= 3; seq++ {
				s.entry(seq)
			}
		}
		s.untilGone()
	})
	seen := make(chan uint64, 9)
	start(t, g, true, Handler{Entry: func(e chatctx.Entry) { seen <- e.Seq }})
	for want := uint64(1); want <= 3; want++ {
		if got := <-seen; got != want {
			t.Fatalf("entry %d, want %d", got, want)
		}
	}
	if h := g.said(); len(h) != 2 || *h[1].ResumeFrom != 1 || h[0].LogID != "" || h[1].LogID != testLog {
		t.Errorf("hellos %+v, want a second one with resume_from 1 of %s", h, testLog)
	}
}

func TestG3AnUnansweredOperationIsSentAgainWithItsOpID(t *testing.T) {
	opIDs := make(chan string, 2)
	g := serve(t, nil, func(n int, s socket, _ wire.Hello) {
		s.welcome(0, false)
		var op wire.ContextAppend
		if !s.read(wire.TypeContextAppend, &op) {
			return
		}
		opIDs <- op.OpID
		if n == 0 {
			s.NetConn().Close()
			return
		}
		s.send(wire.Ack{Type: wire.TypeAck, OpID: op.OpID, Seq: 5, Duplicate: true})
		s.untilGone()
	})
	c, _ := start(t, g, false, Handler{})
	ack, err := c.Append(t.Context(), "", &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent("hi")})
	if err != nil || ack.Seq != 5 {
		t.Fatalf("ack %+v, %v", ack, err)
	}
	if first, second := <-opIDs, <-opIDs; first != second || first == "" {
		t.Errorf("op ids %q and %q", first, second)
	}
}

func TestARefusedOperationIsATypedError(t *testing.T) {
	g := serve(t, nil, func(_ int, s socket, _ wire.Hello) {
		s.welcome(0, false)
		var op wire.ContextAppend
		if s.read(wire.TypeContextAppend, &op) {
			s.send(wire.Error{Type: wire.TypeError, OpID: op.OpID, Code: problem.InvalidArgument, Message: "role: …"})
		}
		s.untilGone()
	})
	c, _ := start(t, g, false, Handler{})
	_, err := c.Append(t.Context(), "x", &chatctx.Message{Role: "pope"})
	var refused *Refused
	if !errors.As(err, &refused) || refused.Answer.Code != problem.InvalidArgument {
		t.Errorf("error %v", err)
	}
}

func TestWaitsForASessionThatDoesNotExistYet(t *testing.T) {
	g := serve(t, func(n int) int { return map[bool]int{true: http.StatusNotFound}[n < 3] }, func(_ int, s socket, _ wire.Hello) {
		s.welcome(0, false)
		s.untilGone()
	})
	attached := make(chan wire.Welcome, 1)
	var refusals atomic.Int32
	start(t, g, false, Handler{
		Attached: func(w wire.Welcome) { attached <- w },
		Detached: func(err error, _ time.Duration) {
			var e *HTTPError
			if errors.As(err, &e) && e.Status == http.StatusNotFound && strings.HasPrefix(e.Detail, "refusal") {
				refusals.Add(1)
			}
		},
	})
	if w := <-attached; w.Session != "demo" || refusals.Load() != 3 {
		t.Errorf("welcome %+v after %d refusals, want 3", w, refusals.Load())
	}
}

func TestGivesUpWhereTryingAgainCannotHelp(t *testing.T) {
	refusing := func(status int) func(int) int { return func(int) int { return status } }
	closing := func(code int) func(int, socket, wire.Hello) {
		return func(_ int, s socket, _ wire.Hello) { s.close(code); s.untilGone() }
	}
	tests := []struct {
		name   string
		refuse func(int) int
		answer func(int, socket, wire.Hello)
		want   func(error) bool
	}{
		{"401", refusing(401), nil, func(err error) bool { var e *HTTPError; return errors.As(err, &e) && e.Status == 401 }},
		{"403", refusing(403), nil, func(err error) bool { var e *HTTPError; return errors.As(err, &e) && e.Status == 403 }},
		{"404", refusing(404), nil, func(err error) bool {
			var e *HTTPError
			return errors.As(err, &e) && e.Status == 404 && strings.HasPrefix(e.Detail, "refusal")
		}},
		{"replaced", nil, closing(wire.CloseReplaced), func(err error) bool { return errors.Is(err, ErrReplaced) }},
		{"protocol error", nil, closing(wire.CloseProtocolError), func(err error) bool { return err != nil }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := serve(t, test.refuse, test.answer)
			c, err := New(Config{URL: g.URL, Session: "demo", AgentID: "a1", Token: "secret", RetryMin: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Run(t.Context()); !test.want(err) {
				t.Errorf("Run: %v", err)
			}
			if n := c.Stats().Attempts; n != 1 {
				t.Errorf("%d attempts", n)
			}
		})
	}
}

func TestALogThatDoesNotReachBackStartsFromASnapshot(t *testing.T) {
	g := serve(t, nil, func(n int, s socket, _ wire.Hello) {
		switch n {
		case 0:
			s.welcome(1, true)
			s.entry(1)
			s.NetConn().Close()
		default:
			s.send(wire.Welcome{Type: wire.TypeWelcome, Session: "demo", Snapshot: &chatctx.Snapshot{Seq: 40, Items: chatctx.Items{}}, Seq: 40})
			s.entry(41)
			s.untilGone()
		}
	})
	seen := make(chan uint64, 9)
	c, _ := start(t, g, true, Handler{Entry: func(e chatctx.Entry) { seen <- e.Seq }})
	if a, b := <-seen, <-seen; a != 1 || b != 41 {
		t.Errorf("entries %d and %d, want 1 and 41", a, b)
	}
	if n := c.Chat().Seq(); n != 41 || c.Chat().Len() != 1 {
		t.Errorf("the mirror is at %d with %d items, want 41 with the one after the snapshot", n, c.Chat().Len())
	}
}

func TestImages(t *testing.T) {
	g := serve(t, nil, func(_ int, s socket, _ wire.Hello) {
		s.welcome(0, false)
		s.image(wire.ImageHeader{Source: "camera", Seq: 9, Superseded: 3}, "pushed")
		var ask wire.ImageRequest
		if s.read(wire.TypeImageRequest, &ask) {
			s.image(wire.ImageHeader{Source: ask.Source, Seq: 10, RequestID: ask.RequestID}, "asked")
		}
		if s.read(wire.TypeImageRequest, &ask) {
			s.send(wire.Error{Type: wire.TypeError, RequestID: ask.RequestID, Code: problem.ImageTimeout, Message: "none"})
		}
		if s.read(wire.TypeImageRequest, &ask) {
			s.NetConn().Close()
		}
	})
	pushed, attached := make(chan Image, 9), make(chan bool, 99)
	c, _ := start(t, g, false, Handler{Image: func(i Image) { pushed <- i }, Attached: func(wire.Welcome) { attached <- true }})
	<-attached
	if i := <-pushed; string(i.Data) != "pushed" || i.Seq != 9 || c.Stats().Superseded != 3 {
		t.Errorf("pushed %+v", i)
	}
	if i, err := c.RequestImage(t.Context(), wire.ImageRequest{Source: "camera"}); err != nil || string(i.Data) != "asked" {
		t.Errorf("asked: %+v, %v", i, err)
	}
	var refused *Refused
	if _, err := c.RequestImage(t.Context(), wire.ImageRequest{}); !errors.As(err, &refused) || refused.Answer.Code != problem.ImageTimeout {
		t.Errorf("refused: %v", err)
	}
	if _, err := c.RequestImage(t.Context(), wire.ImageRequest{}); !errors.Is(err, ErrDetached) {
		t.Errorf("cut: %v", err)
	}
}

func TestSaysByeAndLeavesNothingBehind(t *testing.T) {
	left := make(chan wire.Bye, 1)
	g := serve(t, nil, func(_ int, s socket, _ wire.Hello) {
		s.welcome(0, false)
		var bye wire.Bye
		if s.read(wire.TypeBye, &bye) {
			left <- bye
		}
		s.untilGone()
	})
	attached := make(chan bool, 1)
	_, stop := start(t, g, false, Handler{Attached: func(wire.Welcome) { attached <- true }})
	<-attached
	if err := stop(); err != nil {
		t.Errorf("Run: %v", err)
	}
	<-left // TestMain checks the goroutines
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ url, session, agent, want string }{
		{"localhost:8080", "demo", "a", "http://"},
		{"http://", "demo", "a", "no host"},
		{"http://h", "de mo", "a", `session "de mo"`},
		{"http://h", "demo", "", "agent id"},
	} {
		if _, err := New(Config{URL: test.url, Session: test.session, AgentID: test.agent}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	for claims, want := range map[string]string{`{"session":"other"}`: `the token is for session "other", not for "demo"`, `{"session":"demo"}`: "", `{"session":"*"}`: "", `{}`: "", `no json`: ""} {
		token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
		if _, err := New(Config{URL: "http://h", Session: "demo", AgentID: "a", Token: token}); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("a token that says %s: %v, want %q", claims, err, want)
		}
	}
}
