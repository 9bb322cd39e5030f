package live_test

import (
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"sightline/switcher/gemini/live"
)

func TestAudioIsWrittenAsTheAPIWants(t *testing.T) {
	pcm := []int16{0, 1, -1, 32767, -32768}
	data, _ := live.AppendAudio(nil, nil, pcm)
	c, err := live.DecodeClient(data)
	if err != nil || c.RealtimeInput == nil || c.RealtimeInput.Audio.MIMEType != "audio/pcm;rate=16000" {
		t.Fatalf("%s: %v", data, err)
	}
	if got, rate, err := c.RealtimeInput.Audio.PCM(); err != nil || rate != 16000 || !slices.Equal(got, pcm) {
		t.Errorf("%v, %d Hz, %v", got, rate, err)
	}
	scratch := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { data, scratch = live.AppendAudio(data[:0], scratch, pcm) }); n != 0 {
		t.Errorf("%v allocations with room", n)
	}
}

func TestSoundIsRead(t *testing.T) {
	two := base64.StdEncoding.EncodeToString([]byte{1, 0, 255, 255})
	for _, c := range []struct {
		mime, data string
		rate       int // 0: no sound
	}{
		{"audio/pcm;rate=24000", two, 24000}, {"audio/pcm", two, 24000}, {"", two, 24000}, {"AUDIO/PCM; Rate=16000; channels=1", two, 16000}, {"audio/L16;rate=48000", two, 48000},
		{"audio/pcm;rate=1", two, 24000}, {"audio/pcm;rate=24000", base64.RawStdEncoding.EncodeToString([]byte{1, 0, 255, 255}), 24000},
		{"audio/opus", two, 0}, {"audio/pcm", "!!", 0}, {"audio/pcm", "AAAA", 0},
	} {
		pcm, rate, err := (&live.Blob{MIMEType: c.mime, Data: c.data}).PCM()
		if (err == nil) != (c.rate > 0) || err == nil && (rate != c.rate || !slices.Equal(pcm, []int16{1, -1})) {
			t.Errorf("%q %q: %v, %d Hz, %v", c.mime, c.data, pcm, rate, err)
		}
	}
}

func TestTimeLeft(t *testing.T) {
	for text, want := range map[string]time.Duration{"60s": time.Minute, "9.5s": 9500 * time.Millisecond, "": 0, "-1s": 0, "soon": 0} {
		if got := (live.GoAway{TimeLeft: text}).Left(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestReadingIsLax(t *testing.T) {
	for text, want := range map[string]struct{ known, ok bool }{
		`{"serverContent":{"turnComplete":true,"news":1}}`:     {true, true},
		`{"serverContent":{"turnComplete":"yes"},"goAway":{}}`: {true, true},
		`{"news":{}}`: {false, true}, `{}`: {false, true}, `[]`: {false, false}, `{`: {false, false}, ``: {false, false},
	} {
		_, known, err := live.DecodeServer([]byte(text))
		if known != want.known || (err == nil) != want.ok {
			t.Errorf("%s: known %t, %v", text, known, err)
		}
	}
}

func FuzzDecodeServer(f *testing.F) {
	f.Add([]byte(`{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"AAAA"}}]},"turnComplete":true}}`))
	f.Add([]byte(`{"toolCall":{"functionCalls":[{"id":"1","name":"f","args":{"n":1}}]},"goAway":{"timeLeft":"9s"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := live.DecodeServer(data)
		if err != nil {
			return
		}
		if s.GoAway != nil && s.GoAway.Left() < 0 {
			t.Error("time left below nothing")
		}
		if s.ServerContent == nil || s.ServerContent.ModelTurn == nil {
			return
		}
		for _, p := range s.ServerContent.ModelTurn.Parts {
			if p.InlineData != nil {
				if _, rate, err := p.InlineData.PCM(); err == nil && (rate < 8000 || rate > 48000) {
					t.Errorf("%d Hz", rate)
				}
			}
		}
	})
}
