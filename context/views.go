package chatctx

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Truncate keeps at most maxItems items and maxTokens estimated tokens (nil = no limit), as a context.truncate operation does:
// instructions, handoffs, summaries and the newest user message stay, a call and its output go together, the oldest go first.
func (s Items) Truncate(maxItems, maxTokens *int) (Items, error) {
	return s.TruncateBy(maxItems, maxTokens, itemTokens)
}

// TruncateBy is Truncate with a count of tokens of the caller's choice, which is asked up to three times for an item.
func (s Items) TruncateBy(maxItems, maxTokens *int, tokens func(Item) int) (Items, error) {
	removed, err := planTruncate(s, maxItems, maxTokens, tokens)
	if err != nil {
		return nil, err
	}
	kept := make(Items, 0, len(s)-len(removed))
	for i, item := range s {
		if len(removed) > 0 && removed[0] == i {
			removed = removed[1:]
			continue
		}
		kept = append(kept, item)
	}
	return kept, nil
}

// MaxInlineBytes bounds the data: URLs that Inline makes for one list of items: a conversation may show one image many times.
const MaxInlineBytes = 64 << 20

// Inline puts data: URLs in the place of blob references; the items are copied where they change. More than MaxInlineBytes of them
// are an *Error of kind TooLarge, found before the image that would be too much is encoded.
func Inline(ctx context.Context, log *Log, items Items) (Items, error) {
	out, room := make(Items, len(items)), MaxInlineBytes
	for n, item := range items {
		out[n] = item
		m, ok := item.(*Message)
		if !ok {
			continue
		}
		content := slices.Clone(m.Content)
		for k, part := range content {
			img, ok := part.(ImageContent)
			if !ok {
				continue
			}
			sha, ok := strings.CutPrefix(img.URL, BlobPrefix)
			if !ok {
				continue
			}
			blob, err := log.Blob(ctx, sha)
			if err != nil {
				return nil, err
			}
			if room -= len(blob.MIME) + len("data:;base64,") + encodedLen(len(blob.Data)); room < 0 {
				return nil, fail(TooLarge, "inline", "the images have more than %d bytes as data: URLs: read fewer items, or the images one by one", MaxInlineBytes)
			}
			img.URL = DataURL(blob.MIME, blob.Data)
			content[k] = img
		}
		c := *m
		c.Content = content
		out[n] = &c
	}
	return out, nil
}

// Transcript is the conversation for a person to read, one line an item. Text is quoted where it would not read
// as it is, so that no words can pose as another line or as the marks of an image or an interruption.
func Transcript(items Items) string {
	var b strings.Builder
	for _, item := range items {
		switch it := item.(type) {
		case *Message:
			who := string(it.Role)
			if it.AgentID != "" {
				who += " (" + it.AgentID + ")"
			}
			fmt.Fprintf(&b, "%s: %s", who, oneLine(it.Content.Text()))
			for _, img := range it.Content.Images() {
				fmt.Fprintf(&b, " [image %s %d×%d]", img.Source, img.Width, img.Height)
			}
			if it.Interrupted {
				b.WriteString(" [interrupted]")
			}
			b.WriteByte('\n')
		case *FunctionCall:
			fmt.Fprintf(&b, "[tool call] %s(%s)\n", it.Name, oneLine(it.Arguments))
		case *FunctionCallOutput:
			kind := "result"
			if it.IsError {
				kind = "error"
			}
			fmt.Fprintf(&b, "[tool %s] %s -> %s\n", kind, it.Name, oneLine(it.Output))
		case *AgentHandoff:
			fmt.Fprintf(&b, "[handoff] %s to %s: %s\n", it.FromAgent, it.ToAgent, oneLine(it.Reason))
		case *ConfigUpdate:
			fmt.Fprintf(&b, "[config] %s\n", oneLine(it.Instructions))
		case *Summary:
			fmt.Fprintf(&b, "[summary of %d to %d] %s\n", it.Covers[0], it.Covers[1], oneLine(it.Text))
		case *PipelineSwitch:
			fmt.Fprintf(&b, "[switch %s] %s to %s\n", it.State, it.From, it.To)
		}
	}
	return b.String()
}

// oneLine quotes a text that would not read as it is: one with line breaks or other control characters, one that looks quoted, and
// one that ends like the marks that may follow it.
func oneLine(s string) string {
	breaks := func(r rune) bool { return unicode.IsControl(r) && r != '\t' || r == '\u2028' || r == '\u2029' }
	if strings.HasPrefix(s, `"`) || strings.HasSuffix(s, "]") || strings.TrimSpace(s) != s || strings.ContainsFunc(s, breaks) {
		return strconv.Quote(s)
	}
	return s
}
