package importer

import (
	"fmt"
	"strings"
)

// survey is what the first reading of a JSON input finds out.
type survey struct {
	evidence
	elements int            // top-level values that are elements themselves
	from     int64          // where the first of them stands
	bodies   []conversation // objects that hold a list of elements
	more     int            // conversations beyond maxBodies
	array    bool           // the input is one list
	stray    []node         // objects of which it is not known what they are; the first only
}

// conversation is a body: one list of elements, or several, with what stands beside them.
type conversation struct {
	off    int64
	path   string
	lists  []container
	beside map[string]node // small fields that matter: instructions, model, format …
}

// container is a list of elements, or one value that is read as one.
type container struct {
	name string // the field
	path string
	off  int64
	one  bool // an object or a string, not a list
}

const (
	maxBodies = 10_000
	maxBeside = 4 << 20 // bytes of a field beside the elements
)

// containers are the fields that hold a conversation's elements.
var containers = map[string]bool{
	"items": true, "messages": true, "input": true, "output": true, "contents": true, "chat_messages": true, "mapping": true,
	"choices": true, "candidates": true, "data": true, "context": true, "turns": true, "history": true, "events": true, "conversation": true, "transcript": true,
}

// wrappers are the fields whose object is a body inside a body.
var wrappers = map[string]bool{
	"context": true, "chat_history": true, "chat_ctx": true, "chat_context": true, "body": true, "clientContent": true, "request": true, "response": true, "snapshot": true, "history": true, "conversation": true, "setup": true,
}

// besides are the fields that stand beside the elements and say something.
var besides = map[string]bool{
	"system": true, "instructions": true, "systemInstruction": true, "system_instruction": true, "model": true, "format": true,
	"object": true, "tools": true, "current_node": true, "title": true, "name": true, "id": true, "conversation_id": true, "uuid": true, "type": true,
	"anthropic_version": true, "max_tokens": true, "stop_sequences": true, "seq": true, "previous_response_id": true, "generationConfig": true,
	"generation_config": true, "role": true, "op": true, "tool_choice": true, "functions": true, "job_id": true, "room": true,
	"ideal": true, "expected": true, "prompt": true,
}

// maxNesting is how deep a body may stand in bodies.
const maxNesting = 4

func (in *input) survey() (*survey, error) {
	s := &survey{}
	d := in.decode(in.base)
	for {
		d.lim.left = d.lim.max
		if !d.More() {
			break
		}
		start := d.offset()
		t, err := d.token()
		if err != nil {
			return nil, err
		}
		switch t {
		case delimOf('['):
			s.array = true
			if err := s.list(d, container{off: start}, 0, nil); err != nil {
				return nil, err
			}
		case delimOf('{'):
			c := conversation{beside: map[string]node{}}
			if err := s.object(d, &c, "", 0); err != nil {
				return nil, err
			}
			if err := s.topLevel(in, d, c); err != nil {
				return nil, err
			}
		default:
			return nil, &Error{Place: Place{Offset: d.offset() - 1}, Detail: fmt.Sprintf("a conversation is a list, an object or lines of objects, not %s", describe(t))}
		}
	}
	if _, err := d.Token(); err != nil && d.offset() < in.Size {
		if rest := d.fault(err, ""); !strings.Contains(rest.Error(), "cut off") {
			return nil, rest
		}
	}
	return s, nil
}

func describe(t any) string {
	switch t.(type) {
	case string:
		return "a string"
	case bool:
		return "true or false"
	case nil:
		return "null"
	}
	return "a number"
}

// topLevel decides what an object of the top level is: an element, or a body. d stands behind it.
func (s *survey) topLevel(in *input, d *decoder, c conversation) error {
	end := d.offset()
	start := c.off
	isElement := c.beside["role"].given() || isElementType(text(c.beside["type"])) || c.beside["op"].given()
	if !isElement && len(c.lists) > 0 {
		s.body(c)
		return nil
	}
	if end-start > int64(in.max) {
		return &Error{Place: Place{Offset: start}, Detail: fmt.Sprintf("an element of %d bytes: at most %d are read", end-start, in.max)}
	}
	el, err := in.at(start, "")
	if err != nil {
		return err
	}
	if !s.look(el) && !isElement {
		if len(s.stray) == 0 {
			s.stray = append(s.stray, node{off: el.off})
		}
		return nil
	}
	if s.elements == 0 {
		s.from = start
	}
	s.elements++
	return nil
}

func (s *survey) body(c conversation) {
	if len(s.bodies) >= maxBodies {
		s.more++
		return
	}
	s.lookBeside(c)
	s.bodies = append(s.bodies, c)
}

// text is the string of a small node.
func text(n node) string {
	if n.kind() != stringKind {
		return ""
	}
	t, _ := unquote(n.raw)
	return t
}

// object reads the fields of an object whose brace is read, into c.
func (s *survey) object(d *decoder, c *conversation, path string, depth int) error {
	if depth == 0 {
		c.off = d.offset() - 1
	}
	for {
		d.lim.left = d.lim.max
		if !d.More() {
			break
		}
		t, err := d.token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if err := s.field(d, c, key, join(path, key), depth); err != nil {
			return err
		}
	}
	_, err := d.token() // the brace; a fault names its place
	return err
}

func (s *survey) field(d *decoder, c *conversation, key, path string, depth int) error {
	var at int64
	var first byte
	if containers[key] || wrappers[key] {
		at, first = d.peek()
	}
	switch {
	case first == '[' && containers[key]:
		if _, err := d.token(); err != nil {
			return err
		}
		list := container{name: key, path: path, off: at}
		c.lists = append(c.lists, list)
		return s.list(d, list, depth, c)
	case first == '{' && key == "mapping":
		c.lists = append(c.lists, container{name: key, path: path, off: at, one: true})
	case first == '{' && wrappers[key] && depth < maxNesting:
		if _, err := d.token(); err != nil {
			return err
		}
		if key == "chat_history" {
			s.add(LiveKit, 2, at, "chat_history, as in LiveKit's session reports")
		}
		return s.object(d, c, path, depth+1)
	case first == '"' && (key == "context" || key == "input" || key == "transcript"):
		c.lists = append(c.lists, container{name: key, path: path, off: at, one: true})
	}
	v, err := d.value(path)
	if err != nil {
		return err
	}
	if besides[key] && len(v.raw) <= maxBeside {
		if _, there := c.beside[key]; !there || depth > 0 {
			c.beside[key] = v
		}
	}
	return nil
}

// list reads a list whose bracket is read and looks at its elements.
func (s *survey) list(d *decoder, l container, depth int, c *conversation) error {
	inner := 0
	for i := 0; ; i++ {
		d.lim.left = d.lim.max
		if !d.More() {
			break
		}
		v, err := d.value(index(l.path, i))
		if err != nil {
			return err
		}
		if v.kind() == objectKind && (c == nil || l.name == "data") {
			if b, ok := bodyOf(v, index(l.path, i)); ok {
				s.body(b)
				inner++
				continue
			}
		}
		s.look(v)
	}
	if c == nil && inner == 0 {
		s.bodies = append(s.bodies, conversation{lists: []container{l}, beside: map[string]node{}})
	}
	_, err := d.token()
	return err
}

// bodyOf sees whether an object is a body: it is no element and holds a list of elements. The body's bytes are found again.
func bodyOf(v node, path string) (conversation, bool) {
	o := v.object()
	if o.has("role", "parts", "op") || isElementType(o.str("type")) {
		return conversation{}, false
	}
	c := conversation{off: v.off, path: path, beside: map[string]node{}}
	c.collect(o, path, 0)
	return c, len(c.lists) > 0
}

func (c *conversation) collect(o object, path string, depth int) {
	for _, key := range o.order {
		f := o.fields[key]
		switch {
		case containers[key] && f.kind() == arrayKind:
			c.lists = append(c.lists, container{name: key, path: join(path, key), off: f.off})
		case key == "mapping" && f.kind() == objectKind:
			c.lists = append(c.lists, container{name: key, path: join(path, key), off: f.off, one: true})
		case wrappers[key] && f.kind() == objectKind && depth < maxNesting:
			c.collect(f.object(), join(path, key), depth+1)
		case besides[key] && len(f.raw) <= 4096:
			c.beside[key] = node{append([]byte(nil), f.raw...), f.off}
		}
	}
}

func join(path, field string) string {
	if path == "" || field == "" {
		return path + field
	}
	return path + "." + field
}

func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
