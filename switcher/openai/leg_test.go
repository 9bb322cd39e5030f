package openai

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/cascade"
	"sightline/switcher/legtest"
)

// byPath plays a reply list for each path.
func byPath(replies map[string][]http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	n := map[string]int{}
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		mu.Lock()
		list := replies[path]
		reply := list[min(n[path], len(list)-1)]
		n[path]++
		mu.Unlock()
		reply(w, r)
	}
}

// chain is a leg whose engines all ask one server.
func chain(t *testing.T, c *Client) *cascade.Leg {
	t.Helper()
	stt, err1 := c.Recognizer(RecognizerConfig{Model: "whisper-1"})
	llm, err2 := c.Model(ModelConfig{Model: "m"})
	tts, err3 := c.Voice(VoiceConfig{Model: "tts-1", Voice: "alloy"})
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return cascade.New(cascade.Config{Recognizers: []cascade.Recognizer{stt}, Models: []cascade.Model{llm}, Voices: []cascade.Voice{tts}})
}

func wavReply(w http.ResponseWriter, r *http.Request) {
	stream("audio/wav", streamedWAV(24000, make([]int16, 4800)))(w, r)
}

var understands = whole("application/json", `{"text":"What do you see?"}`)

// TestLegOverHTTP: one spoken turn through a server that fails in its own ways; every request is held against the official types.
func TestLegOverHTTP(t *testing.T) {
	call := `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"read","arguments":"{\"of\":1}"}},{"index":1,"id":"call_b","type":"function","function":{"name":"read","arguments":"{\"of\":2}"}}]}}]}` + "\n\n"
	fine := sse(text("I see a sign. "), text("It says stop."), end("stop"), done)
	for name, c := range map[string]struct {
		stt, llm, tts        []http.HandlerFunc
		said, spoken, status string
		notices              string
	}{
		"all well":              {nil, nil, nil, "I see a sign. It says stop.", "I see a sign. It says stop.", "completed", ""},
		"model 500 once":        {nil, []http.HandlerFunc{status(500, ""), fine}, nil, "I see a sign. It says stop.", "I see a sign. It says stop.", "completed", "llm_retry"},
		"model 429":             {nil, []http.HandlerFunc{status(429, "", "Retry-After-Ms", "30"), fine}, nil, "I see a sign. It says stop.", "I see a sign. It says stop.", "completed", "llm_retry"},
		"model cut off early":   {nil, []http.HandlerFunc{cutOff("text/event-stream"), fine}, nil, "I see a sign. It says stop.", "I see a sign. It says stop.", "completed", "llm_retry"},
		"model cut off in time": {nil, []http.HandlerFunc{cutOff("text/event-stream", text("I see a sign. ")), fine}, nil, "I see a sign. Sorry, I lost the rest of my answer.", "I see a sign. Sorry, I lost the rest of my answer.", "failed", ""},
		"model 400":             {nil, []http.HandlerFunc{status(400, "no")}, nil, "Sorry, I cannot answer at the moment. Please try again.", "Sorry, I cannot answer at the moment. Please try again.", "failed", "llm_failed"},
		"voice 500":             {nil, nil, []http.HandlerFunc{status(500, "")}, "I see a sign. It says stop. (My voice does not work at the moment, so I write.)", "", "completed", "tts_retry tts_failed"},
		"voice 500 once":        {nil, nil, []http.HandlerFunc{status(500, ""), wavReply}, "I see a sign. It says stop.", "I see a sign. It says stop.", "completed", "tts_retry"},
		"recogniser 500":        {[]http.HandlerFunc{status(500, "")}, nil, nil, "Sorry, I could not hear that. Please say it again.", "Sorry, I could not hear that. Please say it again.", "completed", "stt_retry stt_failed"},
		"recogniser 429":        {[]http.HandlerFunc{status(429, "", "Retry-After-Ms", "20"), understands}, nil, nil, "I see a sign. It says stop.", "I see a sign. It says stop.", "completed", "stt_retry"},
		"two tools, one fails":  {nil, []http.HandlerFunc{sse(call, end("tool_calls"), done), fine}, nil, "I see a sign. It says stop.", "I see a sign. It says stop.", "completed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			or := func(list []http.HandlerFunc, h http.HandlerFunc) []http.HandlerFunc {
				if list == nil {
					return []http.HandlerFunc{h}
				}
				return list
			}
			f, cl := newFake(t, byPath(map[string][]http.HandlerFunc{
				"transcriptions": or(c.stt, understands), "completions": or(c.llm, fine), "speech": or(c.tts, wavReply)}))
			got := speakTo(t, chain(t, cl), photo(t))
			if got.said != c.said || got.spoken != c.spoken || got.status != c.status || strings.Join(got.notices, " ") != c.notices {
				t.Errorf("said    %q\nspoken  %q\nended %q, notices %v\nwant    %q\n        %q, %q, %q", got.said, got.spoken, got.status, got.notices, c.said, c.spoken, c.status, c.notices)
			}
			for _, body := range f.requests() {
				if body["messages"] != nil && !strings.Contains(fmt.Sprint(body), "data:image/jpeg;base64,") {
					t.Error("a request shows no image of the turn")
				}
			}
			if strings.Contains(name, "tools") {
				last := fmt.Sprint(lastChat(f))
				for _, want := range []string{"call_a", "call_b", "out of order", "read 2", "role:tool"} {
					if !strings.Contains(last, want) {
						t.Errorf("the second request does not hold %q: %s", want, last)
					}
				}
			}
		})
	}
}

func lastChat(f *fake) (last any) {
	for _, body := range f.requests() {
		if body["messages"] != nil {
			last = body["messages"]
		}
	}
	return last
}

type spokenTo struct {
	said, spoken, status string
	notices              []string
}

// speakTo says something to a leg and waits for the end of its turn. The tool "read" fails for 1.
func speakTo(t *testing.T, leg switcher.Leg, seen []byte) (got spokenTo) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in := switcher.NewInbox(16000, 0)
	finished := make(chan struct{})
	var mu sync.Mutex
	out := func(_ context.Context, o switcher.Output) error {
		mu.Lock()
		defer mu.Unlock()
		switch o := o.(type) {
		case switcher.TextOut:
			got.said += o.Delta
		case switcher.SoundOut:
			got.spoken += o.Text
		case switcher.NoticeOut:
			got.notices = append(got.notices, o.Code)
		case switcher.ToolCallOut:
			res := switcher.ToolResultIn{CallID: o.CallID, Name: o.Name, Output: "read 2"}
			if strings.Contains(o.Arguments, "1") {
				res.Output, res.IsError = "out of order", true
			}
			return in.Put(res)
		case switcher.TurnDoneOut:
			got.status = o.Status
			close(finished)
		}
		return nil
	}
	ended := make(chan error, 1)
	go func() {
		ended <- leg.Run(ctx, switcher.Start{Session: "s", Epoch: 1, InRate: 16000, OutRate: 24000, Items: func() chatctx.Items { return nil },
			Seed: switcher.Seed{Mode: switcher.SeedItems, Instructions: "Be brief."}, Tools: []switcher.Tool{{Name: "read", Description: "Reads."}},
			Look: func(context.Context, time.Duration) []switcher.Sight {
				return []switcher.Sight{{Source: "camera", State: "live", JPEG: seen, CapturedAt: time.Now()}}
			}}, in, out)
	}()
	at := time.Now()
	for _, i := range []switcher.Input{switcher.FloorIn{}, switcher.SoundIn{PCM: make([]int16, 16000), At: at}, switcher.CallerSpeechIn{Started: true, At: at},
		switcher.SoundIn{PCM: make([]int16, 16000), At: at.Add(time.Second)}, switcher.CallerSpeechIn{Final: true, At: at.Add(2 * time.Second)}} {
		if err := in.Put(i); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-finished:
	case <-time.After(20 * time.Second):
		t.Error("no end of the turn")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return got
}

// TestLegSuite puts a cascade of these engines through what is expected of every leg.
func TestLegSuite(t *testing.T) {
	legtest.Run(t, func(t *testing.T) legtest.Subject {
		f, c := newFake(t, nil)
		f.replies = []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			asked := f.requests()
			last := fmt.Sprint(lastMessage(asked[len(asked)-1]))
			switch {
			case strings.HasSuffix(r.URL.Path, "speech"):
				wavReply(w, r)
			case strings.HasSuffix(r.URL.Path, "transcriptions"):
				understands(w, r)
			case strings.Contains(last, "role:tool"):
				sse(text("It says: the answer is forty-two."), end("stop"), done)(w, r)
			case strings.Contains(last, "tool"):
				sse(`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"oracle","arguments":"{}"}}]}}]}`+"\n\n", end("tool_calls"), done)(w, r)
			case strings.Contains(last, "long"):
				sse(text("It begins. And then "))(w, r)
				<-r.Context().Done()
			default:
				sse(text("Here "), text("I am."), end("stop"), done)(w, r)
			}
		}}
		leg := chain(t, c)
		return legtest.Subject{Leg: leg, Can: switcher.Capability{InRate: 16000, OutRate: 24000, Seeds: []switcher.SeedMode{switcher.SeedItems}},
			Ask: "hello", AskLong: "a long story", AskTool: "use the tool", Tool: "oracle", Speech: make([]int16, 16000), Close: f.close}
	})
}

func lastMessage(body map[string]any) any {
	list, ok := body["messages"].([]any)
	if !ok {
		return nil
	}
	return list[len(list)-1]
}
