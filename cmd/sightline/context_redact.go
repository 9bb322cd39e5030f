package main

import (
	"fmt"
	"sort"
	"strings"

	chatctx "sightline/context"
)

func (t contextTool) redact(args []string) error {
	f := t.flags("redact", "[FILE|-]", `Takes e-mail addresses, telephone numbers, card and bank account numbers, IP addresses, tokens, keys and passwords out of what was said,
called and answered. The same value always becomes the same stub, such as [email-1]; roles, order, ids and pairs stay. It finds
what looks like such a value and nothing else: read the result before you publish it.`)
	names := f.String("names", "", "`list` of names to take out, with commas: Maria,John Smith")
	images := f.Bool("images", false, "put a line of text in the place of images")
	var w writeFlags
	w.add(f, "")
	operands, err := f.parse(args, 1)
	if err != nil {
		return err
	}
	src, err := t.open(operands, 0)
	if err != nil {
		return err
	}
	defer src.close()
	r := newRedactor(*names, *images)
	if w.to == "" {
		if w.to, err = t.formatOf(src, f); err != nil {
			return err
		}
	}
	if _, err = t.rewrite(src, f, w, r.item); err == nil {
		fmt.Fprintf(t.stderr, "%s: redacted: %s\n", src.name, r)
	}
	return err
}

// redactor takes things out of items and counts them.
type redactor struct {
	finders []finder
	images  bool
	counts  map[string]int
	stubs   map[string]string // value, with its kind before it → stub
	numbers map[string]int    // kind → stubs made
}

// maxStubs bounds how many different values are told apart.
const maxStubs = 100_000

func newRedactor(names string, images bool) *redactor {
	return &redactor{finders: finders(names), images: images, counts: map[string]int{}, stubs: map[string]string{}, numbers: map[string]int{}}
}

func (r *redactor) String() string {
	var parts []string
	for kind, n := range r.counts {
		parts = append(parts, fmt.Sprintf("%s %d", kind, n))
	}
	if len(parts) == 0 {
		return "nothing found"
	}
	sort.Strings(parts)
	return strings.Join(parts, ", ")
}

// stub stands for a value, the same for the same.
func (r *redactor) stub(kind, value string) string {
	r.counts[kind]++
	key := kind + "\x00" + strings.ToLower(value)
	if s, ok := r.stubs[key]; ok {
		return s
	}
	if len(r.stubs) >= maxStubs {
		return "[" + kind + "]"
	}
	r.numbers[kind]++
	s := fmt.Sprintf("[%s-%d]", kind, r.numbers[kind])
	r.stubs[strings.Clone(key)] = s
	return s
}

// text redacts free text. What is JSON is redacted as JSON and stays so.
func (r *redactor) text(s string) string {
	if out, ok := r.json(s); ok {
		return out
	}
	return r.plain(s)
}

func (r *redactor) plain(s string) string {
	for _, f := range r.finders {
		s = r.find(f, s)
	}
	return s
}

func (r *redactor) find(f finder, s string) string {
	if !f.mayFind(s) {
		return s
	}
	found := f.re.FindAllStringSubmatchIndex(s, -1)
	if found == nil {
		return s
	}
	var b strings.Builder
	from := 0
	for _, m := range found {
		start, end := m[2*f.group], m[2*f.group+1]
		if start < from || start < 0 || f.is != nil && !f.is(s, start, end) {
			continue
		}
		b.WriteString(s[from:start])
		b.WriteString(r.stub(f.kind, s[start:end]))
		from = end
	}
	b.WriteString(s[from:])
	return b.String()
}

// item is the redacted copy of an item.
func (r *redactor) item(item chatctx.Item) chatctx.Item {
	switch it := item.(type) {
	case *chatctx.Message:
		c := *it
		c.Content = r.content(it.Content)
		c.TextGenerated = r.text(it.TextGenerated)
		return &c
	case *chatctx.FunctionCall:
		c := *it
		c.Arguments = r.text(it.Arguments)
		return &c
	case *chatctx.FunctionCallOutput:
		c := *it
		c.Output = r.text(it.Output)
		return &c
	case *chatctx.AgentHandoff:
		c := *it
		c.Reason, c.Summary = r.text(it.Reason), r.text(it.Summary)
		return &c
	case *chatctx.ConfigUpdate:
		c := *it
		c.Instructions = r.text(it.Instructions)
		if len(it.Tools) > 0 {
			if out, ok := r.json(string(it.Tools)); ok {
				c.Tools = []byte(out)
			}
		}
		return &c
	case *chatctx.Summary:
		c := *it
		c.Text = r.text(it.Text)
		return &c
	case *chatctx.PipelineSwitch:
		c := *it
		c.Reason = r.text(it.Reason)
		return &c
	}
	return item
}

func (r *redactor) content(content chatctx.Content) chatctx.Content {
	out := make(chatctx.Content, 0, len(content))
	for _, p := range content {
		switch part := p.(type) {
		case chatctx.Text:
			out = append(out, chatctx.Text{Text: r.text(part.Text)})
		case chatctx.ImageContent:
			if r.images {
				r.counts["image"]++
				out = append(out, chatctx.Text{Text: "[image]"})
				continue
			}
			if strings.HasPrefix(part.URL, "http") {
				part.URL = r.plain(part.URL)
			}
			out = append(out, part)
		}
	}
	return out
}
