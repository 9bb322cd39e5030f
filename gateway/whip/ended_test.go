package whip

import (
	"fmt"
	"testing"
	"time"
)

// A client that hangs up closes its connection and sends DELETE; where the close is first, the DELETE is answered as what it is.
func TestDeleteBehindThePublicationsOwnEnd(t *testing.T) {
	sessions := &fakeSessions{}
	h := New(Config{Sessions: sessions})
	resp := request{"POST", "/whip/demo", mediaSDP, "v=0", nil}.do(t, h)
	wantStatus(t, resp, 201, "")
	url := resp.Header.Get("Location")[len("http://gateway.example:8080"):]
	sessions.last(t).Close("the connection was closed")
	for h.Len() != 0 {
		time.Sleep(time.Millisecond) // polls a condition
	}
	wantStatus(t, request{"GET", url, "", "", nil}.do(t, h), 404, "not_found")
	wantStatus(t, request{"DELETE", url, "", "", nil}.do(t, h), 200, "")
	wantStatus(t, request{"DELETE", url, "", "", nil}.do(t, h), 404, "not_found")
}

func TestEndingsAreBounded(t *testing.T) {
	var e endings
	now := time.Unix(0, 0)
	for i := range endedMost + 1 {
		e.add(fmt.Sprint(i), "s", now)
	}
	if _, ok := e.take("0", now); ok || len(e.sessions) != endedMost || len(e.order) != endedMost {
		t.Errorf("the oldest is known still, of %d and %d", len(e.sessions), len(e.order))
	}
	if session, ok := e.take("1", now); !ok || session != "s" {
		t.Errorf("the next one is not known: %q", session)
	}
	if _, ok := e.take("2", now.Add(endedFor)); ok || len(e.sessions) != 0 || len(e.order) != 0 {
		t.Errorf("%d and %d are known too long", len(e.sessions), len(e.order))
	}
}
