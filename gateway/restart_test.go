package gateway

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	chatctx "sightline/context"
)

// keptStore is a store that outlives its gateway, as one on disk does.
type keptStore struct{ chatctx.Store }

func (keptStore) Close() error { return nil }

// TestG2ARestartLosesNothing: a session that was alive sleeps, an agent resumes it, a deleted and an ended one stay what they were.
func TestG2ARestartLosesNothing(t *testing.T) {
	store, directory := keptStore{chatctx.NewMemStore()}, &chatctx.MemDirectory{}
	kept := func(c *Config) { c.Store, c.Directory, c.SessionGrace = store, directory, 200*time.Millisecond }
	g := startGateway(t, kept)
	for _, id := range []string{"alive", "ended", "deleted"} {
		g.createSession(id)
		if status, body, _ := g.do("POST", "/v1/sessions/"+id+"/context", `{"op_id":"1","item":{"type":"message","role":"user","content":"from before"}}`); status != 200 {
			t.Fatalf("append: %d %s", status, body)
		}
	}
	g.do("DELETE", "/v1/sessions/deleted", "")
	a, w := g.attach("alive", "a", `"want":{"context":true}`)
	eventually(t, func() string {
		if _, body, _ := g.do("GET", "/v1/sessions/ended", ""); !bytes.Contains(body, []byte(`"state":"ended"`)) {
			return "not ended: " + string(body)
		}
		return ""
	})
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	a.expectClose()

	g = startGateway(t, func(c *Config) { kept(c); c.SessionGrace = time.Minute })
	for id, state := range map[string]string{"alive": "stalled", "ended": "ended", "deleted": "ended"} {
		_, body, _ := g.do("GET", "/v1/sessions/"+id, "")
		if !bytes.Contains(body, fmt.Appendf(nil, `"state":"%s"`, state)) || !bytes.Contains(body, []byte(`"seq":1`)) {
			t.Errorf("%s after the restart: %s, want %s at seq 1", id, body, state)
		}
		if _, body, _ = g.do("GET", "/v1/sessions/"+id+"/context", ""); !bytes.Contains(body, []byte("from before")) {
			t.Errorf("%s: the conversation is gone: %s", id, body)
		}
	}
	b, again := g.attach("alive", "a", fmt.Sprintf(`"resume_from":1,"log_id":%q,"want":{"context":true}`, w["log_id"]))
	if again["replayed"] != true || again["log_id"] != w["log_id"] {
		t.Errorf("resume after the restart: %v", again)
	}
	b.send(`{"type":"context.append","op_id":"1","item":{"type":"message","role":"user","content":"again"}}`)
	if ack := b.expect("ack"); ack["duplicate"] != true || ack["seq"] != 1.0 {
		t.Errorf("the op_id of before the restart: %v, want the first answer", ack)
	}
	if _, res, err := g.tryDial("ended"); err == nil || res.StatusCode != 404 {
		t.Errorf("attach to an ended session: %v", res)
	}
	g.createSession("deleted")
	if _, body, _ := g.do("GET", "/v1/sessions/deleted/context", ""); bytes.Contains(body, []byte("from before")) {
		t.Errorf("the deleted session's id begins anew: %s", body)
	}
}

// TestASleeperThatNobodyWakesEnds after the grace, and is forgotten after the retention with all it had.
func TestASleeperThatNobodyWakesEnds(t *testing.T) {
	store, directory := chatctx.NewMemStore(), &chatctx.MemDirectory{}
	began := time.Now()
	err := directory.PutSession(t.Context(), chatctx.SessionRecord{ID: "s", Key: "k", CreatedAt: began})
	if err != nil {
		t.Fatal(err)
	}
	g := startGateway(t, func(c *Config) { c.Store, c.Directory = keptStore{store}, directory })
	g.sessions.sweep(began.Add(DefaultSessionGrace / 2))
	if asleep, ended := g.sessions.countResting(); asleep != 1 || ended != 0 {
		t.Errorf("within the grace: %d asleep, %d ended", asleep, ended)
	}
	g.sessions.sweep(began.Add(DefaultSessionGrace + time.Minute))
	if asleep, ended := g.sessions.countResting(); asleep != 0 || ended != 1 {
		t.Errorf("after the grace: %d asleep, %d ended", asleep, ended)
	}
	if records, _ := directory.Sessions(context.Background()); len(records) != 1 || records[0].EndedAt.IsZero() {
		t.Errorf("on record: %+v", records)
	}
	g.sessions.sweep(began.Add(DefaultRetention + time.Hour))
	if records, _ := directory.Sessions(context.Background()); len(records) != 0 {
		t.Errorf("after the retention: %+v", records)
	}
}
