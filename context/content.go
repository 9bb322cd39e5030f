package chatctx

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Part is one piece of a message's content: Text or ImageContent. The set is closed.
type Part interface{ isPart() }

// Text is a run of words.
type Text struct {
	Text string `json:"text"`
}

// ImageContent is an image inside the conversation (the seeds' type of that name).
type ImageContent struct {
	// URL is a data: URL, an http(s) URL (a reference, never fetched here), or BlobPrefix followed by the SHA-256 of bytes
	// that the session's store holds.
	URL    string `json:"url"`
	Detail string `json:"detail"` // auto, low or high

	Source     string `json:"source,omitempty"`     // the video source it was taken from
	CapturedAt Time   `json:"captured_at,omitzero"` // when the picture was taken, not when it was sent
	Width      int    `json:"width,omitempty"`      // pixels
	Height     int    `json:"height,omitempty"`     // pixels
}

func (Text) isPart()         {}
func (ImageContent) isPart() {}

// MarshalJSON adds the type discriminator.
func (t Text) MarshalJSON() ([]byte, error) {
	type plain Text
	return json.Marshal(struct {
		Type string `json:"type"`
		plain
	}{"text", plain(t)})
}

// MarshalJSON adds the type discriminator.
func (i ImageContent) MarshalJSON() ([]byte, error) {
	type plain ImageContent
	return json.Marshal(struct {
		Type string `json:"type"`
		plain
	}{"image", plain(i)})
}

// Content is an ordered list of parts. On the wire a plain string is accepted for it; it is always written as a list.
type Content []Part

// TextContent makes content of one text part.
func TextContent(text string) Content { return Content{Text{text}} }

// Text joins the text parts with newlines and leaves images out.
func (c Content) Text() string {
	if len(c) == 1 {
		if t, ok := c[0].(Text); ok {
			return t.Text
		}
	}
	var texts []string
	for _, p := range c {
		if t, ok := p.(Text); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Images are the image parts, in order.
func (c Content) Images() []ImageContent {
	var images []ImageContent
	for _, p := range c {
		if i, ok := p.(ImageContent); ok {
			images = append(images, i)
		}
	}
	return images
}

// MarshalJSON writes a list, [] when empty.
func (c Content) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]Part(c))
}

// UnmarshalJSON reads a string or a list of parts; an unknown part is an error that names it.
func (c *Content) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		*c = TextContent(s)
		return nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return fail(InvalidArgument, "content", "content must be a string or a list of parts")
	}
	parts := make(Content, 0, len(raw))
	for _, r := range raw {
		p, err := unmarshalPart(r)
		if err != nil {
			return err
		}
		parts = append(parts, p)
	}
	*c = parts
	return nil
}

func unmarshalPart(data []byte) (Part, error) {
	var head struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(data, &head); err != nil || head.Type == nil {
		return nil, fail(InvalidArgument, "content.type", `a content part is an object with type "text" or "image"`)
	}
	switch *head.Type {
	case "text":
		var t Text
		if err := json.Unmarshal(data, &t); err != nil {
			return nil, badField(err, "content", "content.text")
		}
		return t, nil
	case "image":
		i := ImageContent{Detail: "auto"}
		if err := json.Unmarshal(data, &i); err != nil {
			return nil, badField(err, "content", "content.captured_at")
		}
		return i, i.validate()
	}
	return nil, fail(InvalidArgument, "content.type", `unknown content part %q: allowed are "text" and "image"`, *head.Type)
}

func (i ImageContent) validate() error {
	switch i.Detail {
	case "auto", "low", "high":
	default:
		return fail(InvalidArgument, "content.detail", `detail %q: allowed are "auto", "low" and "high"`, i.Detail)
	}
	if i.Width < 0 {
		return fail(InvalidArgument, "content.width", "an image's width is not negative")
	}
	if i.Height < 0 {
		return fail(InvalidArgument, "content.height", "an image's height is not negative")
	}
	if sha, ok := strings.CutPrefix(i.URL, BlobPrefix); ok && validSHA256(sha) {
		return nil
	}
	for _, scheme := range []string{"data:", "http://", "https://"} {
		if strings.HasPrefix(i.URL, scheme) {
			return nil
		}
	}
	return fail(InvalidArgument, "content.url", "an image's url is a data: URL, an http(s) URL or %s and 64 lower-case hex digits", BlobPrefix)
}
