package importer

import (
	"encoding/json"
	"strings"
	"time"

	chatctx "sightline/context"
)

// What package project puts between ⟦ and ⟧ because a format has no place for it: handoffs, summaries, what an image is. Nobody
// else's text has these marks in what it writes, so they are read back as what they were.
const (
	markOpen  = "⟦"
	markClose = "⟧"
)

// marked gives what stands between the marks when a text is one note and nothing else.
func marked(s string) (string, bool) {
	if rest, ok := strings.CutPrefix(s, markOpen); ok {
		if note, ok := strings.CutSuffix(rest, markClose); ok && !strings.Contains(note, markOpen) && !strings.Contains(note, markClose) {
			return note, true
		}
	}
	return "", false
}

// unmark gives a message out piece by piece: notes become the items they stand for. ok is false when there is nothing of ours.
func (b *builder) unmark(m chatctx.Message, at node) (ok bool) {
	for _, p := range m.Content {
		t, isText := p.(chatctx.Text)
		ok = ok || isText && strings.HasPrefix(t.Text, markOpen)
	}
	if !ok {
		return false
	}
	content := m.Content
	m.Content = nil
	flush := func() {
		if len(m.Content) > 0 {
			b.plainMessage(m, at)
			m.ID, m.Content = "", nil
		}
	}
	var label chatctx.ImageContent
	given := m.Role
	for _, p := range content {
		if img, isImage := p.(chatctx.ImageContent); isImage {
			img.Source, img.CapturedAt = label.Source, label.CapturedAt
			label = chatctx.ImageContent{}
			m.Content = append(m.Content, img)
			continue
		}
		note, isNote := marked(p.(chatctx.Text).Text)
		role := m.Role
		if !isNote {
			role = given // only images come under another role: what follows them is the message's own again
		}
		item, kind := readNote(note)
		switch kind {
		case noteItem:
			flush()
			b.note(at, "", NoteChanged, "one of our notes is read back as what it stands for")
			b.give(b.renamed(item, m.ID, at), at)
			m.ID, role = "", given
		case noteLabel:
			label = item.(*chatctx.Message).Content[0].(chatctx.ImageContent)
		case noteStub:
			b.lose(at, "", NoteDroppedImage, "a line stands for an image that was left out")
		case noteTurn:
		case noteInstructions:
			flush()
			role = chatctx.RoleSystem
		case noteAssistant:
			flush()
			role = chatctx.RoleAssistant
		}
		if role != m.Role {
			flush()
			m.Role = role
		}
		if kind == noteUnknown {
			m.Content = append(m.Content, p)
		}
	}
	flush()
	return true
}

type noteKind int

const (
	noteUnknown      noteKind = iota
	noteItem                  // a handoff or a summary
	noteLabel                 // what the next image is; the item is a message with one image without a URL
	noteStub                  // in place of an image
	noteTurn                  // where a provider wants the user to speak
	noteInstructions          // the images that follow came with instructions
	noteAssistant             // the images that follow are the assistant's
)

func readNote(note string) (chatctx.Item, noteKind) {
	switch note {
	case "the conversation begins here", "the caller has said nothing since":
		return nil, noteTurn
	case "image that came with instructions, not sent by the caller":
		return nil, noteInstructions
	case "image that the assistant showed, not sent by the caller":
		return nil, noteAssistant
	}
	if rest, ok := strings.CutPrefix(note, "handoff: "); ok {
		return readHandoff(rest)
	}
	if rest, ok := strings.CutPrefix(note, "summary of the conversation before this point: "); ok {
		if text, rest, ok := quotedString(rest); ok && rest == "" && text != "" {
			return &chatctx.Summary{Text: text, Covers: [2]uint64{1, 1}}, noteItem // which entries it covers is not told
		}
		return nil, noteUnknown
	}
	if rest, ok := strings.CutPrefix(note, "image"); ok {
		return readLabel(rest)
	}
	return nil, noteUnknown
}

func readHandoff(s string) (chatctx.Item, noteKind) {
	h := &chatctx.AgentHandoff{}
	ok := false
	if rest, yes := strings.CutPrefix(s, "you, the agent "); yes {
		if h.ToAgent, s, ok = quotedString(rest); ok {
			s, ok = strings.CutPrefix(s, ", have taken over this conversation")
			if from, yes := strings.CutPrefix(s, " from the agent "); yes && ok {
				h.FromAgent, s, ok = quotedString(from)
			}
		}
	} else if rest, yes := strings.CutPrefix(s, "the conversation went"); yes {
		ok, s = true, rest
		if from, yes := strings.CutPrefix(s, " from the agent "); yes {
			h.FromAgent, s, ok = quotedString(from)
		}
		if to, yes := strings.CutPrefix(s, " to the agent "); yes && ok {
			h.ToAgent, s, ok = quotedString(to)
		}
	}
	if s, ok = cutIf(ok, s, "."); !ok || h.ToAgent == "" {
		return nil, noteUnknown
	}
	if reason, yes := strings.CutPrefix(s, " Reason: "); yes {
		h.Reason, s, ok = quotedString(reason)
		s, ok = cutIf(ok, s, ".")
	}
	if before, yes := strings.CutPrefix(s, " What happened before: "); yes && ok {
		h.Summary, s, ok = quotedString(before)
		s, ok = cutIf(ok, s, ".")
	}
	if !ok || s != "" {
		return nil, noteUnknown
	}
	return h, noteItem
}

func cutIf(ok bool, s, prefix string) (string, bool) {
	if !ok {
		return s, false
	}
	return strings.CutPrefix(s, prefix)
}

// readLabel reads ` from "cam", taken at 2026-01-02T03:04:05Z` and, behind a colon, why the image is not there.
func readLabel(s string) (chatctx.Item, noteKind) {
	img := chatctx.ImageContent{}
	ok := true
	if rest, yes := strings.CutPrefix(s, " from "); yes {
		img.Source, s, ok = quotedString(rest)
	}
	if rest, yes := strings.CutPrefix(s, ", taken "); yes && ok {
		s = rest
		if at, yes := strings.CutPrefix(rest, "at "); yes && len(at) >= 20 {
			if t, err := time.Parse(time.RFC3339, at[:20]); err == nil {
				img.CapturedAt, s = chatctx.At(t), at[20:]
			}
		} else if i := strings.Index(rest, " ago"); i >= 0 {
			s = rest[i+4:]
		} else {
			s = strings.TrimPrefix(rest, "just now")
		}
	}
	switch {
	case !ok:
	case s == "":
		return &chatctx.Message{Content: chatctx.Content{img}}, noteLabel
	case strings.HasPrefix(s, ": "):
		return nil, noteStub
	}
	return nil, noteUnknown
}

// quotedString reads the JSON string that s begins with.
func quotedString(s string) (text, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", s, false
	}
	end := skipString([]byte(s), 0)
	if err := json.Unmarshal([]byte(s[:end]), &text); err != nil {
		return "", s, false
	}
	return text, s[end:], true
}

// renamed gives an item of ours the id of the message that carried it.
func (b *builder) renamed(item chatctx.Item, id string, at node) chatctx.Item {
	switch it := item.(type) {
	case *chatctx.AgentHandoff:
		it.ID = b.id(id, at)
	case *chatctx.Summary:
		it.ID = b.id(id, at)
	}
	return item
}
