package importer

import (
	"cmp"
	"fmt"
	"slices"

	chatctx "sightline/context"
)

// DefaultMaxElement is how many bytes one element (a message with its images) may have when Options does not say.
const DefaultMaxElement = 64 << 20

// Options of an import. The zero value reads anything.
type Options struct {
	Format       Format // "" or Auto: look at the input
	Plain        Format // what nothing but role and content is read as: OpenAI ("") or Anthropic
	Conversation int    // which one, from 1, when the input holds several; 0 = there must be one
	MaxElement   int    // bytes of one element; 0 = DefaultMaxElement
	FillIDs      bool   // give ids to items that have none: item_1, item_2, …
}

// Stream reads a conversation and hands each item to f at once, with its place (whose line is not known yet: Lines tells it).
// The Report is there also when an error is returned, as far as it goes. Errors about the input are *Error; an error of f stops the
// reading and is returned as it is.
func Stream(in Input, o Options, f func(item chatctx.Item, at Place) error) (Report, error) {
	r := newReader(o)
	var err error
	if r.in, err = open(in, r.o.MaxElement); err == nil {
		r.b = &builder{in: r.in, emit: f, fill: o.FillIDs}
		err = r.read()
	}
	return r.finish(err)
}

// Read is Stream into a list.
func Read(in Input, o Options) (chatctx.Items, Report, error) {
	items := chatctx.Items{}
	report, err := Stream(in, o, func(item chatctx.Item, _ Place) error {
		items = append(items, item)
		return nil
	})
	return items, report, err
}

// Lines gives places of an input their lines and columns.
func Lines(in Input, places []*Place) {
	i, err := open(in, DefaultMaxElement)
	if err == nil {
		i.lines(places)
	}
}

type reader struct {
	in     *input
	o      Options
	b      *builder
	report Report
}

func newReader(o Options) *reader {
	if o.MaxElement == 0 {
		o.MaxElement = DefaultMaxElement
	}
	if o.Format == "" {
		o.Format = Auto
	}
	return &reader{o: o, report: Report{Format: o.Format}}
}

func (r *reader) finish(err error) (Report, error) {
	rep := r.report
	var places []*Place
	if r.b != nil {
		rep.Notes, rep.Untold, rep.Items = r.b.notes.list, r.b.notes.untold, r.b.count
		slices.SortStableFunc(rep.Notes, func(a, b Note) int { return cmp.Compare(a.Offset, b.Offset) })
		for i := range rep.Notes {
			places = append(places, &rep.Notes[i].Place)
		}
	}
	if rep.Notes == nil {
		rep.Notes = []Note{}
	}
	var bad *Error
	if e, ok := err.(*Error); ok {
		copied := *e
		bad, err = &copied, &copied
		if bad.Line == 0 {
			places = append(places, &bad.Place)
		}
	}
	if r.in != nil {
		r.in.lines(places)
	}
	return rep, err
}

// prepare finds out what the input is: no survey for a transcript, no conversation for elements of the top level.
func (r *reader) prepare() (*survey, *conversation, error) {
	if !slices.Contains(Formats(), r.o.Format) {
		return nil, nil, fmt.Errorf("unknown format %q: allowed are %v", clip(string(r.o.Format)), Formats())
	}
	first := r.in.first()
	if first == 0 {
		return nil, nil, &Error{Place: Place{Line: 1, Column: 1}, Detail: "the input is empty"}
	}
	if r.o.Format == Text || r.o.Format == Auto && first != '{' && first != '[' {
		r.report.Format = Text
		return nil, nil, nil
	}
	s, err := r.in.survey()
	if err != nil {
		return nil, nil, err
	}
	c, err := r.choose(s)
	if err == nil {
		r.decide(s, c)
	}
	return s, c, err
}

func (r *reader) read() error {
	s, c, err := r.prepare()
	if err != nil {
		return err
	}
	if s == nil {
		return r.readText()
	}
	if r.report.Format == Text {
		return r.readTextField(c)
	}
	r.b.marks = slices.Contains([]Format{OpenAI, Responses, Realtime, Anthropic, Gemini, Text}, r.report.Format)
	r.b.exact = r.report.Format == Items
	read := r.elementReader()
	if read == nil {
		return r.special(s, c)
	}
	if c == nil {
		return r.stream(s.from, "", false, read)
	}
	r.beside(*c)
	return r.lists(*c, read)
}

// decide settles the format and says why.
func (r *reader) decide(s *survey, c *conversation) {
	if c != nil {
		s.lookBeside(*c)
	}
	f, why, rival, against := s.verdict()
	if s.signs[f].weight == 0 && r.o.Plain == Anthropic {
		f = Anthropic
	}
	if s.signs[Text].weight > sure {
		f, why, rival = Text, s.signs[Text].why, ""
	}
	if r.o.Format != Auto {
		r.report.Format, r.report.Why = r.o.Format, "as asked for"
		if f != r.o.Format && s.signs[f].weight >= strong && s.signs[r.o.Format].weight < s.signs[f].weight {
			r.b.notes.add(Note{Place: Place{Offset: s.signs[f].off}, Kind: NoteAmbiguous, Detail: fmt.Sprintf("this looks like %s: %s", f, s.signs[f].why)})
		}
		return
	}
	r.report.Format, r.report.Why = f, why
	if rival != "" {
		r.b.notes.add(Note{Place: Place{Offset: against.off}, Kind: NoteAmbiguous,
			Detail: fmt.Sprintf("read as %s (%s), but there is also a sign of %s: %s; --from decides", f, why, rival, against.why)})
	}
}

// choose gives the conversation to read; nil = the elements of the top level.
func (r *reader) choose(s *survey) (*conversation, error) {
	n := len(s.bodies) + s.more
	r.report.Conversations = n
	if s.elements > 0 {
		r.report.Conversations = 1
		if n > 0 {
			b := s.bodies[0]
			return nil, &Error{Place: Place{Offset: b.off}, Detail: "a whole conversation among single elements: an input is one or the other"}
		}
		return nil, nil
	}
	switch {
	case n == 0:
		at := Place{Line: 1, Column: 1}
		if len(s.stray) > 0 {
			at = Place{Offset: s.stray[0].off}
		}
		return nil, &Error{Place: at, Detail: "no conversation here: no element has a role or a known type, no field holds a list of them"}
	case r.o.Conversation == 0 && n > 1:
		return nil, &Error{Place: Place{Offset: s.bodies[1].off}, Detail: fmt.Sprintf("%d conversations are here: choose one by its number (--conversation)", n)}
	case r.o.Conversation > len(s.bodies) || r.o.Conversation < 0:
		return nil, &Error{Detail: fmt.Sprintf("there is no conversation %d: choose 1 to %d", r.o.Conversation, len(s.bodies))}
	}
	return &s.bodies[max(r.o.Conversation, 1)-1], nil
}

// elementReader is the function that reads one element of the format; nil when the format does not go element by element.
func (r *reader) elementReader() func(b *builder, el node) {
	switch r.report.Format {
	case Transport:
		return (*builder).transport
	case OpenAI:
		return (*builder).openAI
	case Responses:
		return (*builder).responses
	case Anthropic:
		return (*builder).anthropic
	case Gemini:
		return (*builder).gemini
	case LiveKit, VideoSDK:
		return (*builder).liveKit
	}
	return nil
}

// special reads the formats whose elements say something about other elements.
func (r *reader) special(s *survey, c *conversation) error {
	switch r.report.Format {
	case ChatGPT:
		return r.chatGPT(c)
	case Realtime:
		return r.realtime(s, c)
	}
	return r.items(s, c)
}

// stream reads values one after another, from a list's bracket or from the top level on.
func (r *reader) stream(from int64, path string, list bool, read func(b *builder, el node)) error {
	d := r.in.decode(from)
	if list {
		if _, err := d.token(); err != nil {
			return err
		}
	}
	for i := 0; ; i++ {
		d.lim.left = d.lim.max
		if !d.More() {
			return r.b.err
		}
		at := path
		if list {
			at = index(path, i)
		}
		el, err := d.value(at)
		if err != nil {
			return err
		}
		r.b.path = at
		read(r.b, el)
		if r.b.err != nil {
			return r.b.err
		}
	}
}

// order is in which order a body's lists are read, whatever their order in the file; 0 = not at all.
var order = map[Format]map[string]int{
	Items:     {"items": 1, "context": 1, "data": 1, "history": 1, "messages": 1},
	Transport: {"messages": 1, "context": 1, "items": 1, "data": 1, "history": 1, "conversation": 1},
	OpenAI:    {"messages": 1, "context": 1, "history": 1, "conversation": 1, "choices": 2, "data": 1, "input": 1, "items": 1},
	Responses: {"input": 1, "items": 1, "context": 1, "data": 1, "history": 1, "messages": 1, "output": 2},
	Realtime:  {"items": 1, "context": 1, "data": 1, "events": 1, "input": 1, "output": 2},
	Anthropic: {"messages": 1, "chat_messages": 1, "context": 1, "data": 1, "history": 1},
	Gemini:    {"contents": 1, "turns": 1, "context": 1, "history": 1, "candidates": 2},
	LiveKit:   {"items": 1, "context": 1, "history": 1},
	VideoSDK:  {"items": 1, "context": 1, "history": 1},
}

// lists reads the lists of a body that belong to its format and names the others.
func (r *reader) lists(c conversation, read func(b *builder, el node)) error {
	ranks := order[r.report.Format]
	var chosen []container
	for _, l := range c.lists {
		if ranks[l.name] == 0 && len(c.lists) > 1 && l.name != "" {
			r.b.notes.add(Note{Place: Place{Offset: l.off, Field: l.path}, Kind: NoteNotRead, Detail: "not part of the conversation in this format"})
			continue
		}
		chosen = append(chosen, l)
	}
	slices.SortStableFunc(chosen, func(a, b container) int { return ranks[a.name] - ranks[b.name] })
	for _, l := range chosen {
		if !l.one {
			if err := r.stream(l.off, l.path, true, read); err != nil {
				return err
			}
			continue
		}
		v, err := r.in.at(l.off, l.path)
		if err != nil {
			return err
		}
		r.b.path = l.path
		r.b.message(chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(r.b.str(v, ""))}, v)
	}
	return r.b.err
}

// beside reads what stands beside the elements and belongs to the conversation: instructions.
func (r *reader) beside(c conversation) {
	r.b.path = ""
	for _, name := range []string{"system", "instructions", "systemInstruction", "system_instruction"} {
		v := c.beside[name]
		if !v.given() {
			continue
		}
		r.b.path = join(c.path, name)
		if content := r.b.instructions(v); len(content) > 0 {
			r.b.plainMessage(chatctx.Message{Role: chatctx.RoleSystem, Content: content}, v)
		}
	}
	if v := c.beside["previous_response_id"]; v.given() && r.report.Format == Responses {
		r.b.path = c.path
		r.b.lose(v, "previous_response_id", NoteEarlier, "what was said before is only referred to")
	}
	if v := c.beside["tools"]; !v.empty() {
		r.b.path = c.path
		r.b.lose(v, "tools", NoteDroppedField, "tools are no part of the conversation")
	}
}

// instructions reads a system prompt in any of its forms: a text, a list of texts or of parts, {text}, {parts}, {role, parts}.
func (b *builder) instructions(v node) chatctx.Content {
	var content chatctx.Content
	switch v.kind() {
	case stringKind:
		if s := b.str(v, ""); s != "" {
			content = chatctx.TextContent(s)
		}
	case arrayKind:
		v.each(func(i int, part node) bool {
			field := index("", i)
			if part.kind() == stringKind {
				content = append(content, chatctx.Text{Text: b.str(part, field)})
				return b.err == nil
			}
			o := b.object(part, field)
			if !o.has("text") {
				b.lose(part, field, NoteDroppedPart, "a part of instructions without text")
				return b.err == nil
			}
			b.rest(o, field, "type", "text", "cache_control")
			content = append(content, chatctx.Text{Text: b.str(o.get("text"), join(field, "text"))})
			return b.err == nil
		})
	case objectKind:
		o := b.object(v, "")
		if o.has("parts") {
			b.path = join(b.path, "parts")
			return b.instructions(o.get("parts"))
		}
		if s := b.str(o.get("text"), "text"); s != "" {
			content = chatctx.TextContent(s)
		}
	default:
		b.fail(v, "", "instructions must be a text or a list of parts, got %s", kindName(v.kind()))
	}
	return content
}
