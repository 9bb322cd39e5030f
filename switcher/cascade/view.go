package cascade

import (
	"slices"
	"strings"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/switcher"
)

// The session writes what is said and done into the log, at its own pace; a request is made of the log and of what the leg
// itself knows to be its end: the words just understood, the calls just made and their results. What is in both stands once, at
// the place where the leg has it. So a request ends with the caller's turn (or a tool's result) however late the log is.

// ask is what is to be answered: the end of the conversation as this leg knows it.
type ask struct {
	items   []chatctx.Item
	spoken  map[string]map[string]bool // id of an utterance → the items of the log when it began
	respond bool
	now     bool   // also while the caller speaks
	apology string // say this instead of asking a model; only when there is nothing else to answer
	look    <-chan []switcher.Sight
	calls   *turnCalls
}

// with is an ask that goes on with another.
func (a ask) with(b ask) ask {
	a.items = append(slices.Clip(a.items), b.items...)
	spoken := map[string]map[string]bool{}
	for _, from := range []map[string]map[string]bool{a.spoken, b.spoken} {
		for id, seen := range from {
			spoken[id] = seen
		}
	}
	a.spoken, a.respond, a.now = spoken, a.respond || b.respond, a.now || b.now
	if b.apology != "" {
		a.apology = b.apology
	}
	if b.look != nil {
		a.look = b.look
	}
	if a.calls == nil {
		a.calls = b.calls
	}
	return a
}

// said is an answer that the log may not hold yet.
type said struct{ id, text string }

// is tells whether an item of the log is ours of that id: a recorder may put something before or behind it to make it unique.
func is(logID, id string) bool {
	return logID == id || strings.HasSuffix(logID, "-"+id) || strings.HasPrefix(logID, id+"-")
}

func ids(items chatctx.Items) map[string]bool {
	m := make(map[string]bool, len(items))
	for _, item := range items {
		m[item.ItemID()] = true
	}
	return m
}

// missing are the answers that the log does not hold.
func missing(log chatctx.Items, all []said) []said {
	return slices.DeleteFunc(slices.Clone(all), func(s said) bool {
		return slices.ContainsFunc(log, func(item chatctx.Item) bool { return is(item.ItemID(), s.id) })
	})
}

// view is the conversation for a request of a turn.
func (r *run) view(log chatctx.Items, t *turn) chatctx.Items {
	known := map[string]bool{}
	for _, item := range t.ask.items {
		switch it := item.(type) {
		case *chatctx.FunctionCall:
			known["call "+it.CallID] = true
		case *chatctx.FunctionCallOutput:
			known["output "+it.CallID] = true
		}
	}
	taken := map[string]bool{} // utterances that were found in the log by their words
	items := make(chatctx.Items, 0, len(log)+len(t.ask.items)+2)
	for _, item := range log {
		if !t.has(item, known, taken) && !instructs(item) {
			items = append(items, item)
		}
	}
	for _, s := range missing(log, t.said) {
		items = append(items, &chatctx.Message{ID: s.id, Role: chatctx.RoleAssistant, Content: chatctx.TextContent(s.text)})
	}
	return r.bounded(append(items, t.ask.items...))
}

// has tells whether the turn itself knows an item of the log.
func (t *turn) has(item chatctx.Item, known, taken map[string]bool) bool {
	switch it := item.(type) {
	case *chatctx.FunctionCall:
		return known["call "+it.CallID]
	case *chatctx.FunctionCallOutput:
		return known["output "+it.CallID]
	case *chatctx.Message:
		if len(it.Content) == 0 || it.Role == chatctx.RoleAssistant && t.owns(it.ID) { // a place that waits for its words; this turn
			return true
		}
		return slices.ContainsFunc(t.ask.items, func(own chatctx.Item) bool { return t.same(it, own, taken) })
	}
	return slices.ContainsFunc(t.ask.items, func(own chatctx.Item) bool { return own.ItemID() == item.ItemID() })
}

// same tells whether a message of the log is one of the turn's: by its id, or by the words of an utterance, once.
func (t *turn) same(logged *chatctx.Message, own chatctx.Item, taken map[string]bool) bool {
	m, ok := own.(*chatctx.Message)
	if !ok || m.Role != logged.Role {
		return false
	}
	if is(logged.ID, m.ID) {
		return true
	}
	seen, spoken := t.ask.spoken[m.ID]
	if !spoken || seen[logged.ID] || taken[m.ID] || strings.TrimSpace(logged.Content.Text()) != m.Content.Text() {
		return false
	}
	taken[m.ID] = true
	return true
}

// instructs: Request.Instructions has these.
func instructs(item chatctx.Item) bool {
	switch it := item.(type) {
	case *chatctx.Message:
		return it.Role == chatctx.RoleSystem || it.Role == chatctx.RoleDeveloper
	case *chatctx.ConfigUpdate:
		return true
	}
	return false
}

// bounded leaves the oldest out. The session's own window folds the log; this keeps a request within the model's bounds before it.
func (r *run) bounded(items chatctx.Items) chatctx.Items {
	var most, tokens *int
	if r.cfg.MaxItems > 0 {
		most = &r.cfg.MaxItems
	}
	if r.cfg.MaxTokens > 0 {
		tokens = &r.cfg.MaxTokens
	}
	if most == nil && tokens == nil {
		return items
	}
	kept, err := items.Truncate(most, tokens)
	if err != nil { // bounds below 1, which Check refuses
		return items
	}
	if n := len(items) - len(kept); n > 0 {
		r.notice("view_cut", "%d of %d items are over the model's bound", n, len(items))
	}
	return kept
}

// instructions are those in force: the seed's, unless the conversation has changed them since.
func (r *run) instructions(log chatctx.Items) string {
	active := instructionsOf(log)
	base := r.start.Seed.Instructions
	switch {
	case r.start.Seed.Mode != switcher.SeedItems && active != "":
		return active // a seed of another mode holds a record of the call, which Items gives better
	case base == "" || active == r.begun:
		return first(base, active)
	case r.begun != "" && strings.Contains(base, r.begun):
		return strings.Replace(base, r.begun, active, 1)
	}
	return active
}

func first(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

func instructionsOf(items chatctx.Items) string {
	config, _ := project.ActiveConfig(items, project.Options{})
	return config.Instructions
}

// request is what the model is asked in a turn.
func (r *run) request(t *turn, sights []switcher.Sight, tools bool) Request {
	log := r.start.Items()
	for _, c := range r.tools.news() {
		t.ask.items = append(late(log, t.ask.items, c), c.item())
	}
	items := r.view(log, t)
	req := Request{
		At: time.Now(), Session: r.start.Session, Instructions: r.instructions(log), Items: items,
		Sights: sights, Running: running(items), Image: r.start.Image,
	}
	if tools {
		req.Tools = r.start.Tools
	}
	return req
}

// late adds the call of a result that the turn did not ask for: it goes to the end with it, so that the request ends with what is
// to be told.
func late(log chatctx.Items, own []chatctx.Item, c *toolCall) []chatctx.Item {
	is := func(item chatctx.Item) bool { return isCall(item, c.id) }
	if slices.ContainsFunc(own, is) {
		return own
	}
	if i := slices.IndexFunc(log, is); i >= 0 {
		return append(own, log[i])
	}
	if c.made != nil {
		return append(own, c.made)
	}
	return own
}

// running are the calls without a result: the session gives one to every call that does not run any more, of legs before this one
// too.
func running(items chatctx.Items) map[string]bool {
	m := map[string]bool{}
	for _, item := range items {
		switch it := item.(type) {
		case *chatctx.FunctionCall:
			m[it.CallID] = true
		case *chatctx.FunctionCallOutput:
			m[it.CallID] = false
		}
	}
	for id, runs := range m {
		if !runs {
			delete(m, id)
		}
	}
	return m
}
