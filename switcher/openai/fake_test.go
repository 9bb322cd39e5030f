package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"

	"sightline/switcher/cascade"
	"sightline/switcher/cascade/pcm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "sk-very-secret-0123456789"

// fake is a server that takes only what the official types allow, and plays what a test says, one reply for each request; the
// last is played for all that follow.
type fake struct {
	t       *testing.T
	schemas map[string]*jsonschema.Schema
	replies []http.HandlerFunc
	close   func() // done at the end of the test in any case

	mu    sync.Mutex
	asked []map[string]any
	wav   []byte // of the last transcription
}

func newFake(t *testing.T, replies ...http.HandlerFunc) (*fake, *Client) {
	t.Helper()
	return newFakeWith(t, Config{Key: testKey}, replies...)
}

func newFakeWith(t *testing.T, cfg Config, replies ...http.HandlerFunc) (*fake, *Client) {
	t.Helper()
	f := &fake{t: t, replies: replies, schemas: map[string]*jsonschema.Schema{}}
	for path, name := range map[string]string{"/v1/chat/completions": "ChatCompletion", "/v1/audio/transcriptions": "Transcription", "/v1/audio/speech": "Speech"} {
		f.schemas[path] = schema(t, name)
	}
	server := httptest.NewServer(f)
	cfg.BaseURL = server.URL + "/v1/"
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.close = sync.OnceFunc(func() {
		c.cfg.HTTP.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	t.Cleanup(f.close)
	return f, c
}

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "schemas", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := f.read(r)
	if err != nil {
		f.t.Errorf("%s: %v", r.URL.Path, err)
		http.Error(w, `{"error":{"message":"`+"not valid"+`"}}`, http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	n := min(len(f.asked), len(f.replies)-1)
	f.asked = append(f.asked, body)
	f.mu.Unlock()
	f.replies[n](w, r)
}

// read holds a request against the official types.
func (f *fake) read(r *http.Request) (map[string]any, error) {
	s := f.schemas[r.URL.Path]
	if s == nil || r.Method != http.MethodPost {
		return nil, fmt.Errorf("%s %s is nothing of the interface", r.Method, r.URL.Path)
	}
	if got := r.Header.Get("Authorization"); got != "Bearer "+testKey {
		return nil, fmt.Errorf("authorization %q", got)
	}
	var body []byte
	var err error
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		body, err = f.form(r)
	} else if r.Header.Get("Content-Type") == "application/json" {
		body, err = io.ReadAll(r.Body)
	} else {
		err = fmt.Errorf("content type %q", r.Header.Get("Content-Type"))
	}
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if err := s.Validate(doc); err != nil {
		return nil, fmt.Errorf("%w\n%.1500s", err, body)
	}
	return doc.(map[string]any), nil
}

// form gives the fields of a form as JSON, and keeps the file.
func (f *fake) form(r *http.Request) ([]byte, error) {
	if err := r.ParseMultipartForm(1 << 26); err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for name, values := range r.MultipartForm.Value {
		fields[name] = values[0]
	}
	files := r.MultipartForm.File["file"]
	if len(files) != 1 || len(r.MultipartForm.File) != 1 {
		return nil, fmt.Errorf("%d files", len(files))
	}
	if err := f.keep(files[0]); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

func (f *fake) keep(h *multipart.FileHeader) error {
	file, err := h.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if _, err := pcm.ReadHeader(bytes.NewReader(data)); err != nil || !strings.HasSuffix(h.Filename, ".wav") {
		return fmt.Errorf("file %q: %w", h.Filename, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wav = data
	return nil
}

func (f *fake) requests() []map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]map[string]any(nil), f.asked...)
}

// sse streams lines as they stand, one after the other.
func sse(lines ...string) http.HandlerFunc { return stream("text/event-stream", lines...) }

func stream(contentType string, lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for _, l := range lines {
			_, _ = io.WriteString(w, l)
			w.(http.Flusher).Flush()
		}
	}
}

// cutOff does the same and then breaks the connection.
func cutOff(contentType string, lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		stream(contentType, lines...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

func status(code int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func whole(contentType, body string) http.HandlerFunc {
	return status(200, body, "Content-Type", contentType)
}

func text(s string) string {
	return `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":` + quote(s) + `},"finish_reason":null}]}` + "\n\n"
}

func end(reason string) string {
	return `data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

const done = "data: [DONE]\n\n"

// ask collects an answer.
func ask(ctx context.Context, m cascade.Model, r cascade.Request) (said string, calls []cascade.Call, fin cascade.Finish, err error) {
	fin, err = m.Answer(ctx, r, func(d cascade.Delta) error {
		said += d.Text
		if d.Call != nil {
			calls = append(calls, *d.Call)
		}
		return nil
	})
	return said, calls, fin, err
}
