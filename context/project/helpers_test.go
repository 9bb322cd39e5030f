package project_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"sync"
	"testing"

	chatctx "sightline/context"
	"sightline/context/project"
)

func user(id, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent(text)}
}

func assistant(id, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleAssistant, Content: chatctx.TextContent(text)}
}

func system(id, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleSystem, Content: chatctx.TextContent(text)}
}

func call(id, callID string) *chatctx.FunctionCall {
	return &chatctx.FunctionCall{ID: id, CallID: callID, Name: "look_up", Arguments: `{"n":1}`}
}

func output(id, callID, text string) *chatctx.FunctionCallOutput {
	return &chatctx.FunctionCallOutput{ID: id, CallID: callID, Name: "look_up", Output: text}
}

// pngOf is a grey PNG of a size.
func pngOf(width, height int) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func jpegOf(width, height int) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, width, height)), nil); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func gifOf(width, height int) []byte {
	var b bytes.Buffer
	if err := gif.Encode(&b, image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White}), nil); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// padded is a PNG whose base64 ends in padding.
func padded() []byte {
	for width := 1; ; width++ {
		if data := pngOf(width, 7); len(data)%3 != 0 {
			return data
		}
	}
}

// heavyJPEG is a JPEG of at least size bytes: what follows its end is not looked at.
func heavyJPEG(size int) []byte { return append(jpegOf(8, 8), make([]byte, size)...) }

// Made once: the property tests take them thousands of times.
var samples = sync.OnceValue(func() map[string][]byte {
	return map[string][]byte{
		"png": pngOf(16, 9), "jpeg": jpegOf(16, 9), "gif": gifOf(16, 9), "wide": pngOf(9000, 2), "large": pngOf(2100, 2),
		"padded": padded(), "heavy": heavyJPEG(5 << 20), "junk": []byte("<html>not found</html>"),
	}
})

// blobs resolves sightline:blob URLs made by blobURL.
func blobs(sha string) (string, []byte, error) {
	name := strings.TrimLeft(sha, "0")
	data, ok := samples()[name]
	if !ok {
		return "", nil, fmt.Errorf("no blob %s", name)
	}
	return "image/png", data, nil // the declared type is not to be believed
}

// blobURL names a sample. It is no real SHA-256, which the projectors do not look at.
func blobURL(name string) string {
	return chatctx.BlobPrefix + strings.Repeat("0", 64-len(name)) + name
}

func dataURL(mime string, data []byte) string {
	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// marshal writes v as it goes on the wire.
func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// projection is one format with its projector.
type projection struct {
	format project.Format
	schema string
	make   func(chatctx.Items, project.Options) (any, []project.Loss)
}

func projections() []projection {
	return []projection{
		{project.FormatOpenAIChat, "OpenAIChat", func(i chatctx.Items, o project.Options) (any, []project.Loss) { return project.OpenAIChat(i, o) }},
		{project.FormatOpenAIResponses, "OpenAIResponses", func(i chatctx.Items, o project.Options) (any, []project.Loss) { return project.OpenAIResponses(i, o) }},
		{project.FormatOpenAIRealtime, "OpenAIRealtime", func(i chatctx.Items, o project.Options) (any, []project.Loss) {
			c, losses := project.OpenAIRealtime(i, o)
			return c.Events("root"), losses
		}},
		{project.FormatAnthropic, "Anthropic", func(i chatctx.Items, o project.Options) (any, []project.Loss) { return project.Anthropic(i, o) }},
		{project.FormatGemini, "Gemini", func(i chatctx.Items, o project.Options) (any, []project.Loss) { return project.Gemini(i, o) }},
	}
}

// everyFormat runs f for each format as a test of its own.
func everyFormat(t *testing.T, f func(t *testing.T, p projection)) {
	for _, p := range projections() {
		t.Run(string(p.format), func(t *testing.T) { f(t, p) })
	}
}

// mustPass fails when the provider would refuse the output.
func mustPass(t testing.TB, p projection, out any) {
	t.Helper()
	data := marshal(t, out)
	for _, problem := range project.Validate(p.format, data) {
		if !problem.Some {
			t.Errorf("%s: %v\n%.2000s", p.format, problem, data)
		}
	}
}

func lost(losses []project.Loss, kind, itemID string) bool {
	return slices.ContainsFunc(losses, func(l project.Loss) bool { return l.Kind == kind && l.ItemID == itemID })
}

// wantLoss fails when a loss is not reported.
func wantLoss(t testing.TB, losses []project.Loss, kind, itemID string) {
	t.Helper()
	if !lost(losses, kind, itemID) {
		t.Errorf("no loss %s of %q reported in %+v", kind, itemID, losses)
	}
}
