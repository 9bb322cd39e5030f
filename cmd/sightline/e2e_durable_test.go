package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
)

// TestE2EG2KillLosesNothing kills the gateway (-9) in mid-call, three times, while one writes as fast as answers come: each
// acknowledged entry is there once, an attached agent gets every entry once over all of it, and the camera's session goes on.
func TestE2EG2KillLosesNothing(t *testing.T) {
	dir := t.TempDir()
	gateway := serveProcess(t, "--data-dir", dir)
	again := []string{"--listen", "127.0.0.1:" + gateway.Port, "--data-dir", dir}
	gateway.open("call")
	reader := gateway.attach("call", "reader", 2)
	defer reader.leave()
	reel := readFootage(t, faceClip)
	acked := map[string]int{} // op_id → seq
	for round := range 3 {
		camera := gateway.publish("call", reel, cameraOptions{})
		reader.forget()
		reader.awaitImages(20*time.Second, "images of the call", 2, func(agentclient.Image) bool { return true })
		kill := make(chan struct{})
		var writer sync.WaitGroup
		writer.Go(func() { writeUntilKilled(gateway.URL, round, acked, kill) })
		<-kill
		gateway.kill()
		writer.Wait()
		camera.leave()
		gateway = serveProcess(t, again...)
		if s := gateway.session("call"); s.State != "stalled" && s.State != "live" { // live: the reader is back already
			t.Errorf("after kill %d the session is %s", round+1, s.State)
		}
	}
	_, _, body := gateway.call("GET", "/v1/sessions/call/context", "", "")
	for op, seq := range acked {
		if n := strings.Count(string(body), `"`+op+`"`); n != 1 {
			t.Errorf("%s was acknowledged as entry %d and is there %d times", op, seq, n)
		}
	}
	head := gateway.session("call").Seq
	if len(acked) == 0 || head < uint64(len(acked)) {
		t.Fatalf("%d entries acknowledged, head %d", len(acked), head)
	}
	await(t, 20*time.Second, "the reader has every entry", func() (bool, string) {
		_, entries, _ := reader.seen()
		return uint64(len(entries)) >= head, fmt.Sprintf("%d of %d", len(entries), head)
	})
	_, entries, _ := reader.seen()
	for n, e := range entries {
		if e.Seq != uint64(n+1) {
			t.Fatalf("entry %d of the reader has seq %d", n+1, e.Seq)
		}
	}
	t.Logf("%d entries acknowledged over 3 kills, head %d", len(acked), head)
}

// writeUntilKilled appends one message after the other; it asks for the kill after some, and ends with the first that fails.
func writeUntilKilled(url string, round int, acked map[string]int, kill chan<- struct{}) {
	client := &http.Client{Timeout: 5 * time.Second}
	for n := range 100000 {
		op := fmt.Sprintf("op-%d-%d", round, n)
		body := fmt.Sprintf(`{"op_id":%q,"item":{"type":"message","role":"user","content":%q}}`, op, op)
		res, err := client.Post(url+"/v1/sessions/call/context", "application/json", strings.NewReader(body))
		if err != nil {
			return
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return
		}
		acked[op] = n
		if n == 150+37*round {
			close(kill)
		}
	}
}
