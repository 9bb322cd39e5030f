package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sightline/gateway/sound/soundtest"
)

// TestToolsAndSwitchesAcrossNodes: the session is on node a; a leg and an agent with tools are attached through b, another leg through
// a. A switch asked for on either node, a tool's call and its result work as on one. When a goes away, what was registered through b
// still stands on b.
func TestToolsAndSwitchesAcrossNodes(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.createSession("demo")
	far, near := b.leg("demo", "far", `{"context":true}`), a.leg("demo", "near", `{"context":true}`)
	hands := b.leg("demo", "hands", `{}`)
	far.register("one", "cascade")
	near.register("two", "realtime")
	tools := `{"type":"tools.set","op_id":"tools","tools":[{"name":"lookup","description":"finds","parameters":{"type":"object"}}]}`
	hands.send(tools)
	hands.find("ack", byOp("tools"))

	answer := make(chan string, 1)
	post := func(g *nodeUnderTest, op, target string) {
		status, body, _ := g.do("POST", "/v1/sessions/demo/pipeline", fmt.Sprintf(`{"op_id":%q,"target":%q,"at":"now"}`, op, target))
		answer <- fmt.Sprint(status, " ", string(body))
	}
	go post(b, "s1", "one")
	epoch, _, _ := far.commits()
	if got := <-answer; !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"to":"one"`) {
		t.Fatalf("a switch asked for on b: %s", got)
	}
	far.sendf(`{"type":"leg.tool_call","epoch":%d,"call_id":"c1","name":"lookup","arguments":"{}"}`, epoch)
	hands.find("tool.call", func(m map[string]any) bool { return m["call_id"] == "c1" })
	hands.send(`{"type":"tool.result","call_id":"c1","output":"found"}`)
	result := far.find("leg.tool_result", nil)
	if result["output"] != "found" || result["call_id"] != "c1" {
		t.Errorf("%v", result)
	}
	near.find("context.entry", entryOf("function_call_output"))

	go post(a, "s2", "two")
	near.commits()
	if got := <-answer; !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"to":"two"`) {
		t.Fatalf("a switch asked for on a: %s", got)
	}
	far.find("leg.stop", nil)

	a.stop()
	go post(b, "s3", "one") // far is registered on b by now, or will be
	eventually(t, func() string {
		select {
		case got := <-answer:
			if strings.HasPrefix(got, "200 ") {
				return ""
			}
			go post(b, "s3", "one")
			return got
		default:
		}
		far.mu.Lock()
		defer far.mu.Unlock()
		for i, m := range far.got {
			if m["type"] == "leg.start" {
				far.got = append(far.got[:i], far.got[i+1:]...)
				far.sendf(`{"type":"leg.ready","epoch":%d}`, int(m["epoch"].(float64)))
				break
			}
		}
		return "the leg that was registered through b cannot be switched to when a is gone"
	})
	hands.send(`{"type":"ping","id":"all read"}`)
	hands.find("pong", nil)
	if n := hands.all("ack"); n != 0 {
		t.Errorf("the tools were acknowledged again, %d times", n)
	}
	if n := hands.all("welcome"); n != 1 {
		t.Errorf("%d welcomes", n)
	}
}

func TestSoundAcrossNodes(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.createSession("demo")
	caller := soundtest.Call(t, a.url, "demo")
	leg := b.leg("demo", "far", `{"transcripts":true}`)
	leg.send(`{"type":"leg.register","op_id":"r","name":"mine","kind":"realtime"}`)
	leg.find("ack", byOp("r"))
	leg.send(`{"type":"pipeline.switch","op_id":"s","target":"mine"}`)
	epoch, _, _ := leg.commits()
	caller.Say(16000, speech(t, 2*time.Second))
	leg.find("speech.started", nil)
	leg.find("audio", nil)
	leg.find("speech.stopped", func(m map[string]any) bool { return m["final"] == true })
	from := time.Now()
	leg.sendSound(fmt.Sprintf(`{"type":"audio","epoch":%d,"item_id":"turn-1","rate":24000,"format":"pcm_s16le","text":"hum"}`, epoch), tone(24000, time.Second))
	leg.sendf(`{"type":"leg.turn_done","epoch":%d,"item_id":"turn-1","status":"completed"}`, epoch)
	caller.WaitHeard(testTimeout, "the tone of the leg on the other node", func() bool { return caller.Loud(from) >= 900*time.Millisecond })
	if played := leg.find("played", nil); played["text_heard"] != "hum" {
		t.Errorf("played %v", played)
	}
}
