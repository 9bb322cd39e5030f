package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sightline/cmd/internal/whipclient"
	chatctx "sightline/context"
	"sightline/gateway/sound/soundtest"
	"sightline/switcher/local"
)

// The whole of a spoken call without any key: a caller whose voice is synthesised speaks over WebRTC, the local engines hear,
// think and speak, and what the caller heard is recognised again.

// talker is a caller with a voice, and with ears that understand.
type talker struct {
	*soundtest.Caller
	t     *testing.T
	voice *local.Voice
	ears  *local.Recognizer
	// digits understands order numbers and nothing else: which one was said stays open.
	digits *local.Recognizer
}

func callAndTalk(t *testing.T, s *served, session string, camera ...[]byte) *talker {
	t.Helper()
	engines, err := local.New(local.Config{Voice: local.VoiceConfig{Voice: "rms"}, Recognizer: local.RecognizerConfig{Warm: -1}})
	if err != nil {
		t.Fatal(err)
	}
	digits := local.NewRecognizer(local.RecognizerConfig{Warm: -1, Phrases: []string{
		"your order number is {digits}", "thank you your order number is {digits}", "it is order number {digits}",
	}})
	return &talker{digits: digits, Caller: soundtest.CallWithVideo(t, s.URL, session, camera), t: t, voice: engines.Voice, ears: engines.Recognizer}
}

// says speaks a sentence and gives when it was begun.
func (c *talker) says(text string) time.Time {
	c.t.Helper()
	var pcm []int16
	if err := c.voice.Speak(c.t.Context(), text, func(piece []int16) error { pcm = append(pcm, piece...); return nil }); err != nil {
		c.t.Fatal(err)
	}
	at := time.Now()
	c.Say(c.voice.Rate(), pcm)
	return at
}

// understands is what was heard from a time on, in words.
func (c *talker) understands(from time.Time) string {
	c.t.Helper()
	return c.listen(c.ears, from)
}

// heardWords is what was understood once these words are in it, or after 15 s: an answer is in the conversation while it still plays.
func (c *talker) heardWords(from time.Time, words string) (text string) {
	c.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(300 * time.Millisecond) { // polls what grows
		if text = c.understands(from); strings.Contains(text, words) || time.Now().After(deadline) {
			return text
		}
	}
}

func (c *talker) listen(ears *local.Recognizer, from time.Time) string {
	c.t.Helper()
	pcm, began := c.Heard()
	if skip := int(from.Sub(began) * soundtest.Rate / time.Second); skip > 0 {
		pcm = pcm[min(skip, len(pcm)):]
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	u, err := ears.Listen(ctx, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer u.Close()
	if err := u.Write(pcm); err != nil {
		c.t.Fatal(err)
	}
	text, err := u.Finish(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// hears waits until the caller has understood this order number in what was said since; an answer is in the conversation
// while it still plays. It gives what was understood last.
func (c *talker) hears(from time.Time, words string) (text string, ok bool) {
	c.t.Helper()
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(300 * time.Millisecond) { // polls what grows
		if text = c.listen(c.digits, from); saysNumber(text, words) {
			return text, true
		}
		if time.Now().After(deadline) {
			return text, false
		}
	}
}

// saysNumber: the digits are there in their order, with at most one more among them: a recogniser splits "one one" now and then.
func saysNumber(text, digits string) bool {
	_, said, found := strings.Cut(text, "number ")
	heard, want := strings.Fields(said), strings.Fields(digits)
	if !found || len(heard) > len(want)+1 {
		return false
	}
	for _, word := range heard {
		if len(want) > 0 && word == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// conversation is the session's items now.
func (s *served) conversation(session string) chatctx.Items {
	s.t.Helper()
	status, _, body := s.call("GET", "/v1/sessions/"+session+"/context", "", "")
	var answer struct{ Context chatctx.Items }
	if status != 200 {
		s.t.Fatalf("context: %d %s", status, body)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		s.t.Fatal(err)
	}
	return answer.Context
}

// answered waits for an assistant's message after the first n messages of the conversation, and gives its text.
func (s *served) answered(session string, n int) (user, assistant string) {
	s.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for {
		var texts []string
		for _, item := range s.conversation(session) {
			if m, ok := item.(*chatctx.Message); ok {
				texts = append(texts, m.Content.Text())
			}
		}
		if len(texts) >= n+2 {
			return texts[n], texts[n+1]
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no answer was given within 40 s; the conversation is %q\n%s", texts, s.stderr.tail(4<<10))
		}
		time.Sleep(20 * time.Millisecond) // polls a condition
	}
}

// tells says a sentence until the answer has what it should, as a person does who was misheard; four times at most. On a loaded machine
// recognisers are less sure, on either side.
func (c *talker) tells(s *served, session, sentence string, answers ...string) (at time.Time, answer string) {
	c.t.Helper()
	for try := 1; ; try++ {
		before := s.messages(session)
		at = c.says(sentence)
		var heard string
		heard, answer = s.answered(session, before)
		c.t.Logf("heard %q, answered %q", heard, answer)
		for _, want := range answers {
			if strings.Contains(strings.ToUpper(answer), strings.ToUpper(want)) {
				return at, answer
			}
		}
		if try == 4 {
			c.t.Fatalf("said %q four times, was answered %q last, want one of %q", sentence, answer, answers)
		}
	}
}

func TestE2ETalkWithoutAnyKey(t *testing.T) {
	s := serve(t, "--pipeline", "local")
	caller := callAndTalk(t, s, "demo")
	at, _ := caller.tells(s, "demo", "My order number is four seven one one.", "4 7 1 1", "4711")
	await(t, 20*time.Second, "the caller hears the answer", func() (bool, string) {
		return caller.Loud(at) >= 500*time.Millisecond, caller.Loud(at).String()
	})
	t.Logf("the caller understood %q", caller.understands(at))

	at, answer := caller.tells(s, "demo", "What was my order number?", "4 7 1 1")
	heard, ok := caller.hears(at, "four seven one one")
	t.Logf("answered %q, the caller understood %q", answer, heard)
	if !ok {
		t.Errorf("the answer was %q, the caller understood %q", answer, heard)
	}
}

// sign is a camera that shows a sign, as VP8 frames.
func sign(t *testing.T, text string) [][]byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sign.ivf")
	ffmpeg(t, "-f", "lavfi", "-i", "color=white:size=640x480:rate=10:duration=1", "-vf",
		"drawtext=text='"+text+"':fontsize=72:fontcolor=black:x=(w-text_w)/2:y=(h-text_h)/2", "-c:v", "libvpx", "-g", "10", "-b:v", "1M", path)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	clip, err := whipclient.ReadIVF("sign", file)
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for _, f := range clip.Frames {
		frames = append(frames, f.Data)
	}
	return frames
}

func TestE2ETheAgentReadsASign(t *testing.T) {
	s := serve(t, "--pipeline", "local")
	caller := callAndTalk(t, s, "demo", sign(t, "EXIT ONLY")...)
	await(t, 20*time.Second, "the camera is live", func() (bool, string) {
		status, _, body := s.call("GET", "/v1/sessions/demo/image?width=64&height=64", "", "")
		return status == 200, fmt.Sprintf("%d %.200s", status, body)
	})
	at, _ := caller.tells(s, "demo", "What does the sign say?", "EXIT ONLY")
	calls := 0
	for _, item := range s.conversation("demo") {
		if call, ok := item.(*chatctx.FunctionCall); ok && call.Name == local.ReadText {
			calls++
		}
	}
	if calls != 1 {
		t.Errorf("read_text was called %d times", calls)
	}
	await(t, 20*time.Second, "the caller hears it", func() (bool, string) {
		heard := caller.understands(at)
		return strings.Contains(heard, "exit"), heard
	})
}
