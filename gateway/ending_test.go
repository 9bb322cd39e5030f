package gateway

import (
	"bytes"
	"fmt"
	"testing"
)

// TestDeleteOfASessionThatIsJustEnding deletes it all the same: its id begins anew.
func TestDeleteOfASessionThatIsJustEnding(t *testing.T) {
	g := startGateway(t, nil)
	for i := range 30 {
		id := fmt.Sprint("s", i)
		g.createSession(id)
		if status, body, _ := g.do("POST", "/v1/sessions/"+id+"/context", `{"op_id":"1","item":{"type":"message","role":"user","content":"kept"}}`); status != 200 {
			t.Fatalf("append: %d %s", status, body)
		}
		live, _, err := g.sessions.lookup(id)
		if err != nil {
			t.Fatal(err)
		}
		live.End("the grace is over")
		if status, body, _ := g.do("DELETE", "/v1/sessions/"+id, ""); status != 200 || !bytes.Contains(body, []byte(`"ended"`)) {
			t.Errorf("DELETE: %d %s", status, body)
		}
		g.createSession(id)
		if _, body, _ := g.do("GET", "/v1/sessions/"+id+"/context", ""); bytes.Contains(body, []byte("kept")) {
			t.Fatalf("round %d: the deleted conversation goes on: %s", i, body)
		}
	}
}
