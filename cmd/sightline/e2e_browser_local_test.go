package main

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sightline/switcher/local"
)

// spokenMicrophone is Chromium's microphone in which a synthetic voice says the sentences, each followed by silence, over and over.
func spokenMicrophone(t *testing.T, voice *local.Voice, silence time.Duration, sentences ...string) map[string]any {
	t.Helper()
	raw := make([]byte, 2*voice.Rate()) // the call needs a moment to come up
	for _, text := range sentences {
		err := voice.Speak(t.Context(), text, func(pcm []int16) error {
			for _, v := range pcm {
				raw = binary.LittleEndian.AppendUint16(raw, uint16(v))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, make([]byte, 2*int(silence*time.Duration(voice.Rate())/time.Second))...)
	}
	folder := t.TempDir()
	file, name := filepath.Join(folder, "microphone.pcm"), filepath.Join(folder, "microphone.wav")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	ffmpeg(t, "-f", "s16le", "-ar", fmt.Sprint(voice.Rate()), "-ac", "1", "-i", file, "-ar", "48000", "-ac", "2", name)
	return map[string]any{"use-fake-ui-for-media-stream": true, "use-fake-device-for-media-stream": true, "use-file-for-fake-audio-capture": name}
}

// record keeps what the page's voice element plays from now on, 16 kHz; recorded() gives it in base64 and begins anew.
const record = `(() => {
	const context = new AudioContext({ sampleRate: 16000 }), node = context.createScriptProcessor(4096, 1, 1);
	let kept = [];
	node.onaudioprocess = (e) => kept.push(Int16Array.from(e.inputBuffer.getChannelData(0), (v) => Math.max(-1, Math.min(1, v)) * 32767));
	context.createMediaStreamSource(document.querySelector("[data-testid=agent-audio]").srcObject).connect(node).connect(context.destination);
	window.recorded = () => {
		const text = kept.map((piece) => Array.from(new Uint8Array(piece.buffer), (b) => String.fromCharCode(b)).join("")).join("");
		kept = [];
		return btoa(text);
	};
})()`

// TestE2EBrowserTalkWithoutAnyKey is the product as it comes: a person speaks to the page, the engines of this machine hear, think and speak,
// and what the browser plays is recognised again.
func TestE2EBrowserTalkWithoutAnyKey(t *testing.T) {
	caller, err := local.New(local.Config{Voice: local.VoiceConfig{Voice: "rms"}, Recognizer: local.RecognizerConfig{Warm: -1}})
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--pipeline", "local")
	p := chromium(t, spokenMicrophone(t, caller.Voice, 9*time.Second, "My order number is four two seven three."))
	p.open(s, "keyless")
	p.startTalking()
	p.await(10*time.Second, "the voice is there", `document.querySelector("[data-testid=agent-audio]").srcObject`, pageState)
	p.eval(record)
	// Chromium cleans the synthetic voice up as it does a person's, and the small recogniser may then mistake a digit: whatever number was
	// understood, the answer repeats it, and the browser must have played that answer.
	answers := `[...document.querySelectorAll("[data-testid=log] article[data-role=assistant] .text")].map((n) => n.textContent)`
	answer := answers + `.find((text) => /order number is( \d){2,}/.test(text))`
	p.await(60*time.Second, "the order number is answered, and heard", answer+` && !sightline.speech.agent.speaking && !sightline.speech.last?.interrupted`, `[`+answers+`, sightline.speech, document.querySelector("[data-testid=log]").innerText]`)
	data, err := base64.StdEncoding.DecodeString(get[string](p, `recorded()`))
	if err != nil {
		t.Fatal(err)
	}
	pcm := make([]int16, len(data)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	heard, said := recognise(t, caller.Recognizer, pcm), get[string](p, answer)
	t.Logf("answered %q; of the %.1f s that the page played this was understood: %q", said, float64(len(pcm))/16000, heard)
	number := strings.TrimRight(said, ". ")
	if want := inWords(number[len(number)-len("7 3"):]); !strings.Contains(heard, want) {
		t.Errorf("the browser played %q, want %q in it", heard, want)
	}
	p.picture("keyless")
}

// inWords spells digits as they are spoken.
func inWords(digits string) string {
	names := strings.Fields("zero one two three four five six seven eight nine")
	var words []string
	for _, d := range strings.Fields(digits) {
		words = append(words, names[d[0]-'0'])
	}
	return strings.Join(words, " ")
}

func recognise(t *testing.T, ears *local.Recognizer, pcm []int16) string {
	t.Helper()
	u, err := ears.Listen(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if err := u.Write(pcm); err != nil {
		t.Fatal(err)
	}
	text, err := u.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}
