package importer

import (
	"fmt"
	"strconv"
	"strings"

	chatctx "sightline/context"
)

// own reads what our own transcripts put behind a message's words: images, which a text cannot hold, and [interrupted].
func (t *transcript) own(said string, m chatctx.Message) chatctx.Message {
	if rest, ok := strings.CutSuffix(said, " [interrupted]"); ok {
		said, m.Interrupted = rest, true
	}
	for strings.HasSuffix(said, "]") {
		i := strings.LastIndex(said, " [image ")
		if i < 0 || strings.Contains(said[i+8:len(said)-1], "]") {
			break
		}
		t.b.lose(t.at, "", NoteDroppedImage, "a transcript names images and does not hold them")
		said = said[:i]
	}
	for {
		i := strings.LastIndex(said, markOpen+"image")
		if i < 0 || !strings.HasSuffix(said, markClose) {
			break
		}
		t.b.lose(t.at, "", NoteDroppedImage, "a line stands for an image that was left out")
		said = strings.TrimSuffix(said[:i], " ")
	}
	m.Content = chatctx.TextContent(unquoted(said))
	return m
}

// unquoted reads a text that our transcripts quote; a quotation that they would not have made is part of the words.
func unquoted(s string) string {
	if len(s) > 1 && s[0] == '"' {
		u, err := strconv.Unquote(s)
		if err == nil && chatctx.Transcript(chatctx.Items{&chatctx.Summary{Text: u}}) == "[summary of 0 to 0] "+s+"\n" {
			return u
		}
	}
	return s
}

// ownLine: a line of our own transcripts that is no message.
func ownLine(s string) bool {
	for _, prefix := range []string{"[tool call] ", "[tool result] ", "[tool error] ", "[handoff] ", "[config] ", "[summary of ", "[switch ", markOpen + "handoff: ", markOpen + "summary of "} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// structural reads the lines of our own transcripts that are no messages.
func (t *transcript) structural(s string, at node) bool {
	if note, ok := marked(s); ok {
		item, kind := readNote(note)
		if kind == noteItem {
			t.b.give(t.b.renamed(item, "", at), at)
		}
		return kind == noteItem
	}
	tag, rest, ok := strings.Cut(s[1:], "] ")
	if !ok {
		return false
	}
	b := t.b
	switch {
	case tag == "tool call":
		name, args, ok := strings.Cut(strings.TrimSuffix(rest, ")"), "(")
		if !ok || !strings.HasSuffix(rest, ")") {
			return false
		}
		b.call(chatctx.FunctionCall{Name: name, Arguments: unquoted(args)}, at)
	case tag == "tool result", tag == "tool error":
		name, out, ok := strings.Cut(rest, " -> ")
		if !ok {
			return false
		}
		b.output(chatctx.FunctionCallOutput{Name: name, Output: unquoted(out), IsError: tag == "tool error"}, at)
	case tag == "handoff":
		way, reason, ok := strings.Cut(rest, ": ")
		if !ok {
			way = strings.TrimSuffix(rest, ":")
		}
		from, to, ok := strings.Cut(way, " to ")
		if !ok || to == "" {
			return false
		}
		b.give(&chatctx.AgentHandoff{ID: b.id("", at), FromAgent: from, ToAgent: to, Reason: unquoted(reason)}, at)
	case tag == "config" && rest != "":
		b.give(&chatctx.ConfigUpdate{ID: b.id("", at), Instructions: unquoted(rest)}, at)
	case strings.HasPrefix(tag, "summary of ") && rest != "":
		var covers [2]uint64
		if n, _ := fmt.Sscanf(tag, "summary of %d to %d", &covers[0], &covers[1]); n != 2 || covers[0] == 0 || covers[1] < covers[0] {
			return false
		}
		b.give(&chatctx.Summary{ID: b.id("", at), Text: unquoted(rest), Covers: covers}, at)
	case strings.HasPrefix(tag, "switch "):
		from, to, ok := strings.Cut(rest, " to ")
		p := &chatctx.PipelineSwitch{State: strings.TrimPrefix(tag, "switch "), From: from, To: to}
		if !ok || problem(p) != nil {
			return false
		}
		p.ID = b.id("", at)
		b.give(p, at)
	default:
		return false
	}
	return true
}
