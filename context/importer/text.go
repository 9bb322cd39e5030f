package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	chatctx "sightline/context"
)

// speakers are the names that transcripts use, in lower case.
var speakers = map[string]chatctx.Role{
	"user": chatctx.RoleUser, "caller": chatctx.RoleUser, "human": chatctx.RoleUser, "customer": chatctx.RoleUser, "client": chatctx.RoleUser, "you": chatctx.RoleUser, "me": chatctx.RoleUser,
	"patient": chatctx.RoleUser, "guest": chatctx.RoleUser, "visitor": chatctx.RoleUser,
	"assistant": chatctx.RoleAssistant, "agent": chatctx.RoleAssistant, "ai": chatctx.RoleAssistant, "bot": chatctx.RoleAssistant, "model": chatctx.RoleAssistant,
	"chatgpt": chatctx.RoleAssistant, "claude": chatctx.RoleAssistant, "gemini": chatctx.RoleAssistant, "gpt": chatctx.RoleAssistant,
	"system": chatctx.RoleSystem, "developer": chatctx.RoleDeveloper,
}

// toolNames speak for a tool.
var toolNames = map[string]bool{"tool": true, "function": true, "tool result": true, "tool output": true, "function result": true}

// maxName is how long a speaker's name may be, in bytes.
const maxName = 40

// transcript reads lines such as "User: …"; a line that begins nothing belongs to what was said before.
type transcript struct {
	b       *builder
	max     int
	names   map[string]int // unknown names and how often they begin a line
	open    bool           // somebody's words, or a line of our own transcripts, are open
	who     string         // whose words; "" = an own line
	lines   []string
	size    int
	at      node
	guessed map[string]bool
}

func (r *reader) readText() error {
	r.report.Format, r.report.Why, r.report.Conversations = Text, "no JSON: it begins with neither { nor [", 1
	if r.o.Format == Text {
		r.report.Why = "as asked for"
	}
	src := func() io.Reader { return io.NewSectionReader(r.in, r.in.base, r.in.Size-r.in.base) }
	return r.transcribe(src, r.in.base)
}

// readTextField reads the transcript that an answer of the HTTP API carries as a string.
func (r *reader) readTextField(c *conversation) error {
	if c == nil || len(c.lists) == 0 {
		return &Error{Detail: "no text here"}
	}
	v, err := r.in.at(c.lists[0].off, c.lists[0].path)
	if err != nil {
		return err
	}
	r.b.path = c.lists[0].path
	s := r.b.str(v, "")
	if r.b.err != nil {
		return r.b.err
	}
	return r.transcribe(func() io.Reader { return strings.NewReader(s) }, v.off)
}

// transcribe reads the text twice: who speaks is known only when it is known whose name comes back.
func (r *reader) transcribe(src func() io.Reader, base int64) error {
	t := &transcript{b: r.b, max: r.in.max, names: map[string]int{}, guessed: map[string]bool{}}
	known := 0
	err := eachLine(src(), t.max, func(line []byte, _ int64) {
		name, _, ok := speaker(string(line[:min(len(line), 2*maxName)]))
		switch {
		case !ok:
		case speakers[strings.ToLower(name)] != "" || toolNames[strings.ToLower(name)]:
			known++
		case len(t.names) < 1000:
			t.names[name]++
		}
	})
	if err == nil {
		r.report.Why += fmt.Sprintf("; %d lines begin with a speaker's name", known)
		err = eachLine(src(), t.max, func(line []byte, off int64) { t.line(line, off+base) })
	}
	if errors.Is(err, errTooLong) {
		return &Error{Detail: fmt.Sprintf("a line of more than %d bytes", t.max)}
	}
	if err != nil {
		return &Error{Detail: "the input cannot be read", Cause: err}
	}
	if t.flush(); r.b.err == nil && r.b.count == 0 {
		return &Error{Place: Place{Line: 1, Column: 1}, Detail: `no conversation here: it is no JSON, and no line begins with a speaker's name such as "User:"`}
	}
	return r.b.err
}

func eachLine(src io.Reader, max int, f func(line []byte, off int64)) error {
	in := bufio.NewReaderSize(src, 64<<10)
	var off int64
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > max {
			return errTooLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if len(line) > 0 {
			n := int64(len(line))
			f(bytes.TrimRight(line, "\r\n"), off)
			off += n
			line = line[:0]
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// speaker finds "Name: words" at the start of a line, with "[12:03] " or "**" around it.
func speaker(line string) (name, words string, ok bool) {
	s := strings.TrimLeft(line, " \t>#-*_")
	if strings.HasPrefix(s, "[") {
		if end := strings.IndexByte(s, ']'); end > 0 && end < maxName && strings.Trim(s[1:end], "0123456789:.,-/ TZ") == "" {
			s = strings.TrimLeft(s[end+1:], " \t*_")
		}
	}
	i := strings.IndexByte(s, ':')
	if i < 1 || i > maxName {
		return "", "", false
	}
	name = strings.TrimRight(s[:i], "*_ \t")
	words = strings.TrimLeft(s[i+1:], "*_")
	if name == "" || words != "" && words[0] != ' ' && words[0] != '\t' || strings.ContainsAny(name, `"{}[]<>=;,/\`) || len(strings.Fields(name)) > 3 {
		return "", "", false
	}
	return name, strings.TrimPrefix(words, " "), true
}

func (t *transcript) line(line []byte, off int64) {
	if t.b.err != nil {
		return
	}
	s := string(line)
	if !utf8.ValidString(s) {
		t.b.lose(node{off: off}, "", NoteText, "invalid UTF-8 became U+FFFD")
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	at := node{off: off}
	if name, words, ok := t.opens(s); ok {
		t.flush()
		t.open, t.who, t.at, t.lines, t.size = true, name, at, []string{words}, len(words)
		return
	}
	switch {
	case !t.open && strings.TrimSpace(s) == "":
	case !t.open:
		t.b.lose(at, "", NoteDroppedPart, "words before the first speaker's name")
	default:
		if t.size += len(s) + 1; t.size > t.max {
			t.b.fail(at, "", "one speaker's words have more than %d bytes", t.max)
			return
		}
		t.lines = append(t.lines, s)
	}
}

// opens tells whether a line begins somebody's words: a known name, one that comes back, or the first of all. A line of our own
// transcripts has no name.
func (t *transcript) opens(s string) (name, words string, ok bool) {
	if ownLine(s) {
		return "", s, true
	}
	if t.open && strings.HasPrefix(s, "  ") {
		return "", "", false // package project indents the further lines of a text, so that none can begin another's words
	}
	name, words, ok = speaker(s)
	if !ok {
		return
	}
	low := strings.ToLower(name)
	if base, _, found := strings.Cut(low, " ("); found {
		low = base
	}
	if speakers[low] != "" || toolNames[low] || t.names[name] > 1 || !t.open {
		return name, words, true
	}
	return "", "", false
}

// flush gives the open words out.
func (t *transcript) flush() {
	if !t.open {
		return
	}
	name := t.who
	said := strings.TrimRight(strings.Join(unindent(t.lines), "\n"), "\n")
	t.open, t.lines, t.size = false, nil, 0
	if name == "" {
		if !t.structural(said, t.at) {
			t.b.lose(t.at, "", NoteDroppedPart, "a line in brackets that is none of ours")
		}
		return
	}
	b := t.b
	low, agent := strings.ToLower(name), ""
	if base, rest, found := strings.Cut(name, " ("); found && strings.HasSuffix(rest, ")") {
		low, agent = strings.ToLower(base), strings.TrimSuffix(rest, ")")
	}
	if toolNames[low] {
		b.output(chatctx.FunctionCallOutput{Output: said}, t.at)
		return
	}
	role := speakers[low]
	if role == "" {
		role = chatctx.RoleUser
		if !t.guessed[name] {
			t.guessed[name] = true
			b.lose(t.at, "", NoteRole, "unknown speaker %q taken as the user", clip(name))
		}
	}
	m := t.own(said, chatctx.Message{Role: role, AgentID: agent})
	b.message(m, t.at)
}

// unindent takes away the two spaces that package project puts before every further line of a text.
func unindent(lines []string) []string {
	for _, l := range lines[1:] {
		if !strings.HasPrefix(l, "  ") && l != "" {
			return lines
		}
	}
	out := append([]string(nil), lines...)
	for i := range out[1:] {
		out[i+1] = strings.TrimPrefix(out[i+1], "  ")
	}
	return out
}
