package realtime

import (
	"fmt"
	"testing"
	"time"

	chatctx "sightline/context"
	"sightline/switcher"
	"sightline/switcher/realtime/dialect"
	"sightline/switcher/realtime/dialecttest"
)

// table is a core with everything around it played by the test.
type table struct {
	t       *testing.T
	c       *core
	sent    []dialect.ServerEvent // since the last look
	leg     []switcher.Input
	session []switcher.Output
	ops     []chatctx.Op
	results map[string]string
	refuses error // of the log
	active  string
	ids     int
}

func newTable(t *testing.T) *table {
	b := &table{t: t, results: map[string]string{}}
	b.c = newCore(coreConfig{id: "sess", model: "local", opPrefix: "rt:", conversation: "conv", newID: func(kind string) string {
		b.ids++
		return fmt.Sprintf("%s_%d", kind, b.ids)
	}})
	b.c.now = time.Unix(1000, 0)
	b.c.begin()
	b.settle()
	b.sent = nil
	return b
}

// settle does what the core wants, and holds what it sends against the official types and the order of an answer.
func (b *table) settle() {
	b.t.Helper()
	for effects := b.c.take(); len(effects) > 0; effects = b.c.take() {
		for _, e := range effects {
			switch e := e.(type) {
			case eSend:
				b.check(e.ServerEvent)
				b.sent = append(b.sent, e.ServerEvent)
			case eLeg:
				b.leg = append(b.leg, e.Input)
			case eSession:
				b.session = append(b.session, e.Output)
			case eResult:
				b.results[e.callID] = e.output
			case eAppend:
				b.ops = append(b.ops, e.op)
				if e.then != nil {
					e.then(chatctx.Ack{}, b.refuses)
				}
			}
		}
	}
}

func (b *table) check(e dialect.ServerEvent) {
	b.t.Helper()
	data, err := dialect.Encode(e)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := dialecttest.Server(data); err != nil {
		b.t.Errorf("the official types do not know: %v\n%.500s", err, data)
	}
	switch e := e.(type) {
	case *dialect.ResponseCreated:
		if b.active != "" {
			b.t.Errorf("%s begins while %s is being made", e.Response.ID, b.active)
		}
		b.active = e.Response.ID
	case *dialect.ResponseDone:
		if b.active != e.Response.ID {
			b.t.Errorf("%s ends, %q is being made", e.Response.ID, b.active)
		}
		b.active = ""
	}
}

func (b *table) client(text string) {
	b.t.Helper()
	e, err := dialect.DecodeClient([]byte(text))
	if err != nil {
		b.c.malformed(err)
	} else {
		b.c.client(e)
	}
	b.settle()
}

func (b *table) says(outputs ...switcher.Output) {
	b.t.Helper()
	for _, o := range outputs {
		b.c.legSays(o)
		b.settle()
	}
}

// types are those of what was sent since the last look.
func (b *table) types() (list []string) {
	for _, e := range b.sent {
		list = append(list, e.EventType())
	}
	b.sent = nil
	return list
}

func find[T any, S any](list []S) (found []T) {
	for _, x := range list {
		if y, ok := any(x).(T); ok {
			found = append(found, y)
		}
	}
	return found
}

func text(item, words string) switcher.Output { return switcher.TextOut{Item: item, Delta: words} }

func voice(item, words string, ms int) switcher.Output {
	return switcher.SoundOut{Item: item, Rate: 16000, PCM: make([]int16, 16*ms), Text: words}
}

func done(item, status string) switcher.Output {
	return switcher.TurnDoneOut{Item: item, Status: status}
}

// turn plays a turn of the caller, up to its words.
func (b *table) turn(item, words string) {
	b.t.Helper()
	b.c.begins(0)
	b.says(switcher.CallerSpeechOut{Item: item, Started: true})
	b.c.ends(time.Second)
	b.settle()
	b.says(switcher.TranscriptOut{Item: item, Text: words, Final: true})
}
