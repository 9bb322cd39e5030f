package gateway

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sightline/gateway/sound/soundtest"
)

// speech is somebody speaking, PCM16 mono at 16 kHz, from the beginning of the clip.
func speech(t *testing.T, length time.Duration) []int16 {
	t.Helper()
	data, err := os.ReadFile("sound/testdata/speech/jfk.wav")
	if err != nil {
		t.Fatal(err)
	}
	pcm := make([]int16, length*16000/time.Second)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(data[44+2*i:]))
	}
	return pcm
}

func tone(rate int, length time.Duration) []byte {
	var out []byte
	for i := range int(length * time.Duration(rate) / time.Second) {
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(8000*math.Sin(2*math.Pi*440*float64(i)/float64(rate)))))
	}
	return out
}

func (l *legSocket) sendSound(header string, payload []byte) {
	l.t.Helper()
	message := binary.BigEndian.AppendUint32(nil, uint32(len(header)))
	message = append(append(message, header...), payload...)
	if err := l.conn.WriteMessage(websocket.BinaryMessage, message); err != nil {
		l.t.Fatal(err)
	}
}

// talking is a call with a remote leg that has the floor.
func talking(t *testing.T) (g *gatewayUnderTest, caller *soundtest.Caller, leg *legSocket, epoch int) {
	t.Helper()
	g = startGateway(t, nil)
	g.createSession("demo")
	leg = g.leg("demo", "runtime", `{"context":true,"transcripts":true}`)
	leg.send(`{"type":"leg.register","op_id":"r","name":"mine","kind":"realtime"}`)
	leg.find("ack", byOp("r"))
	leg.send(`{"type":"pipeline.switch","op_id":"s","target":"mine"}`)
	epoch, _, _ = leg.commits()
	caller = soundtest.Call(t, g.url, "demo")
	return g, caller, leg, epoch
}

func TestALegHearsTheCallerAndTheCallerHearsTheLeg(t *testing.T) {
	_, caller, leg, epoch := talking(t)
	caller.Say(16000, speech(t, 2500*time.Millisecond))
	leg.find("speech.started", func(m map[string]any) bool { return m["who"] == "caller" })
	leg.find("audio", func(m map[string]any) bool { return m["rate"] == 16000.0 && int(m["epoch"].(float64)) == epoch })
	leg.find("speech.stopped", func(m map[string]any) bool { return m["final"] == true })
	leg.sendf(`{"type":"leg.transcript","epoch":%d,"item_id":"heard-1","who":"caller","text":"my fellow Americans","final":true}`, epoch)

	from := time.Now()
	for _, piece := range []string{"Ask not ", "what."} {
		leg.sendSound(fmt.Sprintf(`{"type":"audio","epoch":%d,"item_id":"turn-1","rate":24000,"format":"pcm_s16le","text":%q}`, epoch, piece), tone(24000, 500*time.Millisecond))
	}
	leg.sendf(`{"type":"leg.text","epoch":%d,"item_id":"turn-1","delta":"Ask not what."}`, epoch)
	leg.sendf(`{"type":"leg.turn_done","epoch":%d,"item_id":"turn-1","status":"completed"}`, epoch)
	played := leg.find("played", nil)
	if ms := played["played_ms"].(float64); ms < 980 || ms > 1020 || played["interrupted"] != false || played["text_heard"] != "Ask not what." {
		t.Errorf("played %v, want 1000 ms of it", played)
	}
	caller.WaitHeard(testTimeout, "the whole tone", func() bool { return caller.Loud(from) >= 960*time.Millisecond })
	user := leg.find("context.entry", said("user", "my fellow Americans"))
	answer := leg.find("context.entry", said("assistant", "Ask not what."))
	if user["seq"].(float64) > answer["seq"].(float64) {
		t.Errorf("the answer (%v) stands before what it answers (%v)", answer["seq"], user["seq"])
	}
}

func TestG8TheCallerInterruptsAndTheConversationKeepsWhatWasHeard(t *testing.T) {
	_, caller, leg, epoch := talking(t)
	words := strings.Fields("one two three four five six seven eight nine ten")
	from := time.Now()
	for _, w := range words {
		leg.sendSound(fmt.Sprintf(`{"type":"audio","epoch":%d,"item_id":"turn-1","rate":16000,"format":"pcm_s16le","text":"%s "}`, epoch, w), tone(16000, 500*time.Millisecond))
	}
	leg.sendf(`{"type":"leg.text","epoch":%d,"item_id":"turn-1","delta":%q}`, epoch, strings.Join(words, " "))
	leg.sendf(`{"type":"leg.turn_done","epoch":%d,"item_id":"turn-1","status":"completed"}`, epoch)
	caller.WaitHeard(testTimeout, "the first words", func() bool { return caller.Loud(from) > time.Second })
	caller.Say(16000, speech(t, 2*time.Second))
	stopped := leg.find("leg.interrupt", nil)
	ms := stopped["played_ms"].(float64)
	if stopped["item_id"] != "turn-1" || ms < 1000 || ms > 3000 {
		t.Errorf("leg.interrupt %v", stopped)
	}
	heard := time.Duration(ms) * time.Millisecond
	// The conversation has the words of which the sound was heard, and no other.
	entry := leg.find("context.entry", func(m map[string]any) bool {
		item, _ := m["item"].(map[string]any)
		return item["role"] == "assistant" && item["interrupted"] == true
	})
	text := itemText(entry)
	least, most := int(heard/(500*time.Millisecond)), int(heard/(500*time.Millisecond))+1
	if n := len(strings.Fields(text)); n < least || n > most || !strings.HasPrefix(strings.Join(words, " "), strings.TrimSpace(text)) {
		t.Errorf("recorded %q after %s were heard", text, heard)
	}
	if got := entry["item"].(map[string]any)["text_generated"]; got != strings.Join(words, " ") {
		t.Errorf("text_generated %q", got)
	}
	leg.find("speech.stopped", func(m map[string]any) bool { return m["final"] == true && m["who"] == "caller" })
	if loud := caller.Loud(from); loud > heard+300*time.Millisecond { // what was on its way, the fade, and what the jitter buffer makes up on a loaded machine
		t.Errorf("the caller heard %s, the gateway says %s", loud, heard)
	}
}

func TestAnAgentHearsTheCaller(t *testing.T) {
	g := startGateway(t, nil)
	caller := soundtest.Call(t, g.url, "demo")
	listener := g.leg("demo", "listener", `{"audio":{"in":true,"rate":24000},"transcripts":true}`)
	caller.Say(16000, speech(t, 2*time.Second))
	listener.find("speech.started", nil)
	if _, body, _ := g.do("GET", "/v1/sessions/demo", ""); !strings.Contains(string(body), `"state":"live"`) {
		t.Errorf("a call of sound alone: %s", body)
	}
	first := listener.find("audio", nil)
	if first["rate"] != 24000.0 || first["who"] != "caller" || first["format"] != "pcm_s16le" {
		t.Errorf("audio %v", first)
	}
	listener.find("speech.stopped", nil)
	listener.send(`{"type":"want","want":{}}`)
	listener.send(`{"type":"ping","id":"no more"}`)
	listener.find("pong", nil)
}

func TestSayAndInterrupt(t *testing.T) {
	g, caller, leg, _ := talking(t)
	from := time.Now()
	leg.sendSound(`{"type":"say","op_id":"chime","rate":8000,"format":"pcm_s16le","text":"(a chime)"}`, tone(8000, 400*time.Millisecond))
	leg.find("ack", byOp("chime"))
	caller.WaitHeard(testTimeout, "the chime", func() bool { return caller.Loud(from) >= 360*time.Millisecond })
	leg.find("context.entry", said("assistant", "(a chime)"))
	leg.sendSound(`{"type":"say","op_id":"long","rate":8000,"format":"pcm_s16le"}`, tone(8000, 20*time.Second))
	leg.find("ack", byOp("long"))
	caller.WaitHeard(testTimeout, "the long one", func() bool { return caller.Loud(from) >= time.Second })
	leg.send(`{"type":"interrupt","op_id":"stop"}`)
	leg.find("ack", byOp("stop"))
	heard := leg.find("played", func(m map[string]any) bool { return m["item_id"] == "long" })
	if heard["interrupted"] != true || heard["played_ms"].(float64) > 5000 {
		t.Errorf("played %v", heard)
	}
	_, body, _ := g.do("GET", "/v1/sessions/demo", "")
	if !strings.Contains(string(body), `"active_leg":"mine"`) {
		t.Errorf("session %s", body)
	}
}

func TestSoundIsCounted(t *testing.T) {
	g, caller, leg, epoch := talking(t)
	from := time.Now()
	leg.sendSound(fmt.Sprintf(`{"type":"audio","epoch":%d,"item_id":"turn-1","rate":16000,"format":"pcm_s16le"}`, epoch), tone(16000, 500*time.Millisecond))
	leg.sendf(`{"type":"leg.turn_done","epoch":%d,"item_id":"turn-1","status":"completed"}`, epoch)
	leg.find("played", nil)
	caller.WaitHeard(testTimeout, "the tone", func() bool { return caller.Loud(from) >= 400*time.Millisecond })
	check := func(when string) {
		t.Helper()
		_, body, _ := g.do("GET", "/metrics", "")
		for _, want := range []string{"sightline_sound_played_seconds_total 0.5", "sightline_pipeline_switches_total{result=\"committed\"} 1"} {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s: no %q in /metrics", when, want)
			}
		}
		for _, some := range []string{"sightline_sound_packets_sent_total ", "sightline_sound_packets_received_total "} {
			if i := strings.Index(string(body), "\n"+some); i < 0 || string(body)[i+1+len(some)] == '0' {
				t.Errorf("%s: %s is missing or 0", when, some)
			}
		}
	}
	caller.Say(16000, speech(t, 200*time.Millisecond))
	leg.find("audio", nil)
	check("in the call")
	caller.Hangup()
	g.do("DELETE", "/v1/sessions/demo", "")
	check("after it")
}
