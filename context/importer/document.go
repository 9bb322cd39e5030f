package importer

import (
	"bytes"
	"strconv"
	"strings"
)

// Detect says what format an input is read as, without reading it.
func Detect(in Input, o Options) (Format, error) {
	r, _, _, err := inspect(in, o)
	if err != nil {
		_, err = r.finish(err)
		return "", err
	}
	return r.report.Format, nil
}

// inspect surveys an input and chooses, as Stream does before it reads.
func inspect(in Input, o Options) (*reader, *survey, *conversation, error) {
	r := newReader(o)
	var err error
	if r.in, err = open(in, r.o.MaxElement); err != nil {
		return r, nil, nil, err
	}
	r.b = &builder{in: r.in}
	s, c, err := r.prepare()
	return r, s, c, err
}

// JSONDocument is one conversation of an input as one JSON value: the request that it stands in, or the list of its elements.
type JSONDocument struct {
	JSON  []byte
	root  node
	lines []node // the elements, when they are values of the top level; else nil
}

// Document gives the conversation of an input as it stands there, for those who check it themselves. It is held as a whole. Nil
// when it does not stand there in one piece: a transcript, a log of events.
func Document(in Input, o Options) (*JSONDocument, error) {
	r, s, c, err := inspect(in, o)
	if err != nil {
		_, err = r.finish(err)
		return nil, err
	}
	if s == nil {
		return nil, nil
	}
	whole := *r.in
	whole.max = int(in.Size) + 1
	if c != nil {
		return r.body(&whole, c)
	}
	d := &JSONDocument{}
	logged := false
	r.b.emit = nil
	err = r.stream(s.from, "", false, func(b *builder, el node) {
		t := el.object().str("type")
		logged = logged || isEvent(t) && t != "conversation.item.create"
		el.raw = bytes.Clone(el.raw)
		d.lines = append(d.lines, el)
	})
	if err != nil || logged {
		_, err = r.finish(err)
		return nil, err
	}
	parts := make([][]byte, len(d.lines))
	for i, el := range d.lines {
		parts[i] = el.raw
	}
	d.JSON = append(append([]byte{'['}, bytes.Join(parts, []byte{','})...), ']')
	return d, nil
}

// body gives a body's object when its list is a field of it, else the list.
func (r *reader) body(whole *input, c *conversation) (*JSONDocument, error) {
	off := c.lists[0].off
	for _, l := range c.lists {
		if l.one || l.name == "choices" || l.name == "candidates" || l.name == "output" || l.name == "chat_messages" {
			return nil, nil // an answer, not a request
		}
	}
	if l := c.lists[0]; l.path == join(c.path, l.name) && l.name != "" && l.name != "context" && l.name != "data" && l.name != "history" {
		off = c.off
	}
	v, err := whole.at(off, "")
	if err != nil {
		_, err = r.finish(err)
		return nil, err
	}
	logged := false
	v.each(func(_ int, el node) bool {
		t := el.object().str("type")
		logged = isEvent(t) && t != "conversation.item.create"
		return !logged
	})
	if logged {
		return nil, nil
	}
	return &JSONDocument{JSON: v.raw, root: v}, nil
}

// Find gives the place that a path such as messages[3].content[1] leads to, or the last on the way that is there. Where the
// document is a list, the name before the first number is what the list is called.
func (d *JSONDocument) Find(path string) Place {
	at := d.root
	rest := path
	if at.kind() == arrayKind || d.lines != nil {
		if i := strings.IndexByte(rest, '['); i > 0 && !strings.Contains(rest[:i], ".") {
			rest = rest[i:]
		}
	}
	if d.lines != nil {
		at = node{}
		if n, tail, ok := number(rest); ok && n < len(d.lines) {
			at, rest = d.lines[n], tail
		} else if len(d.lines) > 0 {
			return Place{Offset: d.lines[0].off, Field: path}
		}
	}
	for rest != "" {
		if n, tail, ok := number(rest); ok {
			next := node{}
			at.each(func(i int, v node) bool { next = v; return i < n })
			at, rest = next, tail
			continue
		}
		rest = strings.TrimPrefix(rest, ".")
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		next := at.object().get(rest[:end])
		if next.kind() == noKind {
			break
		}
		at, rest = next, rest[end:]
	}
	return Place{Offset: at.off, Field: path}
}

// number reads "[3]" from the front of a path.
func number(path string) (n int, rest string, ok bool) {
	if !strings.HasPrefix(path, "[") {
		return 0, path, false
	}
	end := strings.IndexByte(path, ']')
	if end < 0 {
		return 0, path, false
	}
	n, err := strconv.Atoi(path[1:end])
	return n, path[end+1:], err == nil && n >= 0
}
