package window

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	chatctx "sightline/context"
	"sightline/context/tokens"
)

// TestPropertyNothingIsLost drives a conversation, its Manager, failures of the model and of the disk, edits while the model
// thinks, and restarts in every order. After each step: the structure and the newest turns are there word for word, no call is
// apart from its output, a waiting call is there, and every word that was said and not removed by an agent is either in an item
// or in a summary.
func TestPropertyNothingIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{rt: rt, t: t, words: map[string]string{}, store: &stuttering{Store: chatctx.NewMemStore()}}
		w.store.after.Store(1 << 40)
		w.window = ContextWindow{
			MaxContextItems: new(rapid.IntRange(1, 12).Draw(rt, "max_items")), SummaryLLM: w,
			KeepRecentTurns: new(rapid.IntRange(0, 3).Draw(rt, "keep")),
		}
		if rapid.Bool().Draw(rt, "by tokens") {
			w.window.MaxTokens = new(rapid.IntRange(1, 200).Draw(rt, "max_tokens"))
		}
		w.promptBytes = rapid.SampledFrom([]int{0, 200, 1000}).Draw(rt, "prompt bytes")
		w.restart()
		rt.Repeat(map[string]func(*rapid.T){
			"talk":    func(rt *rapid.T) { w.talk(rt) },
			"edit":    func(rt *rapid.T) { w.edit(rt) },
			"work":    func(rt *rapid.T) { w.work(rt) },
			"restart": func(*rapid.T) { w.restart() },
			"":        func(*rapid.T) { w.check() },
		})
	})
}

type world struct {
	rt          *rapid.T
	t           *testing.T
	store       *stuttering
	log         *chatctx.Log
	window      ContextWindow
	promptBytes int
	m           *Manager
	cursor      *chatctx.Cursor

	n     int
	words map[string]string // item id → the word that nobody else says
	fixed []string          // ids of instructions, handoffs and config updates
	drawn *rapid.T          // while the model thinks
}

func (w *world) restart() {
	w.log = openLog(w.t, w.store)
	m, err := New(Config{Log: w.log, Window: w.window, PromptBytes: w.promptBytes, Counter: tokens.Heuristic()})
	if err != nil {
		w.rt.Fatal(err)
	}
	w.m = m
	w.cursor, _ = w.log.Follow(0)
}

// append adds an item as another author does; a broken disk is waited for.
func (w *world) append(rt *rapid.T, item chatctx.Item, word string) {
	w.n++
	op := chatctx.Op{ID: fmt.Sprint("op", w.n), Kind: chatctx.OpAppend, Item: item}
	if items := w.log.Snapshot().Items; len(items) > 0 && rapid.IntRange(0, 4).Draw(rt, "insert") == 0 {
		op.After = rapid.SampledFrom(items).Draw(rt, "after").ItemID()
	}
	if _, err := w.log.Append(w.t.Context(), from, op); err == nil {
		if word != "" {
			w.words[item.ItemID()] = word
		}
		if !foldable(item) {
			w.fixed = append(w.fixed, item.ItemID())
		}
	}
}

func (w *world) talk(rt *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(rt, "items") {
		w.n++
		id, word := fmt.Sprint("i", w.n), fmt.Sprintf("w%dw", w.n)
		call := fmt.Sprint("c", rapid.IntRange(0, w.n/3).Draw(rt, "call"))
		switch rapid.IntRange(0, 9).Draw(rt, "kind") {
		case 0, 1, 2:
			w.append(rt, say(id, chatctx.RoleUser, word), word)
		case 3, 4:
			w.append(rt, say(id, chatctx.RoleAssistant, word), word)
		case 5, 6:
			w.append(rt, &chatctx.FunctionCall{ID: id, CallID: call, Name: "f", Arguments: word}, word)
		case 7:
			w.append(rt, &chatctx.FunctionCallOutput{ID: id, CallID: call, Name: "f", Output: word}, word)
		case 8:
			w.append(rt, rapid.SampledFrom([]chatctx.Item{
				say(id, chatctx.RoleSystem, word), &chatctx.AgentHandoff{ID: id, ToAgent: "b"}, &chatctx.ConfigUpdate{ID: id, Instructions: word},
			}).Draw(rt, "structure"), "")
		case 9:
			w.append(rt, &chatctx.PipelineSwitch{ID: id, State: "committed"}, "")
		}
	}
}

// edit changes or removes a random item, as agents may.
func (w *world) edit(rt *rapid.T) {
	items := w.log.Snapshot().Items
	if len(items) == 0 {
		return
	}
	item := rapid.SampledFrom(items).Draw(rt, "item")
	w.n++
	op := chatctx.Op{ID: fmt.Sprint("op", w.n), Kind: chatctx.OpRemove, ItemID: item.ItemID()}
	word := fmt.Sprintf("w%dw", w.n)
	if _, message := item.(*chatctx.Message); message && rapid.Bool().Draw(rt, "change") {
		op.Kind, op.Changes.Content = chatctx.OpUpdate, new(chatctx.TextContent(word))
	}
	if item.Kind() == chatctx.KindSummary {
		return // what a summary said would be gone, and rightly so
	}
	if _, err := w.log.Append(w.t.Context(), from, op); err != nil {
		return
	}
	delete(w.words, item.ItemID())
	if op.Kind == chatctx.OpUpdate && foldable(item) {
		w.words[item.ItemID()] = word
	}
	if op.Kind == chatctx.OpRemove {
		w.fixed = slices.DeleteFunc(w.fixed, func(id string) bool { return id == item.ItemID() })
	}
}

var saidWord = regexp.MustCompile(`w\d+w`)

// Summarize answers the words of the prompt, so that what is lost can be seen; meanwhile others may talk and edit.
func (w *world) Summarize(_ context.Context, r Request) (string, error) {
	if w.drawn != nil {
		switch rapid.IntRange(0, 5).Draw(w.drawn, "meanwhile") {
		case 0:
			w.talk(w.drawn)
		case 1:
			w.edit(w.drawn)
		case 2:
			return "", errors.New("overloaded")
		case 3:
			return " ", nil
		}
	}
	if got := saidWord.FindAllString(r.Conversation, -1); len(got) > 0 {
		return strings.Join(got, " "), nil
	}
	return "nothing was said", nil
}

// work lets the Manager work until it has nothing to do or fails; the disk may break at any entry.
func (w *world) work(rt *rapid.T) {
	w.drawn = rt
	broken := rapid.IntRange(0, 2).Draw(rt, "disk") == 0
	if broken {
		w.store.fails.Store(1 << 40)
		w.store.after.Store(rapid.Int64Range(0, 2).Draw(rt, "entries"))
		w.store.lost.Store(rapid.Bool().Draw(rt, "answer lost"))
	}
	err := w.m.catchUp(w.t.Context(), w.cursor)
	if err == nil {
		err = w.m.work(w.t.Context(), w.cursor)
	}
	w.store.fails.Store(0)
	w.store.lost.Store(false)
	w.store.after.Store(1 << 40)
	w.drawn = nil
	if isDamaged(err) {
		rt.Fatal(err)
	}
}

func (w *world) check() {
	chat := w.log.Chat()
	items := chat.Items()
	for _, id := range w.fixed {
		if _, there := chat.Item(id); !there {
			w.rt.Fatalf("the structure %s is gone", id)
		}
	}
	text := chatctx.Transcript(items)
	for id, word := range w.words {
		if !regexp.MustCompile(`\b` + word + `\b`).MatchString(text) {
			w.rt.Fatalf("%s of %s is lost:\n%s", word, id, text)
		}
	}
	w.checkPairs(items)
}

// checkPairs: what was removed by a Manager while its other half was there has taken the other half along.
func (w *world) checkPairs(items chatctx.Items) {
	here := map[string]bool{}
	for _, item := range items {
		here[item.ItemID()] = true
	}
	halves := map[string][]string{} // call_id → ids of the items
	callOf := map[string]string{}   // item id → call_id
	for e := range w.entries() {
		if id, _ := pairID(e.Item); id != "" && e.Op == chatctx.OpAppend {
			halves[id] = append(halves[id], e.Item.ItemID())
			callOf[e.Item.ItemID()] = id
		}
		if e.Seq > w.log.Head() { // its answer was lost: the log does not know it yet
			break
		}
		for _, id := range e.Removed {
			if e.Author != "system" {
				w.rt.Fatalf("%s removed several", e.Author)
			}
			for _, other := range halves[callOf[id]] {
				if here[other] {
					w.rt.Fatalf("%s went without %s of the same call", id, other)
				}
			}
		}
	}
}

// entries are all that is in the store.
func (w *world) entries() iter.Seq[chatctx.Entry] {
	return func(yield func(chatctx.Entry) bool) {
		for after := uint64(0); ; {
			entries, err := w.store.Read(w.t.Context(), "s", after, 1<<20)
			if err != nil {
				w.rt.Fatal(err)
			}
			if len(entries) == 0 {
				return
			}
			for _, e := range entries {
				after = e.Seq
				if !yield(e) {
					return
				}
			}
		}
	}
}

func itemOf(items chatctx.Items, id string) (chatctx.Item, bool) {
	i := slices.IndexFunc(items, func(item chatctx.Item) bool { return item.ItemID() == id })
	if i < 0 {
		return nil, false
	}
	return items[i], true
}

// TestPropertyPlan checks the pure plan on random conversations.
func TestPropertyPlan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{rt: rt, t: t, words: map[string]string{}, store: &stuttering{Store: chatctx.NewMemStore()}}
		w.store.after.Store(1 << 40)
		w.restart()
		for range rapid.IntRange(0, 10).Draw(rt, "rounds") {
			w.talk(rt)
		}
		if err := w.m.catchUp(t.Context(), w.cursor); err != nil {
			rt.Fatal(err)
		}
		keep := rapid.IntRange(0, 4).Draw(rt, "keep")
		items := w.m.view.Items()
		p := ContextWindow{KeepRecentTurns: &keep}.Plan(w.m.view, 0)
		if len(p.Fold)+len(p.Keep) != len(items) {
			rt.Fatalf("%d folded and %d kept of %d", len(p.Fold), len(p.Keep), len(items))
		}
		calls := map[string]int{}
		for _, item := range p.Fold {
			if !foldable(item) {
				rt.Fatalf("%s is folded", item.Kind())
			}
			if id, call := pairID(item); call {
				calls[id]++
			} else if id != "" {
				calls[id]--
			}
		}
		for id, n := range calls {
			if n > 0 {
				rt.Fatalf("call %s is folded without its output", id)
			}
		}
		begin, users := 0, 0
		for i := len(items) - 1; i >= 0 && users < keep; i-- {
			if m, ok := items[i].(*chatctx.Message); ok && m.Role == chatctx.RoleUser {
				begin, users = i, users+1
			}
		}
		if keep == 0 {
			begin = len(items)
		} else if users < keep {
			begin = 0
		}
		for i, item := range items {
			_, folded := itemOf(p.Fold, item.ItemID())
			if folded && i >= begin {
				rt.Fatalf("item %d of the newest %d turns is folded", i, keep)
			}
			at, _, _ := w.log.Chat().Placed(item.ItemID())
			if m, ok := item.(*chatctx.Message); ok && i < begin && !folded && foldable(m) && at < oldestKept(w.log.Chat(), items[begin:]) {
				rt.Fatalf("the old message %d stays", i)
			}
		}
	})
}

// oldestKept is the seq of the oldest append among items: what was put in among older things since is left alone.
func oldestKept(chat *chatctx.ChatContext, items chatctx.Items) uint64 {
	oldest := uint64(1 << 60)
	for _, item := range items {
		if seq, _, ok := chat.Placed(item.ItemID()); ok {
			oldest = min(oldest, seq)
		}
	}
	return oldest
}
