package socket_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"sightline/switcher"
	"sightline/switcher/internal/socket"
	"sightline/switcher/internal/sockettest"
)

func TestAQueueKeepsOrderAndCounts(t *testing.T) {
	q := socket.NewQueue(func(n int) int { return max(n, 0) })
	for _, n := range []int{3, -1, 5, -2} {
		q.Put(n)
	}
	if words, samples := q.Load(); words != 2 || samples != 8 {
		t.Errorf("%d words, %d samples", words, samples)
	}
	if n := q.Remove(1, func(n int) bool { return n > 0 }); n != 1 {
		t.Errorf("%d removed", n)
	}
	var got []int
	for n, ok := q.Take(); ok; n, ok = q.Take() {
		got = append(got, n)
	}
	if words, samples := q.Load(); !slices.Equal(got, []int{-1, 5, -2}) || words != 0 || samples != 0 {
		t.Errorf("%v, %d words, %d samples left", got, words, samples)
	}
}

func TestSecretsAreHidden(t *testing.T) {
	s := socket.Secret("a key/+")
	if got := s.Hide("a key/+ a+key%2F%2B other"); got != "… … other" {
		t.Errorf("%q", got)
	}
	plain := errors.New("no key")
	if s.HideIn(plain) != plain || s.HideIn(nil) != nil || strings.Contains(s.HideIn(fmt.Errorf("bad a key/+")).Error(), "key/") || socket.Secret("").Hide("x") != "x" {
		t.Error("an error is changed, or shows the key")
	}
}

func TestAddresses(t *testing.T) {
	for base, want := range map[string]string{
		"https://h/v1": "wss://h/v1/p", "http://h:1/": "ws://h:1/p", "wss://h?a=b": "wss://h/p?a=b", "ws://h": "ws://h/p", "h": "", "ftp://h": "", "https://": "", "%": "",
	} {
		if u, err := socket.Address(base, "/p"); err == nil && u.String() != want || (err != nil) != (want == "") {
			t.Errorf("%s: %v, %v", base, u, err)
		}
	}
}

func TestIDsAreOurs(t *testing.T) {
	first, again := socket.ID("a b"), socket.ID("a b")
	if socket.ID("call_1") != "call_1" || first == socket.ID("a c") || first != again || len(socket.ID(strings.Repeat("x", 99))) > 64 {
		t.Error("ids of providers")
	}
}

// with runs body with an open Socket to a peer.
func with(t *testing.T, times socket.Times, peer func(*websocket.Conn), body func(s *socket.Socket)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		served := make(chan struct{})
		dial, stop := sockettest.Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(served)
			ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = ws.Close() }()
			peer(ws)
		}))
		conn, err := socket.Dialer{Provider: "peer", Dial: dial, Timeout: time.Second}.Open(t.Context(), "ws://peer/", nil)
		if err != nil {
			t.Fatal(err)
		}
		s := socket.Open(t.Context(), conn, times)
		body(s)
		s.Close()
		<-served
		stop()
	})
}

var minute = socket.Times{Write: time.Minute, Pong: time.Minute}

func drain(ws *websocket.Conn) error {
	for {
		if _, _, err := ws.ReadMessage(); err != nil {
			return err
		}
	}
}

func TestG13MessagesGoBothWaysAndNothingIsLeft(t *testing.T) {
	with(t, minute, func(ws *websocket.Conn) {
		for {
			kind, data, err := ws.ReadMessage()
			if err != nil {
				return
			}
			_ = ws.WriteMessage(kind, append(data, '!'))
		}
	}, func(s *socket.Socket) {
		s.Send.Put(socket.Message{Data: []byte("text")})
		s.Send.Put(socket.Message{Data: []byte("sound"), Binary: true, Samples: 2})
		if f := <-s.Frames; string(f.Data) != "text!" || f.Binary {
			t.Errorf("%q %t", f.Data, f.Binary)
		}
		if f := <-s.Frames; string(f.Data) != "sound!" || !f.Binary {
			t.Errorf("%q %t", f.Data, f.Binary)
		}
	})
}

// TestASilentPeerIsGivenUp, one that answers pings is not, nor one that nobody listens to.
func TestASilentPeerIsGivenUp(t *testing.T) {
	with(t, minute, func(ws *websocket.Conn) {
		ws.SetPingHandler(func(string) error { return nil })
		_ = drain(ws)
	}, func(s *socket.Socket) {
		begun := time.Now()
		var e *socket.Broken
		if err := <-s.Ended; !errors.As(err, &e) || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
	with(t, minute, func(ws *websocket.Conn) { _ = drain(ws) }, func(s *socket.Socket) {
		time.Sleep(10 * time.Minute)
		select {
		case err := <-s.Ended:
			t.Errorf("given up: %v", err)
		default:
		}
	})
	with(t, minute, func(ws *websocket.Conn) {
		_ = ws.WriteMessage(websocket.TextMessage, []byte("1"))
		ws.SetPingHandler(func(string) error { return nil }) // the pipe of the test holds no answer that nobody reads
		_ = drain(ws)
	}, func(s *socket.Socket) {
		time.Sleep(10 * time.Minute)
		<-s.Frames
		time.Sleep(time.Second)
		select {
		case err := <-s.Ended:
			t.Errorf("given up: %v", err)
		default:
		}
	})
}

func TestClosesAreExplained(t *testing.T) {
	d := socket.Dialer{Provider: "peer", Secret: "s3cret"}
	for _, c := range []struct {
		code int
		text string
		want string
		try  bool
	}{
		{1000, "", "connect", true}, {1001, "maximum duration of 60 minutes", "expired", true}, {1007, "bad", "protocol", true}, {1007, "API key not valid", "auth", false},
		{1008, "no", "refused", false}, {1008, "unauthorized", "auth", false}, {1011, "", "overloaded", true}, {1011, "quota", "quota", false}, {1012, "", "overloaded", true}, {4000, "", "protocol", true},
	} {
		e := d.Closed(fmt.Errorf("read: %w", &websocket.CloseError{Code: c.code, Text: c.text + " s3cret " + strings.Repeat("x", 999)}))
		if e.Code != c.want || e.Retryable != c.try || strings.Contains(e.Message, "s3cret") || len(e.Message) > 400 {
			t.Errorf("%d %s: %+v", c.code, c.text, e)
		}
	}
	if e := d.Closed(errors.New("reset")); e.Code != "connect" || !e.Retryable {
		t.Errorf("%+v", e)
	}
	for status, want := range map[int]string{401: "auth", 402: "quota", 403: "auth", 404: "invalid", 429: "overloaded", 500: "connect"} {
		if e := socket.Refused("peer", status); e.Code != want || e.Retryable != (status == 429 || status >= 500) {
			t.Errorf("%d: %+v", status, e)
		}
	}
}

func TestTheSessionsSideIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := switcher.NewInbox(16000, 0)
		gate := make(chan struct{})
		s := socket.Join(t.Context(), in, func(ctx context.Context, _ switcher.Output) error {
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		s.Feed()
		for range 300 {
			s.Out.Put(switcher.SoundOut{Item: "a", Rate: 24000, PCM: make([]int16, 24000)})
		}
		synctest.Wait()
		if !s.Full(24000) {
			t.Error("five minutes of sound are not too much")
		}
		s.Out.Put(switcher.TurnDoneOut{Item: "a"})
		s.Unsay("a")
		if words, samples := s.Out.Load(); s.Full(24000) || words != 1 || samples != 0 {
			t.Errorf("%d words, %d samples are left", words, samples)
		}
		if err := in.Put(switcher.FloorIn{}); err != nil {
			t.Fatal(err)
		}
		if _, ok := (<-s.Inputs).(switcher.FloorIn); !ok {
			t.Error("the inbox is not read")
		}
		close(gate)
		synctest.Wait()
		s.Close()
	})
}
