package importer

import (
	"slices"
	"strings"

	chatctx "sightline/context"
)

// rtItem is an item of a realtime conversation as the events so far tell it.
type rtItem struct {
	id          string
	off         int64 // of its last full version
	path        string
	texts       map[int]string // by content_index: what later events say of its words
	interrupted bool
	gone        bool
	client      bool // only a client's wish so far
}

// rtLog is what a log of realtime events comes to. Audio is not remembered.
type rtLog struct {
	b        *builder
	items    []*rtItem
	byID     map[string]*rtItem
	server   bool // events of the server are there, so that a client's wishes are told twice
	told     []told
	previous string // instructions in force
}

// told is a change of instructions at its place among the items.
type told struct {
	after int
	text  string
	at    node
}

// realtime reads items, or events and what they come to.
func (r *reader) realtime(s *survey, c *conversation) error {
	l := &rtLog{b: r.b, byID: map[string]*rtItem{}}
	var err error
	if c == nil {
		err = r.stream(s.from, "", false, l.event)
	} else {
		r.beside(*c)
		err = r.lists(*c, l.event)
	}
	if err != nil {
		return err
	}
	return l.settle(r.in)
}

// event takes an event, or an item that is not wrapped in one.
func (l *rtLog) event(b *builder, el node) {
	o := b.object(el, "")
	if b.err != nil {
		return
	}
	if inner, field, ok := unwrapEvent(o); ok && field != "" {
		o, b.path = inner, join(b.path, field)
	}
	t := b.str(o.get("type"), "type")
	if !isEvent(t) {
		l.put(b, el, o.str("id"), "", false)
		return
	}
	id := o.str("item_id")
	switch t {
	case "conversation.item.create":
		l.put(b, o.get("item"), o.get("item").object().str("id"), o.str("previous_item_id"), true)
	case "conversation.item.created", "conversation.item.added", "conversation.item.done", "conversation.item.retrieved", "response.output_item.done":
		l.server = true
		l.put(b, o.get("item"), o.get("item").object().str("id"), o.str("previous_item_id"), false)
	case "conversation.item.deleted", "conversation.item.delete":
		if it := l.byID[id]; it != nil {
			it.gone = true
		}
	case "conversation.item.truncated", "conversation.item.truncate":
		if it := l.byID[id]; it != nil && !it.interrupted {
			it.interrupted = true
			b.lose(o.node, "audio_end_ms", NoteChanged, "an answer that was cut off: which of its words were heard is not told")
		}
	case "conversation.item.input_audio_transcription.completed", "response.audio_transcript.done", "response.output_audio_transcript.done":
		l.words(b, o, id, "transcript")
	case "response.text.done", "response.output_text.done":
		l.words(b, o, id, "text")
	case "response.done":
		l.server = true
		l.response(b, o)
	case "session.update", "session.updated":
		l.session(b, o)
	case "conversation.item.input_audio_transcription.failed":
		b.lose(o.node, "", NoteDroppedAudio, "what the caller said could not be transcribed")
	}
}

func (l *rtLog) put(b *builder, v node, id, previous string, client bool) {
	if v.kind() != objectKind {
		b.object(v, "item")
		return
	}
	it := l.byID[id]
	if it == nil || id == "" {
		it = &rtItem{id: id, client: client, texts: map[int]string{}}
		l.place(it, previous)
		if id != "" {
			l.byID[id] = it
		}
	}
	it.off, it.path, it.client = v.off, b.path, it.client && client
}

// place puts an item behind the one it is said to follow, else at the end.
func (l *rtLog) place(it *rtItem, previous string) {
	if p := l.byID[previous]; p != nil && previous != "" {
		if i := slices.Index(l.items, p); i >= 0 {
			l.items = slices.Insert(l.items, i+1, it)
			return
		}
	}
	if previous == "root" {
		l.items = slices.Insert(l.items, 0, it)
		return
	}
	l.items = append(l.items, it)
}

func (l *rtLog) words(b *builder, o object, id, field string) {
	it := l.byID[id]
	if it == nil {
		if id == "" {
			return
		}
		it = &rtItem{id: id, off: -1, texts: map[int]string{}}
		l.byID[id] = it
		l.items = append(l.items, it)
	}
	index := 0
	if v := o.get("content_index"); v.kind() == numberKind && len(v.raw) == 1 {
		index = int(v.raw[0] - '0')
	}
	it.texts[index] = b.str(o.get(field), field)
}

// response takes the final items of an answer.
func (l *rtLog) response(b *builder, o object) {
	resp := b.object(o.get("response"), "response")
	status := resp.str("status")
	path := b.path
	resp.get("output").each(func(i int, v node) bool {
		b.path = join(path, index("response.output", i))
		id := v.object().str("id")
		l.put(b, v, id, "", false)
		if it := l.byID[id]; it != nil && (status == "cancelled" || status == "incomplete") {
			it.interrupted = true
		}
		return b.err == nil
	})
}

func (l *rtLog) session(b *builder, o object) {
	v := b.object(o.get("session"), "session").get("instructions")
	if !v.given() {
		return
	}
	s := b.str(v, "session.instructions")
	if s == l.previous || s == "" {
		return
	}
	l.previous = s
	l.told = append(l.told, told{len(l.items), s, v})
}

// settle gives the items out.
func (l *rtLog) settle(in *input) error {
	b := l.b
	next := 0
	tell := func(upTo int) {
		for ; next < len(l.told) && l.told[next].after <= upTo; next++ {
			b.path = "session.instructions"
			if next == 0 && upTo == 0 {
				b.message(chatctx.Message{Role: chatctx.RoleSystem, Content: chatctx.TextContent(l.told[next].text)}, l.told[next].at)
				continue
			}
			b.give(&chatctx.ConfigUpdate{ID: b.id("", l.told[next].at), Instructions: l.told[next].text}, l.told[next].at)
		}
	}
	for i, it := range l.items {
		tell(i)
		if it.gone || it.client && l.server && it.id == "" {
			continue // what a client asked for came back from the server with an id
		}
		b.path = it.path
		if it.off < 0 {
			b.lose(node{}, "", NoteEarlier, "words of an item that the events do not show")
			continue
		}
		el, err := in.at(it.off, it.path)
		if err != nil {
			return err
		}
		if l.give(it, el); b.err != nil {
			return b.err
		}
	}
	tell(len(l.items))
	return b.err
}

func (l *rtLog) give(it *rtItem, el node) {
	b := l.b
	o := b.object(el, "")
	if t := o.str("type"); t != "message" && t != "" {
		b.responsesItem(el, o)
		return
	}
	if !o.get("role").given() {
		b.fail(el, "role", "a message needs a role: system, user or assistant")
		return
	}
	b.rest(o, "", "type", "id", "role", "content", "status", "object", "phase")
	role := b.roleField(o)
	if role == "" {
		b.output(chatctx.FunctionCallOutput{ID: it.id, Output: b.joined(o.get("content"), "content")}, el)
		return
	}
	content := l.content(it, o)
	b.message(chatctx.Message{ID: it.id, Role: role, Content: content, Interrupted: it.interrupted || o.str("status") == "incomplete" || o.str("status") == "cancelled"}, el)
}

// content puts what later events told in the place of parts that have no words themselves.
func (l *rtLog) content(it *rtItem, o object) chatctx.Content {
	b := l.b
	var content chatctx.Content
	parts := 0
	o.get("content").each(func(i int, v node) bool {
		parts++
		p := v.object()
		words, told := it.texts[i]
		if t := p.str("type"); strings.Contains(t, "audio") && told && p.str("transcript") == "" {
			if !p.get("audio").empty() || t != "" {
				b.lose(v, index("content", i), NoteDroppedAudio, "audio is not kept: its transcript is, when there is one")
			}
			content = append(content, chatctx.Text{Text: words})
			return b.err == nil
		}
		one, _ := b.responsesContent(node{append(append([]byte{'['}, v.raw...), ']'), v.off - 1}, "content")
		content = append(content, one...)
		return b.err == nil
	})
	if v := o.get("content"); v.kind() == stringKind {
		content, _ = b.openAIContent(v, "content")
	}
	if parts == 0 && len(content) == 0 {
		for i := 0; i < 10; i++ {
			if words, ok := it.texts[i]; ok {
				content = append(content, chatctx.Text{Text: words})
			}
		}
	}
	return content
}
