package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	chatctx "sightline/context"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
	"sightline/switcher"
)

// speechClip is a person speaking, 16 kHz mono; its source and licence stand beside it.
const speechClip = "../../gateway/sound/testdata/speech/jfk.wav"

// fakeMicrophone is Chromium's microphone played from a file: two and a half seconds of speech, then silence, over and over.
func fakeMicrophone(t *testing.T) map[string]any {
	t.Helper()
	name := filepath.Join(t.TempDir(), "microphone.wav")
	ffmpeg(t, "-t", "2.5", "-i", speechClip, "-af", "apad=whole_dur=10", "-ar", "48000", "-ac", "2", name)
	return map[string]any{"use-fake-ui-for-media-stream": true, "use-fake-device-for-media-stream": true, "use-file-for-fake-audio-capture": name}
}

// toneLeg is a pipeline whose voice is a tone, so that a test can tell whose it hears. It answers what is said by one word of
// half a second each, what is typed by the same words again.
type toneLeg struct {
	hz     float64
	epoch  uint64
	mu     sync.Mutex
	turns  int
	square float64 // of the loudest 20 ms heard, mean square
}

// asked are the words that the leg understands of any speech.
const asked = "ask not what your country can do for you"

func (l *toneLeg) Run(ctx context.Context, start switcher.Start, in *switcher.Inbox, out switcher.Emit) error {
	l.epoch = start.Epoch
	if err := out(ctx, switcher.ReadyOut{}); err != nil {
		return nil
	}
	floor := false
	for {
		input, err := in.Next(ctx)
		if err != nil {
			return nil
		}
		switch m := input.(type) {
		case switcher.FloorIn:
			floor = true
		case switcher.SoundIn:
			l.hear(m.PCM)
		case switcher.CallerSpeechIn:
			if floor {
				l.listen(ctx, m, out)
			}
		case switcher.ItemIn:
			if text := itemWords(m); floor && m.Respond && strings.HasPrefix(text, "tool") {
				_ = out(ctx, switcher.ToolCallOut{CallID: text[len("tool "):], Name: "lookup_order", Arguments: `{"number":"4711"}`})
			} else if floor && m.Respond {
				l.say(ctx, out, strings.Fields(text))
			}
		case switcher.ToolResultIn:
			l.say(ctx, out, []string{"looked", "up"})
		}
	}
}

func itemWords(m switcher.ItemIn) string {
	if message, ok := m.Item.(*chatctx.Message); ok {
		return message.Content.Text()
	}
	return ""
}

// listen makes a transcript of speech, bit by bit, and answers its end.
func (l *toneLeg) listen(ctx context.Context, m switcher.CallerSpeechIn, out switcher.Emit) {
	l.mu.Lock()
	item := fmt.Sprintf("heard-%d-%d", l.epoch, l.turns)
	l.mu.Unlock()
	_ = out(ctx, switcher.TranscriptOut{Item: item, Text: asked[:len("ask not")]})
	if !m.Final {
		return
	}
	_ = out(ctx, switcher.TranscriptOut{Item: item, Text: asked, Final: true})
	l.say(ctx, out, []string{"I", "heard", "you"})
}

// say speaks words, each half a second of the tone.
func (l *toneLeg) say(ctx context.Context, out switcher.Emit, words []string) {
	const rate = 24000
	l.mu.Lock()
	l.turns++
	item := fmt.Sprintf("turn-%d-%d", l.epoch, l.turns)
	l.mu.Unlock()
	for i, w := range words {
		if i > 0 {
			w = " " + w
		}
		pcm := make([]int16, rate/2)
		for n := range pcm {
			pcm[n] = int16(9000 * math.Sin(2*math.Pi*l.hz*float64(i*len(pcm)+n)/rate))
		}
		_ = out(ctx, switcher.TextOut{Item: item, Delta: w})
		_ = out(ctx, switcher.SoundOut{Item: item, Rate: rate, PCM: pcm, Text: w})
	}
	_ = out(ctx, switcher.TurnDoneOut{Item: item, Status: switcher.TurnCompleted})
}

func (l *toneLeg) hear(pcm []int16) {
	sum := 0.0
	for _, v := range pcm {
		sum += float64(v) * float64(v)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.square = max(l.square, sum/float64(max(len(pcm), 1)))
}

// loudest is the root mean square of the loudest 20 ms heard.
func (l *toneLeg) loudest() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return math.Sqrt(l.square)
}

// brokenLeg is never ready.
type brokenLeg struct{}

func (brokenLeg) Run(context.Context, switcher.Start, *switcher.Inbox, switcher.Emit) error {
	return &switcher.LegError{Code: "auth", Message: "the key was refused"}
}

// voiceRuntime is an agent that offers the legs first (440 Hz), second (1000 Hz) and broken, and a tool that waits for the test.
type voiceRuntime struct {
	*agentclient.Client
	first, second *toneLeg
	calls         chan wire.ToolCall
}

func (s *served) attachRuntime(session string) *voiceRuntime {
	s.t.Helper()
	r := &voiceRuntime{first: &toneLeg{hz: 440}, second: &toneLeg{hz: 1000}, calls: make(chan wire.ToolCall, 8)}
	leg := func(name string, kind switcher.Kind, l switcher.Leg) agentclient.Leg {
		return agentclient.Leg{Name: name, Kind: kind, New: func() switcher.Leg { return l }}
	}
	client, err := agentclient.New(agentclient.Config{
		URL: s.URL, Session: session, WaitForSession: true, AgentID: "runtime", Want: wire.Want{Context: true},
		Legs: []agentclient.Leg{leg("first", switcher.Realtime, r.first), leg("second", switcher.Cascade, r.second), leg("broken", switcher.Realtime, brokenLeg{})},
		Handler: agentclient.Handler{
			Refused:  func(e wire.Error) { s.t.Errorf("the runtime was refused: %s: %s", e.Code, e.Message) },
			ToolCall: func(c wire.ToolCall) { r.calls <- c },
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	r.Client = client
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- client.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("the runtime ended with: %v", err)
		}
	})
	r.do(s.t, "tools", wire.ToolsSet{Type: wire.TypeToolsSet, OpID: "tools", Tools: []wire.Tool{{Name: "lookup_order"}}})
	return r
}

func (r *voiceRuntime) do(t *testing.T, opID string, operation any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if _, err := r.Do(ctx, opID, operation); err != nil {
		t.Fatalf("%s: %v", opID, err)
	}
}

// pointAt clicks the element of a CSS selector.
func (p *page) pointAt(selector string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), stepTimeout)
	defer cancel()
	if err := p.point(ctx, selector); err != nil {
		p.t.Fatalf("click %s: %v; the page: %s", selector, err, p.eval(pageState))
	}
}

func (p *page) send(text string) {
	p.t.Helper()
	p.typeInto("message", text)
	p.click("send")
	p.await(10*time.Second, "the message is on the page", articleWith("user", text), `document.querySelector("[data-testid=log]").innerText`)
}

// watchSound keeps each connection that the page makes, and listens to what its voice element plays: heard() gives the loudest
// frequency in Hz and the energy that the browser says it has received in all.
func (p *page) watchSound() {
	p.t.Helper()
	p.eval(`(() => {
		const Real = RTCPeerConnection;
		window.RTCPeerConnection = class extends Real { constructor(...a) { super(...a); window.pc = this; } };
		let context, analyser, from;
		window.heard = async () => {
			const stream = document.querySelector("[data-testid=agent-audio]").srcObject;
			if (!stream) return { hz: 0, db: -999, energy: 0 };
			context ??= new AudioContext();
			if (from !== stream) {
				from = stream;
				analyser = context.createAnalyser();
				analyser.fftSize = 8192;
				analyser.smoothingTimeConstant = 0;
				context.createMediaStreamSource(stream).connect(analyser);
			}
			const bins = new Float32Array(analyser.frequencyBinCount);
			analyser.getFloatFrequencyData(bins);
			const peak = bins.reduce((best, v, i) => v > bins[best] ? i : best, 0);
			const into = [...(await pc.getStats()).values()].find((r) => r.type === "inbound-rtp" && r.kind === "audio");
			return { hz: peak * context.sampleRate / analyser.fftSize, db: bins[peak], energy: into?.totalAudioEnergy ?? 0 };
		};
	})()`)
}

// awaitTone waits until what the page plays is a tone of this frequency.
func (p *page) awaitTone(why string, hz float64) {
	p.t.Helper()
	p.await(20*time.Second, why, fmt.Sprintf(`await heard().then((h) => Math.abs(h.hz - %g) < 15 && h.db > -40 && h.energy > 0.005)`, hz), `heard()`)
}

func (p *page) startTalking() {
	p.t.Helper()
	p.click("start-mic")
	p.await(20*time.Second, "the call is up", `sightline.state.publisher === "live"`, pageState)
	p.awaitText(5*time.Second, "the page says what it sends", "publish-state", "your microphone goes to session")
}

func (p *page) switchTo(leg, want string) {
	p.t.Helper()
	p.await(15*time.Second, "the leg "+leg+" is listed", `document.querySelector("[data-testid=switch-`+leg+`]")?.disabled === false`, `[sightline.link.session, document.querySelector("[data-testid=pipelines]").innerText]`)
	p.click("switch-" + leg)
	p.awaitText(15*time.Second, "the outcome of the switch", "switch-said", want)
}

// TestE2EBrowserTalk is a talk by voice in the real page: a microphone alone, an agent's leg that hears it and is heard, who speaks, a tool,
// the end of a turn that was stopped, a switch to another leg, the epochs, and what the new leg was told.
func TestE2EBrowserTalk(t *testing.T) {
	s := serve(t, "--pipeline", "none")
	p := chromium(t, fakeMicrophone(t))
	p.open(s, "talk")
	p.watchSound()
	r := s.attachRuntime("talk")
	p.switchTo("first", "“first” has the floor since epoch 1")
	p.awaitText(5*time.Second, "the active leg", "floor", "“first” has the floor")
	p.startTalking()
	bothHear(t, p, r)

	p.click("mute-mic")
	p.awaitText(5*time.Second, "the muted microphone", "mic-state", "muted")
	p.await(10*time.Second, "nobody speaks", `!sightline.speech.caller.speaking && !sightline.speech.agent.speaking`, `sightline.speech`)
	toolIsOneRow(t, p, r)
	turnIsStopped(t, p)
	switchShows(t, p)
	p.picture("talk")
	p.eval(`document.querySelector("[data-testid=pipelines]").scrollIntoView()`)
	p.picture("pipelines")
	if text := p.text("notices"); text != "" {
		t.Errorf("a talk without trouble shows a notice: %s", text)
	}

	// A page that comes later tells the same from the snapshot, but for the times, which a snapshot does not have.
	p.open(s, "talk")
	p.await(10*time.Second, "the epochs after a reload", `(() => {
		const text = document.querySelector("[data-testid=epochs]").innerText;
		return text.includes("Epoch 2 · second") && text.includes("Epoch 1 · first") && text.includes(`+quote(asked)+`) && text.includes("began before this page attached");
	})()`, `document.querySelector("[data-testid=epochs]").innerText`)
}

func bothHear(t *testing.T, p *page, r *voiceRuntime) {
	t.Helper()
	await(t, 20*time.Second, "the leg hears the microphone", func() (bool, string) {
		return r.first.loudest() > 1000, fmt.Sprintf("the loudest 20 ms have %.0f", r.first.loudest())
	})
	p.await(20*time.Second, "the caller's lamp and what is understood so far", `(() => {
		const line = document.querySelector("[data-testid=caller-line]");
		return document.querySelector("[data-testid=caller]").dataset.tone === "good" && document.querySelector("[data-testid=caller-word]").innerText === "speaking" && line.innerText === "ask not" && line.classList.contains("partial");
	})()`, `sightline.speech`)
	p.await(5*time.Second, "the microphone's level", `document.querySelector("[data-testid=mic-level]").value > 0.3`, `sightline.sound`)
	p.awaitTone("the page plays the leg's tone", 440)
	p.await(15*time.Second, "the voice's level", `document.querySelector("[data-testid=voice-level]").value > 0.4`, `sightline.sound`)
	p.await(15*time.Second, "what the caller said", articleWith("user", asked), `document.querySelector("[data-testid=log]").innerText`)
	p.await(15*time.Second, "what was heard of the agent", articleWith("assistant", "I heard you"), `document.querySelector("[data-testid=log]").innerText`)
	p.awaitText(10*time.Second, "how much of it", "heard", "Heard to its end, 1.5 s.")
	p.awaitText(5*time.Second, "figures of the sound", "sound-figures", "opus · sent ")
	p.awaitText(5*time.Second, "the way of a sound", "path", "opus · ")
}

func toolIsOneRow(t *testing.T, p *page, r *voiceRuntime) {
	t.Helper()
	const row = `document.querySelector("[data-testid=log] details.tool[data-call=%s]")`
	for id, failed := range map[string]bool{"call-good": false, "call-bad": true} {
		p.send("tool " + id)
		var call wire.ToolCall
		select {
		case call = <-r.calls:
		case <-time.After(15 * time.Second):
			t.Fatal("the tool was not called")
		}
		node := fmt.Sprintf(row, id)
		p.await(10*time.Second, "the call as a row", node+`?.dataset.state === "running"`, `document.querySelector("[data-testid=log]").innerHTML`)
		r.do(t, call.CallID, wire.ToolResult{Type: wire.TypeToolResult, OpID: call.CallID, CallID: call.CallID, Output: "on its way", IsError: failed})
		want := map[bool]string{false: "done", true: "error"}[failed]
		p.await(10*time.Second, "the outcome in the same row", node+`.dataset.state === `+quote(want), node+`.outerHTML`)
		p.pointAt(fmt.Sprintf(`[data-testid=log] details.tool[data-call=%s] summary`, id))
		p.await(5*time.Second, "both unfold", node+`.innerText.includes("4711") && `+node+`.innerText.includes("on its way")`, node+`.innerText`)
		p.await(15*time.Second, "the leg says so", `!sightline.speech.agent.speaking && sightline.speech.last?.heard.trim() === "looked up"`, `sightline.speech`)
	}
	if rows := get[int](p, `document.querySelectorAll("[data-testid=log] details.tool").length`); rows != 2 {
		t.Errorf("%d rows for two calls", rows)
	}
}

func turnIsStopped(t *testing.T, p *page) {
	t.Helper()
	words := "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
	p.send(words)
	p.awaitTone("the long turn is heard", 440)
	p.await(5*time.Second, "the agent's lamp", `document.querySelector("[data-testid=speaker]").dataset.tone === "good"`, `sightline.speech`)
	p.await(10*time.Second, "some words of it are heard", `performance.now() - sightline.speech.agent.since > 1800`, `sightline.speech`)
	p.click("stop-talking")
	p.awaitText(10*time.Second, "how much was heard", "heard", "Cut after ")
	p.await(10*time.Second, "the conversation has it cut, and all of it to unfold", `(() => {
		const last = [...document.querySelectorAll("[data-testid=log] article[data-role=assistant]")].at(-1), heard = last.querySelector(".text")?.textContent ?? "";
		return /^cut here, after \d+\.\d s$/.test(last.querySelector(".cut")?.innerText) && heard.startsWith("one") && !heard.includes("sixteen") && last.querySelector(".text-generated").textContent.trim() === `+quote(words)+`;
	})()`, `[...document.querySelectorAll("[data-testid=log] article[data-role=assistant]")].at(-1).outerHTML`)
	p.await(5*time.Second, "silence", `!sightline.speech.agent.speaking`, `sightline.speech`)
}

func switchShows(t *testing.T, p *page) {
	t.Helper()
	p.switchTo("second", "“second” has the floor since epoch 2 (on request)")
	p.send("hello second")
	p.awaitTone("the other leg is heard", 1000)
	epoch := func(n int) string {
		return fmt.Sprintf(`document.querySelector("[data-testid=epochs] [data-epoch='%d']")`, n)
	}
	p.await(10*time.Second, "both epochs with what was said in them, newest first", `(() => {
		const one = `+epoch(1)+`, two = `+epoch(2)+`;
		return one?.innerText.includes("first") && one.innerText.includes(`+quote(asked)+`) && one.innerText.includes("lookup_order (done)") && one.innerText.includes("since ") &&
			two?.innerText.includes("second") && two.innerText.includes("hello second") && two.innerText.includes("after “first”") && two.nextSibling === one;
	})()`, `document.querySelector("[data-testid=epochs]").innerText`)
	p.pointAt(`[data-testid=epochs] [data-epoch='2'] summary`)
	p.await(10*time.Second, "what the new leg was told", epoch(2)+`.querySelector(".seed-body").innerText.includes(`+quote(asked)+`)`, epoch(2)+`.innerText`)
	p.switchTo("broken", "“broken” did not take over")
	p.awaitText(5*time.Second, "why", "switch-said", "the key was refused")
	p.awaitText(5*time.Second, "all is as before", "switch-said", "“second” keeps the floor.")
	p.await(10*time.Second, "the epochs tell of it, and what was unfolded stays so", epoch(2)+`.innerText.includes("Did not take over: “broken”") && `+epoch(2)+`.querySelector("details").open`, epoch(2)+`.innerText`)
}

// TestE2EBrowserVoiceHeldBack: a camera's call without a microphone hears the agent too; a browser that does not let the voice begin is worked
// around by a press of a button, and the page says so.
func TestE2EBrowserVoiceHeldBack(t *testing.T) {
	s := serve(t, "--pipeline", "none")
	p := chromium(t, fakeCamera(makeCamera(t)))
	p.open(s, "held")
	p.watchSound()
	r := s.attachRuntime("held")
	p.eval(`(() => {
		const real = HTMLMediaElement.prototype.play;
		let refused = 0;
		HTMLAudioElement.prototype.play = function () { return refused++ ? real.call(this) : Promise.reject(new DOMException("not yet", "NotAllowedError")); };
	})()`)
	p.switchTo("first", "“first” has the floor")
	p.startCamera()
	p.awaitText(10*time.Second, "the page says that the voice is held back", "notices", "The browser holds the agent’s voice back.")
	p.pointAt(`.notice[data-code=autoplay] button`)
	p.await(10*time.Second, "the notice goes", `document.querySelector("[data-testid=notices]").innerText === ""`, pageState)
	p.awaitText(5*time.Second, "no microphone is sent", "mic-state", "microphone not sent")
	p.send("one two three four")
	p.awaitTone("the typed message is answered by voice", 440)
	p.typeInto("say-text", "one moment please")
	p.click("say")
	p.awaitText(10*time.Second, "the words are queued", "voice-said", "Queued behind what is being said.")
	p.await(15*time.Second, "they are in the conversation", articleWith("assistant", "one moment please"), `document.querySelector("[data-testid=log]").innerText`)
	p.click("mute-voice")
	p.awaitText(5*time.Second, "muted here", "voice-state", "muted here")
	if heard := r.first.loudest(); heard != 0 {
		t.Errorf("the leg heard something of %.0f without a microphone", heard)
	}
	p.click("stop")
	p.awaitText(5*time.Second, "nothing is heard after the call", "voice-state", "not heard here")
}

// TestE2EBrowserWithoutMicrophone: a refused microphone is told in words that say what to do; one can type all the same.
func TestE2EBrowserWithoutMicrophone(t *testing.T) {
	s := serve(t, "--pipeline", "none")
	p := chromium(t, map[string]any{"use-fake-device-for-media-stream": true, "deny-permission-prompts": true})
	p.open(s, "no-microphone")
	p.click("start-mic")
	p.awaitText(15*time.Second, "the page says what is wrong", "notices", "The browser may not use the microphone.")
	p.awaitText(5*time.Second, "the page says what to do", "notices", "Allow the microphone for this site")
	if code := get[string](p, `sightline.state.trouble`); code != "denied" {
		t.Errorf("the trouble is %q, want denied", code)
	}
	p.await(5*time.Second, "the button offers another try", `document.querySelector("[data-testid=start-mic]").innerText === "Start microphone again"`, pageState)
	p.send("still here")
}
