package project

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	chatctx "sightline/context"
)

// Text of ours among the caller's, and our labels in the seed, stand between these two. Everybody else's text has [ and ] in
// their place, so that only we can open or close a note.
const (
	markOpen  = "⟦"
	markClose = "⟧"
)

// reserved are the two marks and what looks like them.
var reserved = strings.NewReplacer("⟦", "[", "⟧", "]", "〚", "[", "〛", "]", "⁅", "[", "⁆", "]")

// clean makes somebody else's text fit to stand among ours: valid UTF-8 without the reserved marks.
func clean(s string) (text string, changed bool) {
	if !utf8.ValidString(s) {
		s, changed = strings.ToValidUTF8(s, "\uFFFD"), true
	}
	// Two cheap looks first: all the marks begin with one of these bytes.
	if strings.IndexByte(s, "⟦"[0]) < 0 && strings.IndexByte(s, "〚"[0]) < 0 {
		return s, changed
	}
	text = reserved.Replace(s)
	return text, changed || text != s
}

// mark makes a note of text that is clean or quoted.
func mark(text string) string { return markOpen + text + markClose }

// blank: nothing to see in it. Some providers refuse such texts.
func blank(s string) bool {
	for i := 0; i < len(s); i++ { // most texts are told by their first byte
		if c := s[i]; c >= utf8.RuneSelf {
			break
		} else if c > ' ' && c != 0x7F {
			return false
		}
	}
	return strings.IndexFunc(s, func(r rune) bool { return !unseen(r) }) < 0
}

func unseen(r rune) bool { return unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf) }

// quote writes s as one JSON string on one line, readable: letters of all scripts stay, what cannot be seen or steers the display
// (control and format characters, line and paragraph separators, private use) is escaped. The joiners that Persian, Indic
// scripts and emoji are written with stay. Reserved marks are replaced.
func quote(s string) string {
	s, _ = clean(s)
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte('"')
	writeEscaped(&b, s, true)
	b.WriteByte('"')
	return b.String()
}

// writeEscaped writes s with its escapes; without quotes, the two characters that JSON itself is made of stay as they are.
func writeEscaped(b *strings.Builder, s string, quotes bool) {
	from := 0
	for i, r := range s {
		if !quotes && (r == '"' || r == '\\') {
			continue
		}
		if esc := escape(r); esc != "" {
			b.WriteString(s[from:i])
			b.WriteString(esc)
			from = i + utf8.RuneLen(r)
		}
	}
	b.WriteString(s[from:])
}

// escape is how JSON writes r in a string; "" when r stands for itself.
func escape(r rune) string {
	switch {
	case r == '"':
		return `\"`
	case r == '\\':
		return `\\`
	case r == '\n':
		return `\n`
	case r >= ' ' && r < 0x7F, r == '\u200C', r == '\u200D':
		return ""
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co):
		if r > 0xFFFF {
			r -= 0x10000
			return fmt.Sprintf(`\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
		}
		return fmt.Sprintf(`\u%04x`, r)
	}
	return ""
}

// maxShort bounds, in bytes, a name or source that we repeat in a line of ours.
const maxShort = 80

// short quotes a name that should be short.
func short(s string) string {
	if len(s) > maxShort {
		s = strings.ToValidUTF8(s[:maxShort], "") + "…"
	}
	return quote(s)
}

// handoffNote tells a handoff, to its receiver as taking over.
func handoffNote(h *chatctx.AgentHandoff, receiver bool) string {
	var b strings.Builder
	from := ""
	if h.FromAgent != "" {
		from = " from the agent " + short(h.FromAgent)
	}
	if receiver {
		b.WriteString("handoff: you, the agent " + short(h.ToAgent) + ", have taken over this conversation" + from + ".")
	} else {
		b.WriteString("handoff: the conversation went" + from + " to the agent " + short(h.ToAgent) + ".")
	}
	if !blank(h.Reason) {
		b.WriteString(" Reason: " + quote(h.Reason) + ".")
	}
	if !blank(h.Summary) {
		b.WriteString(" What happened before: " + quote(h.Summary) + ".")
	}
	return b.String()
}

// summaryNote stands for the part of the conversation that a summary covers.
func summaryNote(s *chatctx.Summary) string {
	return "summary of the conversation before this point: " + quote(s.Text)
}

// imageLabel says what an image is: its source and when it was taken, "" when neither is known.
func imageLabel(img chatctx.ImageContent, now time.Time) string {
	if img.Source == "" && img.CapturedAt.IsZero() {
		return ""
	}
	label := "image"
	if img.Source != "" {
		label += " from " + short(img.Source)
	}
	if !img.CapturedAt.IsZero() {
		label += ", taken " + taken(img.CapturedAt.Time, now)
	}
	return label
}

// taken is an age when there is a now to count from, else the time itself.
func taken(at, now time.Time) string {
	if now.IsZero() {
		return "at " + at.UTC().Format(time.RFC3339)
	}
	switch age := now.Sub(at); {
	case age < 0:
		return "just now"
	case age < 10*time.Second:
		return fmt.Sprintf("%.1f s ago", age.Seconds())
	case age < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(age.Seconds()))
	case age < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(age.Minutes()))
	default:
		return fmt.Sprintf("%d h ago", int(age.Hours()))
	}
}
