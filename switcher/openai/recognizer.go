package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strings"
	"time"
	"unicode"

	"sightline/switcher/cascade"
	"sightline/switcher/cascade/pcm"
)

// RecognizerConfig is a model of a server's audio/transcriptions.
type RecognizerConfig struct {
	Model    string
	Name     string // for people, "" = Model
	Language string // ISO 639-1, "" = found out by the server
	Prompt   string // words that are likely, "" = none
	Rate     int    // Hz of what is sent, 0 = 16000
}

// Recognizer is a cascade.Recognizer that sends an utterance when it is over: there are no partial texts. Safe for concurrent use.
type Recognizer struct {
	c   *Client
	cfg RecognizerConfig
}

// Recognizer makes an engine for a model.
func (c *Client) Recognizer(cfg RecognizerConfig) (*Recognizer, error) {
	if cfg.Rate == 0 {
		cfg.Rate = 16000
	}
	switch {
	case cfg.Model == "":
		return nil, errors.New("model: the name of a model is needed")
	case cfg.Rate < 8000 || cfg.Rate > 48000:
		return nil, errors.New("rate: 8000 to 48000 Hz")
	}
	return &Recognizer{c, cfg}, nil
}

// Name implements cascade.Recognizer, as Rate and Listen do.
func (r *Recognizer) Name() string { return first(r.cfg.Name, r.cfg.Model) }

// Rate is the Hz of what is sent.
func (r *Recognizer) Rate() int { return r.cfg.Rate }

// Bounds of an utterance: servers refuse what is shorter, and files above 25 MB.
const (
	minUtterance = 100 * time.Millisecond
	maxUtterance = 24 << 20 // bytes
)

// Listen opens an utterance; it asks nobody yet.
func (r *Recognizer) Listen(context.Context, func(string)) (cascade.Utterance, error) {
	return &utterance{r: r}, nil
}

type utterance struct {
	r   *Recognizer
	pcm []int16
}

func (u *utterance) Write(samples []int16) error {
	if 2*(len(u.pcm)+len(samples)) > maxUtterance {
		return invalid("the utterance is longer than %d bytes", maxUtterance)
	}
	u.pcm = append(u.pcm, samples...)
	return nil
}

func (u *utterance) Close() { u.pcm = nil }

func (u *utterance) Finish(ctx context.Context) (string, error) {
	if time.Duration(len(u.pcm))*time.Second/time.Duration(u.r.cfg.Rate) < minUtterance {
		return "", nil
	}
	body, contentType, err := u.form()
	if err != nil {
		return "", invalid("the form cannot be written")
	}
	res, err := u.r.c.post(ctx, "/audio/transcriptions", contentType, "application/json, text/plain", body)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxTranscript+1))
	switch {
	case err != nil:
		return "", unreachable(ctx, u.r.c.redacted(err))
	case len(answer) > maxTranscript:
		return "", invalid("the transcript is longer than %d bytes", maxTranscript)
	}
	return readTranscript(answer, res.Header.Get("Content-Type"))
}

func (u *utterance) form() (body []byte, contentType string, err error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, field := range [][2]string{{"model", u.r.cfg.Model}, {"response_format", "json"}, {"language", u.r.cfg.Language}, {"prompt", u.r.cfg.Prompt}} {
		if field[1] != "" {
			err = errors.Join(err, form.WriteField(field[0], field[1]))
		}
	}
	file, e := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="speech.wav"`}, "Content-Type": {"audio/wav"}})
	if e != nil {
		return nil, "", e
	}
	_, e = file.Write(pcm.WAV(u.r.cfg.Rate, u.pcm))
	err = errors.Join(err, e, form.Close())
	return b.Bytes(), form.FormDataContentType(), err
}

// readTranscript takes {"text":"…"}, and plain text of servers that know nothing else.
func readTranscript(body []byte, contentType string) (string, error) {
	var answer struct {
		Text *string `json:"text"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Text != nil {
		return spoken(*answer.Text), nil
	}
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "text/plain" && !json.Valid(body) {
		return spoken(string(body)), nil
	}
	return "", &cascade.EngineError{Code: "overloaded", Message: "the server's answer holds no text", Retryable: true}
}

// spoken leaves out what recognisers write in brackets where nobody spoke: [BLANK_AUDIO], (music).
func spoken(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "")
	rest := text
	for rest != "" {
		closing, ok := map[byte]string{'[': "]", '(': ")", '*': "*"}[rest[0]]
		if !ok {
			break
		}
		_, after, ok := strings.Cut(rest[1:], closing)
		if !ok {
			break
		}
		rest = strings.TrimLeftFunc(after, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsPunct(r) && !strings.ContainsRune("[(*", r) })
	}
	if rest == "" {
		return ""
	}
	return text
}
