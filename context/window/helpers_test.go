package window

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	chatctx "sightline/context"
)

var from = chatctx.Origin{Author: "tester", Epoch: 1, At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

func openLog(t testing.TB, s chatctx.Store) *chatctx.Log {
	t.Helper()
	l, err := chatctx.OpenLog(t.Context(), chatctx.LogConfig{Store: s, Session: "s"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func appendItem(t testing.TB, l *chatctx.Log, item chatctx.Item) chatctx.Ack {
	t.Helper()
	ack, err := l.Append(t.Context(), from, chatctx.Op{ID: "add-" + item.ItemID(), Kind: chatctx.OpAppend, Item: item})
	if err != nil {
		t.Fatalf("append of %s: %v", item.ItemID(), err)
	}
	return ack
}

func say(id string, role chatctx.Role, text string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: role, Content: chatctx.TextContent(text)}
}

// turns appends n turns of a user's and an assistant's message, with ids u<i> and a<i>.
func turns(t testing.TB, l *chatctx.Log, first, n int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		appendItem(t, l, say(fmt.Sprint("u", i), chatctx.RoleUser, fmt.Sprintf("question %d: where is order %d?", i, 400+i)))
		appendItem(t, l, say(fmt.Sprint("a", i), chatctx.RoleAssistant, fmt.Sprintf("answer %d: it is on its way", i)))
	}
}

// fake is a Summarizer that answers what the test says. It is called by one goroutine at a time.
type fake struct {
	reply    string
	fail     int // how many calls fail first
	requests []Request
	during   func(r Request) // what goes on meanwhile
	answer   func(r Request) string
}

func (f *fake) Summarize(ctx context.Context, r Request) (string, error) {
	f.requests = append(f.requests, r)
	if f.during != nil {
		f.during(r)
	}
	if len(f.requests) <= f.fail {
		return "", errors.New("the model is overloaded")
	}
	if f.answer != nil {
		return f.answer(r), nil
	}
	return f.reply, ctx.Err()
}

// start runs a Manager; stop ends it and waits.
func start(t testing.TB, m *Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	}
}
