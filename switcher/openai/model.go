package openai

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"slices"
	"strings"
	"sync/atomic"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
	"sightline/switcher/cascade"
)

// ModelConfig is a model of a server's chat completions.
type ModelConfig struct {
	Model       string
	Name        string   // for people, "" = Model
	MaxTokens   int      // of an answer, 0 = as the server likes
	Temperature *float64 // nil = as the server likes
	Reasoning   string   // reasoning_effort, "" = not sent
	KeepImages  int      // of the conversation, per source: 0 = 4, below 0 = none
	ImageDetail string   // of what is seen now: "" = auto
	// Downscale makes an image fit; see project.Options.
	Downscale func(mime string, data []byte, maxSide, maxBytes int) ([]byte, error)
}

// Model is a cascade.Model. Safe for concurrent use.
type Model struct {
	c   *Client
	cfg ModelConfig

	noUsage, noTools, noImages atomic.Bool // what the server has refused
}

// Model makes an engine for a model.
func (c *Client) Model(cfg ModelConfig) (*Model, error) {
	if cfg.Model == "" {
		return nil, errors.New("model: the name of a model is needed")
	}
	switch cfg.ImageDetail {
	case "":
		cfg.ImageDetail = "auto"
	case "auto", "low", "high":
	default:
		return nil, errors.New("image_detail: allowed are auto, low and high")
	}
	m := &Model{c: c, cfg: cfg}
	m.noUsage.Store(c.cfg.Profile.NoUsage)
	m.noTools.Store(c.cfg.Profile.NoTools)
	m.noImages.Store(c.cfg.Profile.NoImages)
	return m, nil
}

// Name implements cascade.Model, as Answer does.
func (m *Model) Name() string { return first(m.cfg.Name, m.cfg.Model) }

type chatRequest struct {
	Model               string                     `json:"model"`
	Messages            []project.ChatMessageParam `json:"messages"`
	Stream              bool                       `json:"stream"`
	StreamOptions       *streamOptions             `json:"stream_options,omitempty"`
	Tools               []chatTool                 `json:"tools,omitempty"`
	MaxTokens           int                        `json:"max_tokens,omitempty"`
	MaxCompletionTokens int                        `json:"max_completion_tokens,omitempty"`
	Temperature         *float64                   `json:"temperature,omitempty"`
	ReasoningEffort     string                     `json:"reasoning_effort,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Answer asks for one answer. A server that refuses a part of the request that it can do without is asked again without it, and
// that is remembered.
func (m *Model) Answer(ctx context.Context, r cascade.Request, yield func(cascade.Delta) error) (cascade.Finish, error) {
	for {
		req, images := m.request(ctx, r)
		body, err := json.Marshal(req)
		if err != nil {
			return cascade.Finish{}, invalid("the request has no JSON")
		}
		res, err := m.c.post(ctx, "/chat/completions", "application/json", "text/event-stream, application/json", body)
		if err == nil {
			return m.read(ctx, res.Body, res.Header.Get("Content-Type"), yield)
		}
		if !m.learn(err, req, images) {
			return cascade.Finish{}, err
		}
	}
}

// learn takes a refusal in; true: the next request is another one.
func (m *Model) learn(err error, req chatRequest, images bool) bool {
	var e *cascade.EngineError
	if !errors.As(err, &e) || e.Code != "invalid" && e.Code != "overloaded" {
		return false
	}
	says := strings.ToLower(e.Message)
	refused := func(flag *atomic.Bool, sent bool, words ...string) bool {
		return sent && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(says, w) }) && flag.CompareAndSwap(false, true)
	}
	learnt := refused(&m.noUsage, req.StreamOptions != nil, "stream_options", "include_usage") ||
		refused(&m.noImages, images, "image", "vision", "multimodal", "mmproj") ||
		e.Code == "invalid" && refused(&m.noTools, len(req.Tools) > 0, "tools", "tool_choice", "tool use", "function call")
	if learnt {
		m.c.cfg.Log.Warn("the server refuses a part of our requests: from now on they are made without it", "model", m.Name(), "error", e.Message)
	}
	return learnt
}

// request makes the body; images: it shows some.
func (m *Model) request(ctx context.Context, r cascade.Request) (req chatRequest, images bool) {
	profile := m.c.cfg.Profile
	o := project.Options{
		KeepImages: m.cfg.KeepImages, Downscale: m.cfg.Downscale, Now: r.At, Running: r.Running,
		Developer: profile.Developer, NotesAsUser: !profile.SystemInside,
	}
	if r.Image != nil {
		o.Images = func(sha string) (string, []byte, error) { return r.Image(ctx, chatctx.BlobPrefix+sha) }
	}
	if m.noImages.Load() {
		o.KeepImages = -1
	}
	items := make(chatctx.Items, 0, len(r.Items)+2)
	if r.Instructions != "" {
		items = append(items, &chatctx.Message{ID: "instructions", Role: chatctx.RoleSystem, Content: chatctx.TextContent(r.Instructions)})
	}
	items = append(items, r.Items...)
	items = m.see(items, r.Sights)
	messages, losses := project.OpenAIChat(items, o)
	m.c.cfg.Log.Debug("a request was projected", "messages", len(messages), "losses", len(losses))
	req = chatRequest{Model: m.cfg.Model, Messages: messages, Stream: true, Temperature: m.cfg.Temperature, ReasoningEffort: m.cfg.Reasoning}
	if profile.MaxCompletion {
		req.MaxCompletionTokens = m.cfg.MaxTokens
	} else {
		req.MaxTokens = m.cfg.MaxTokens
	}
	if !m.noUsage.Load() {
		req.StreamOptions = &streamOptions{true}
	}
	if !m.noTools.Load() {
		req.Tools = m.tools(r.Tools)
	}
	return req, slices.ContainsFunc(messages, func(p project.ChatMessageParam) bool {
		return slices.ContainsFunc(p.Content.Parts, func(part project.ChatPart) bool { return part.ImageURL != nil })
	})
}

// see puts what can be seen now into the caller's last message, in a copy of it.
func (m *Model) see(items chatctx.Items, sights []switcher.Sight) chatctx.Items {
	var seen chatctx.Content
	for _, s := range sights {
		if len(s.JPEG) == 0 {
			continue
		}
		seen = append(seen, chatctx.ImageContent{
			URL: "data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(s.JPEG), Detail: m.cfg.ImageDetail,
			Source: s.Source, CapturedAt: chatctx.At(s.CapturedAt), Width: s.Width, Height: s.Height,
		})
	}
	if len(seen) == 0 {
		return items
	}
	for i, item := range slices.Backward(items) {
		if u, ok := item.(*chatctx.Message); ok && u.Role == chatctx.RoleUser {
			shown := *u
			shown.Content = slices.Concat(u.Content, seen)
			items[i] = &shown
			return items
		}
	}
	return append(items, &chatctx.Message{ID: "seen", Role: chatctx.RoleUser, Content: seen})
}

// tools are the tools in the provider's form; one whose name it would refuse is left out.
func (m *Model) tools(all []switcher.Tool) []chatTool {
	var out []chatTool
	for _, t := range all {
		if !chatctx.ValidID(t.Name) {
			m.c.cfg.Log.Warn("a tool is not offered: its name is not 1 to 64 of [A-Za-z0-9_-]", "tool", t.Name)
			continue
		}
		f := chatFunction{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
		var object map[string]any
		if json.Unmarshal(t.Parameters, &object) != nil || object == nil {
			f.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, chatTool{"function", f})
	}
	return out
}

// read takes the answer, streamed or, of a server that does not stream, in one piece.
func (m *Model) read(ctx context.Context, body io.ReadCloser, contentType string, yield func(cascade.Delta) error) (cascade.Finish, error) {
	defer body.Close()
	a := &answer{c: m.c, yield: yield}
	in := &io.LimitedReader{R: body, N: maxStream}
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "application/json" {
		whole, err := io.ReadAll(in)
		if err != nil {
			return cascade.Finish{}, unreachable(ctx, m.c.redacted(err))
		}
		if err := a.event(whole); err != nil {
			return cascade.Finish{}, err
		}
		return a.finish(in.N == 0)
	}
	err := events(in, a.event)
	switch {
	case err == nil:
	case errors.As(err, new(*cascade.EngineError)), a.refused:
		return cascade.Finish{}, err
	default:
		return cascade.Finish{}, unreachable(ctx, m.c.redacted(err))
	}
	return a.finish(in.N == 0)
}
