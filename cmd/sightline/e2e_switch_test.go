package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/wire"
)

// runtimeLeg runs the real sightline-agent as a pipeline of the session until the test ends, or kill.
type runtimeLeg struct {
	t    *testing.T
	cmd  *exec.Cmd
	said lockedBuffer
	done chan struct{}
}

func startRuntime(t *testing.T, s *served, session, name string) *runtimeLeg {
	t.Helper()
	r := &runtimeLeg{t: t, done: make(chan struct{})}
	r.cmd = exec.Command(agentBinary(t), "--url", s.URL, "--session", session, "--agent-id", name, "--leg", "realtime", "--fps", "0")
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(r.done); _ = r.cmd.Wait() }()
	t.Cleanup(func() { r.kill(syscall.SIGTERM) })
	s.untilLeg(session, name, true)
	return r
}

func (r *runtimeLeg) kill(with os.Signal) {
	_ = r.cmd.Process.Signal(with) // fails when it has ended
	<-r.done
}

// untilLeg waits until a leg of that name is known, or is not.
func (s *served) untilLeg(session, name string, there bool) {
	s.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, _, body := s.call("GET", "/v1/sessions/"+session, "", "")
		if bytes.Contains(body, []byte(`"name":"`+name+`"`)) == there {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("leg %s there: want %v; the session is %s", name, there, body)
		}
		time.Sleep(20 * time.Millisecond) // polls a condition
	}
}

// switchTo switches and gives the result.
func (s *served) switchTo(session, target, at string) wire.SwitchResult {
	s.t.Helper()
	status, _, body := s.call("POST", "/v1/sessions/"+session+"/pipeline", "application/json",
		fmt.Sprintf(`{"op_id":"switch-%d","target":%q,"at":%q,"max_wait_ms":15000}`, time.Now().UnixNano(), target, at))
	var r wire.SwitchResult
	if status != 200 {
		s.t.Fatalf("switch to %s: %d %s\n%s", target, status, body, s.stderr.tail(4<<10))
	}
	if err := json.Unmarshal(body, &r); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// types puts a message of the user into the conversation.
func (s *served) types(session, id, text string) {
	s.t.Helper()
	status, _, body := s.call("POST", "/v1/sessions/"+session+"/context", "application/json",
		fmt.Sprintf(`{"op_id":"typed-%s","item":{"type":"message","id":%q,"role":"user","content":%q}}`, id, id, text))
	if status != 200 {
		s.t.Fatalf("typing %q: %d %s", text, status, body)
	}
}

// messages are the texts of the conversation, with who said them.
func messages(items chatctx.Items) (all []string) {
	for _, item := range items {
		if m, ok := item.(*chatctx.Message); ok {
			all = append(all, string(m.Role)+": "+m.Content.Text())
		}
	}
	return all
}

func TestE2ESwitchKeepsWhatWasSaid(t *testing.T) {
	s := serve(t, "--pipeline", "local")
	caller := callAndTalk(t, s, "demo")
	startRuntime(t, s, "demo", "runtime")

	caller.tells(s, "demo", "My order number is four seven one one.", "4 7 1 1")
	r := s.switchTo("demo", "realtime", "turn_end")
	if r.To != "runtime" || r.From != "local" || r.Noop || r.SeededItems < 2 {
		t.Errorf("switch: %+v", r)
	}
	at, answer := caller.tells(s, "demo", "What was my order number?", "4 7 1 1")
	if heard, ok := caller.hears(at, "four seven one one"); !ok {
		t.Errorf("answered %q, the caller understood %q", answer, heard)
	}

	// Back, and a tool: it runs once in the whole call, whoever has the floor.
	s.switchTo("demo", "local", "turn_end")
	before := s.messages("demo")
	s.types("demo", "t1", "look up my order")
	_, answer = s.answered("demo", before)
	if !strings.Contains(answer, "4 7 1 1") {
		t.Errorf("looked up: %q", answer)
	}

	// 20 round trips. Each leg answers once while it has the floor, and every word of it is heard.
	from := time.Now()
	spoken := s.messages("demo")
	n := spoken
	for i := range 20 {
		for _, target := range []string{"runtime", "local"} {
			if r := s.switchTo("demo", target, "turn_end"); r.To != target || r.Noop {
				t.Fatalf("round %d: %+v", i, r)
			}
			s.types("demo", fmt.Sprintf("thanks-%d-%s", i, target), "thanks")
			s.answered("demo", n)
			n += 2
		}
	}
	items := s.conversation("demo")
	all := messages(items)
	want := all[:spoken:spoken]
	for range 40 {
		want = append(want, "user: thanks", "assistant: You are welcome.")
	}
	if !slices.Equal(all, want) {
		t.Errorf("the conversation is\n%s", strings.Join(all, "\n"))
	}
	calls, outputs, interrupted := 0, 0, 0
	for _, item := range items {
		switch m := item.(type) {
		case *chatctx.FunctionCall:
			calls++
		case *chatctx.FunctionCallOutput:
			outputs++
		case *chatctx.Message:
			if m.Interrupted {
				interrupted++
			}
		}
	}
	if calls != 1 || outputs != 1 || interrupted != 0 {
		t.Errorf("%d calls, %d outputs, %d interrupted messages: want 1, 1, 0", calls, outputs, interrupted)
	}
	if loud := caller.Loud(from); loud < 40*500*time.Millisecond {
		t.Errorf("of 40 answers the caller heard %s", loud)
	}
	checkStream(t, caller)
}

// checkStream: one stream over all switches, without overlap: sequence numbers go up by one, timestamps never go back.
func checkStream(t *testing.T, caller *talker) {
	t.Helper()
	packets := caller.Packets()
	for i := 1; i < len(packets); i++ {
		a, b := packets[i-1], packets[i]
		if b.SSRC != a.SSRC || b.Seq != a.Seq+1 {
			t.Errorf("packet %d: SSRC %d seq %d after SSRC %d seq %d", i, b.SSRC, b.Seq, a.SSRC, a.Seq)
			return
		}
		if step := int32(b.Timestamp - a.Timestamp); step < 960 || !b.Marker && step != 960 {
			t.Errorf("packet %d: %d ticks after the one before (marker %v): an overlap or a gap inside a turn", i, step, b.Marker)
			return
		}
	}
}

func TestE2EARuntimeIsKilledAndComesBack(t *testing.T) {
	s := serve(t, "--pipeline", "local")
	caller := callAndTalk(t, s, "demo")
	first := startRuntime(t, s, "demo", "runtime")
	caller.tells(s, "demo", "My order number is four seven one one.", "4 7 1 1")
	s.switchTo("demo", "runtime", "turn_end")
	first.kill(syscall.SIGKILL)
	s.untilLeg("demo", "runtime", false)
	deadline := time.Now().Add(20 * time.Second)
	for { // a built-in one takes over by itself
		_, _, body := s.call("GET", "/v1/sessions/demo", "", "")
		if bytes.Contains(body, []byte(`"active_leg":"local`)) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody took over: %s", body)
		}
		time.Sleep(20 * time.Millisecond) // polls a condition
	}
	at, answer := caller.tells(s, "demo", "What was my order number?", "4 7 1 1")
	if heard, ok := caller.hears(at, "four seven one one"); !ok {
		t.Errorf("answered %q, the caller understood %q", answer, heard)
	}
	startRuntime(t, s, "demo", "runtime")
	if r := s.switchTo("demo", "runtime", "turn_end"); r.To != "runtime" {
		t.Errorf("switch back: %+v", r)
	}
	before := s.messages("demo")
	s.types("demo", "again", "what was my order number?")
	if _, answer := s.answered("demo", before); !strings.Contains(answer, "4 7 1 1") {
		t.Errorf("the runtime that came back answered %q", answer)
	}
}

// TestE2EG2TheGatewayIsKilledInMidCall: after kill -9 and a restart the caller comes back, and the pipeline that had the floor
// goes on from the log.
func TestE2EG2TheGatewayIsKilledInMidCall(t *testing.T) {
	dir := t.TempDir()
	gateway := serveProcess(t, "--data-dir", dir, "--pipeline", "local")
	caller := callAndTalk(t, gateway.served, "demo")
	caller.tells(gateway.served, "demo", "My order number is four seven one one.", "4 7 1 1")
	before := messages(gateway.conversation("demo"))
	gateway.kill()
	caller.Vanish()

	gateway = serveProcess(t, "--listen", "127.0.0.1:"+gateway.Port, "--data-dir", dir, "--pipeline", "local")
	caller = callAndTalk(t, gateway.served, "demo")
	at, answer := caller.tells(gateway.served, "demo", "What was my order number?", "4 7 1 1")
	if heard, ok := caller.hears(at, "four seven one one"); !ok {
		t.Errorf("answered %q, the caller understood %q", answer, heard)
	}
	if after := messages(gateway.conversation("demo")); !slices.Equal(after[:len(before)], before) {
		t.Errorf("before the kill %q, after it %q", before, after)
	}
}
