package recorder

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	chatctx "sightline/context"
)

// TestPropertyOrderOfSpeech makes a random conversation and reports it with random delays: starts within Reorder, everything
// else up to GiveUp late, each source in its own order. Whatever the delays, the same conversation is recorded, in the order of
// speech; a restart in the middle and all reports a second time change nothing.
func TestPropertyOrderOfSpeech(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		times := Times{Reorder: 200 * time.Millisecond, Wait: 2 * time.Second, GiveUp: 20 * time.Second}
		want, reports := conversation(rt, times)
		reports = shuffled(reports)
		store := chatctx.NewMemStore()
		log, core := openLog(t, store), NewCore(times)
		restartAt := rapid.IntRange(0, 3*len(reports)).Draw(rt, "restart")
		for i, r := range reports {
			if i == restartAt { // what was said and not yet written is flushed, as by Run's end
				apply(t, log, core.Flush(at(r.reported)), at(r.reported))
				core = NewCore(times)
				resume(t, core, log)
			}
			play(t, core, log, r)
		}
		apply(t, log, core.Close(at(1000)), at(1000))
		got := heard(log.Snapshot().Items)
		if restartAt >= len(reports) && got != want {
			rt.Fatalf("recorded\n%swant\n%s", got, want)
		}
		checkOnce(rt, log.Snapshot().Items)
		head, before := log.Head(), show(log.Snapshot().Items)
		for i := range reports {
			reports[i].reported += 2000
			play(t, core, log, reports[i])
		}
		apply(t, log, core.Close(at(5000)), at(5000))
		// What vanished before a restart is not in the log, so that it may come and go again; else nothing happens.
		if after := show(log.Snapshot().Items); after != before || restartAt >= len(reports) && log.Head() != head {
			rt.Fatalf("all once more wrote %d entries:\n%swas\n%s", log.Head()-head, after, before)
		}
	})
}

// heard is show without what was generated and not heard: of an answer that was written before its text had come, that is only
// what had come then, since an update cannot change it.
func heard(items chatctx.Items) string {
	out := make(chatctx.Items, len(items))
	for i, item := range items {
		out[i] = item
		if m, ok := item.(*chatctx.Message); ok {
			c := *m
			c.TextGenerated = ""
			out[i] = &c
		}
	}
	return show(out)
}

// conversation gives what must be recorded and the reports of it, each stream in order.
func conversation(rt *rapid.T, times Times) (want string, reports []said) {
	delay := func(most time.Duration, name string) float64 {
		return float64(rapid.IntRange(0, int(most/time.Millisecond)).Draw(rt, name)) / 1000
	}
	var items chatctx.Items
	now := 1.0
	add := func(events ...said) {
		for i := range events { // a stream keeps its order
			if i > 0 && events[i].reported < events[i-1].reported {
				events[i].reported = events[i-1].reported
			}
		}
		reports = append(reports, events...)
	}
	for i := range rapid.IntRange(1, 8).Draw(rt, "things") {
		now += 0.1 + delay(3*time.Second, "pause")
		start, id := now, fmt.Sprint("i", i)
		announced := start + delay(times.Reorder, "announced")
		lateness := times.GiveUp / 2
		switch rapid.IntRange(0, 3).Draw(rt, "kind") {
		case 0: // the caller speaks
			stop := start + delay(1900*time.Millisecond, "length")
			add(said{announced, starts(Caller, id, start)}, said{stop + delay(time.Second, "stop"), Event{Kind: SpeechStopped, Who: Caller, Item: id, At: at(stop)}})
			final := stop + delay(lateness, "final")
			text := rapid.SampledFrom([]string{"yes", "no", "where is it?"}).Draw(rt, "text")
			if rapid.Bool().Draw(rt, "partial") {
				p := partial(id, "part of "+text)
				p.At = at(start)
				add(said{start + delay(lateness, "partial late"), p})
			}
			e := user(id, text)
			e.At = at(start)
			add(said{final, e})
			items = append(items, &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.TextContent(text)})
		case 1: // the assistant answers
			add(said{announced, starts(Assistant, id, start)})
			audio := time.Duration(rapid.IntRange(0, 3000).Draw(rt, "audio")) * time.Millisecond
			first := start + delay(lateness, "delta")
			second := first + delay(time.Second, "delta 2")
			one, two, end := delta(id, "Let me ", audio/2), delta(id, "see.", audio-audio/2), done(id)
			for _, e := range []*Event{&one, &two, &end} {
				e.At = at(start)
			}
			add(said{first, one}, said{second, two}, said{second + delay(time.Second, "done"), end})
			m := &chatctx.Message{Role: chatctx.RoleAssistant, Content: chatctx.TextContent("Let me see.")}
			if cut := rapid.IntRange(0, 3).Draw(rt, "cut"); audio > 0 && cut == 0 {
				e := interrupted(id, audio/2, "Let me")
				e.At = at(start)
				add(said{start + delay(lateness, "interrupted"), e})
				m.Content, m.Interrupted, m.TextGenerated = chatctx.TextContent("Let me"), true, "Let me see."
			} else if audio > 0 && cut == 1 {
				e := interrupted(id, 0, "")
				e.At = at(start)
				add(said{start + delay(lateness, "interrupted"), e})
				m = nil
			} else if audio > 0 {
				add(said{start + delay(lateness, "played"), Event{Kind: Played, Who: Assistant, Item: id, At: at(start)}})
			}
			if m != nil {
				items = append(items, m)
			}
		default: // a tool is called
			e := calls(id, "f")
			e.At = at(start)
			add(said{announced, e})
			items = append(items, &chatctx.FunctionCall{Name: "f", Arguments: "{}"})
			now += 0.05
			o := output(id, "f", "done "+id)
			o.At = at(now)
			add(said{now + delay(times.Reorder, "answered"), o})
			items = append(items, &chatctx.FunctionCallOutput{Name: "f", Output: "done " + id})
		}
	}
	return heard(items), reports
}

// shuffled puts reports into the order of their coming.
func shuffled(reports []said) []said {
	slices.SortStableFunc(reports, func(a, b said) int { return cmp.Compare(a.reported, b.reported) })
	return reports
}

// checkOnce checks that no call is there twice, and no output without its call before it.
func checkOnce(rt *rapid.T, items chatctx.Items) {
	seen := map[string]bool{}
	for _, item := range items {
		switch it := item.(type) {
		case *chatctx.FunctionCall:
			if seen["call "+it.CallID] {
				rt.Fatalf("the call %s is there twice", it.CallID)
			}
			seen["call "+it.CallID] = true
		case *chatctx.FunctionCallOutput:
			if seen["output "+it.CallID] || !seen["call "+it.CallID] {
				rt.Fatalf("the output of %s is there twice or before its call", it.CallID)
			}
			seen["output "+it.CallID] = true
		}
	}
}

// TestPropertyNonsense reports anything in any order, with restarts: the log takes every operation that comes out of it.
func TestPropertyNonsense(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log, core := openLog(t, chatctx.NewMemStore()), NewCore(Times{})
		now := 0.0
		for range rapid.IntRange(1, 40).Draw(rt, "reports") {
			now += rapid.SampledFrom([]float64{0, 0.1, 1, 6, 40}).Draw(rt, "pause")
			word := rapid.SampledFrom([]string{"", " ", "one", "one two", "\xff", "#000000001", "yes"})
			e := Event{
				Kind: Kind(rapid.IntRange(0, int(Error)+1).Draw(rt, "kind")), Who: Speaker(rapid.IntRange(0, 3).Draw(rt, "who")),
				Item: rapid.SampledFrom([]string{"", "", "i1", "i2", "c-c1", "not valid", "#000000001"}).Draw(rt, "item"),
				Text: word.Draw(rt, "text"), HeardText: word.Draw(rt, "heard text"), Name: word.Draw(rt, "name"), Output: word.Draw(rt, "output"),
				CallID: rapid.SampledFrom([]string{"", "c1", "c2", "call-0-1", "\xff"}).Draw(rt, "call"),
				Epoch:  rapid.Uint64Range(0, 1).Draw(rt, "epoch"), Cancelled: rapid.Bool().Draw(rt, "cancelled"),
				Audio: time.Duration(rapid.IntRange(-1, 3).Draw(rt, "audio")) * time.Second, Heard: time.Duration(rapid.IntRange(-1, 3).Draw(rt, "heard")) * time.Second,
				At: at(now - rapid.SampledFrom([]float64{-100, 0, 0.2, 3, 50}).Draw(rt, "ago")),
			}
			play(t, core, log, said{now, e})
			switch rapid.IntRange(0, 15).Draw(rt, "then") {
			case 0:
				apply(t, log, core.Flush(at(now)), at(now))
			case 1: // a crash: what was not written is gone
				core = NewCore(Times{})
				resume(t, core, log)
			}
		}
		apply(t, log, core.Close(at(now)), at(now))
		checkOnce(rt, log.Snapshot().Items)
		if _, again := core.Deadline(); again {
			rt.Fatal("something is open after the Close")
		}
		for _, item := range log.Snapshot().Items {
			if m, ok := item.(*chatctx.Message); ok && blank(m.Content.Text()) {
				rt.Fatalf("the blank message %s is left", m.ID)
			}
		}
	})
}
