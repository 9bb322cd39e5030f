package switcher

import (
	"fmt"
	"slices"
	"strings"
	"time"

	chatctx "sightline/context"
)

// check looks at the log and at what was heard; quiet means that nothing is under way.
func (s *swarm) check(quiet bool) {
	entries := s.entries()
	s.checkTools(entries, quiet)
	s.checkEpochs(entries)
	s.checkSwitches(entries, quiet)
	s.checkHeard()
	s.checkWishes()
	if quiet {
		s.checkUsers()
		s.checkAnswers()
	}
}

func (s *swarm) entries() (out []chatctx.Entry) {
	for {
		got, err := s.disk.Read(s.t.Context(), "s", uint64(len(out)), 1000)
		if err != nil {
			s.fault("reading: %v", err)
			return out
		}
		if len(got) == 0 {
			return out
		}
		for _, e := range got {
			if e.Seq != uint64(len(out))+1 { // G1
				s.fault("G1: entry %d after entry %d", e.Seq, len(out))
			}
			out = append(out, e)
		}
	}
}

// checkTools is G4: each call once, with one output, run at most once.
func (s *swarm) checkTools(entries []chatctx.Entry, quiet bool) {
	called, answered := map[string]int{}, map[string]int{}
	for _, e := range entries {
		switch it := e.Item.(type) {
		case *chatctx.FunctionCall:
			called[it.CallID]++
		case *chatctx.FunctionCallOutput:
			answered[it.CallID]++
			if called[it.CallID] == 0 {
				s.fault("G4: the output of %s is before its call", it.CallID)
			}
		}
	}
	for id, n := range called {
		if n != 1 || answered[id] > 1 || quiet && answered[id] != 1 {
			s.fault("G4: %s is called %d times and answered %d times", id, n, answered[id])
		}
	}
	s.testCall.mu.Lock()
	defer s.testCall.mu.Unlock()
	for id, n := range s.tools {
		if n > 1 || called[id] == 0 {
			s.fault("G4: the tool of %s ran %d times; called %d", id, n, called[id])
		}
	}
}

// checkEpochs is G5 for the log: after a commit no leg of before causes an entry.
func (s *swarm) checkEpochs(entries []chatctx.Entry) {
	epoch := uint64(0)
	for _, e := range entries {
		if p, ok := e.Item.(*chatctx.PipelineSwitch); ok && p.State == "committed" {
			if p.Epoch <= epoch {
				s.fault("G5: commit of epoch %d after %d", p.Epoch, epoch)
			}
			epoch = p.Epoch
			continue
		}
		// An empty place that a crash has left is taken back later.
		if strings.HasPrefix(e.OpID, "rec:") && e.Epoch != epoch && e.Op != chatctx.OpRemove {
			s.fault("G5: entry %d (%s, %s) is of epoch %d in epoch %d", e.Seq, e.OpID, e.Op, e.Epoch, epoch)
		}
		if m, ok := e.Item.(*chatctx.Message); ok && (strings.Contains(m.Content.Text(), "nobody asked") || strings.Contains(m.Content.Text(), "ghost")) {
			s.fault("G5: %q is recorded", m.Content.Text())
		}
	}
}

// checkSwitches is G6 and G7: a switch has one outcome; what was aborted changed nothing.
func (s *swarm) checkSwitches(entries []chatctx.Entry, quiet bool) {
	state := map[string]string{}
	from := ""
	for _, e := range entries {
		p, ok := e.Item.(*chatctx.PipelineSwitch)
		if !ok {
			continue
		}
		switch was := state[p.OpID]; {
		case p.State == "started" && was != "", p.State != "started" && was != "started":
			s.fault("G6: %s is %s after %q", p.OpID, p.State, was)
		case p.State == "committed":
			if p.From != from {
				s.fault("G6: commit from %q, but %q had the floor", p.From, from)
			}
			from = p.To
		}
		state[p.OpID] = p.State
	}
	if !quiet {
		return
	}
	for op, st := range state {
		if kind, _, _ := strings.Cut(op, ":"); st == "started" && !slices.Contains([]string{"first", "resume", "failover", "rollover"}, kind) {
			s.fault("G6: %s is open", op)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ops := map[string][]string{}
	for k, out := range s.answers {
		op, _, _ := strings.Cut(k, " ")
		if out != string(NotFound) && out != string(SwitchInProgress) { // refused: nothing was done, and the next try is a new one
			ops[op] = append(ops[op], out)
		}
	}
	for op, outs := range ops {
		committed := slices.ContainsFunc(outs, func(o string) bool { return strings.HasSuffix(o, "false") })
		if committed && len(outs) > 1 && len(s.troubls) == 0 { // one that joined, or was a no-op, is not in the log: after a restart it is a new one
			s.faults = append(s.faults, fmt.Sprintf("G7: %s came out as %v", op, outs))
		}
	}
}

// checkHeard is G5 for the ear: after a commit no packet of an older epoch is played.
func (s *swarm) checkHeard() {
	epoch := uint64(0)
	for _, h := range s.rec.all() {
		switch {
		case h.event != nil && h.event.Kind == PipelineCommitted && !h.event.Result.Noop:
			epoch = h.event.Epoch
		case h.event == nil && h.turn.Epoch < epoch:
			s.fault("G5: a packet of %v in epoch %d", h.turn, epoch)
			return
		}
	}
}

// checkWishes is G7 for models: none of them switches unless somebody has spoken since the last commit.
func (s *swarm) checkWishes() {
	spoke := true
	for _, h := range s.rec.all() {
		switch e := h.event; {
		case e == nil:
		case e.Kind == TranscriptSaid && e.Who == "caller" && e.Final:
			spoke = true
		case e.Kind == PipelineCommitted && !e.Result.Noop:
			spoke = false
		case e.Kind == PipelinePreparing && strings.HasPrefix(e.OpID, "tool:") && !spoke:
			s.fault("G7: %s prepares %s, and nobody has spoken", e.OpID, e.To)
		}
	}
}

// disturbed: the session was not there for the whole of a time.
func (s *swarm) disturbed(from, to time.Time) bool {
	for i := 0; i+1 < len(s.troubls); i += 2 {
		if from.Before(s.troubls[i+1]) && to.After(s.troubls[i]) {
			return true
		}
	}
	return false
}

// floorless: there was no leg for so long that the caller's words may be gone.
func (s *swarm) floorless(from time.Time) bool {
	empty := time.Time{}
	for _, h := range s.rec.all() {
		if h.event == nil {
			continue
		}
		switch h.event.Kind {
		case PipelineLost:
			empty = h.at
		case PipelineCommitted:
			if !empty.IsZero() && h.at.Sub(empty) > 8*time.Second && from.After(empty.Add(-10*time.Second)) && from.Before(h.at) {
				return true
			}
			empty = time.Time{}
		}
	}
	return !empty.IsZero() && from.After(empty.Add(-10*time.Second))
}

// checkUsers: what the caller said is there once, whole, in the order of speech.
func (s *swarm) checkUsers() {
	var got []string
	for _, it := range s.log.Snapshot().Items {
		if m, ok := it.(*chatctx.Message); ok && m.Role == chatctx.RoleUser && !strings.HasPrefix(m.Content.Text(), "typed") {
			got = append(got, strings.Fields(m.Content.Text())...)
		}
	}
	across := map[int]bool{} // said when the session was restarted
	s.mu.Lock()
	all := slices.Clone(s.spoken)
	s.mu.Unlock()
	for _, u := range all {
		across[u.n] = s.disturbed(u.start, u.end)
	}
	last := 0
	seen := map[int]int{}
	for _, w := range got {
		var n, a, b int
		if k, _ := fmt.Sscanf(w, "u%d:%d-%d", &n, &a, &b); k < 1 {
			s.fault("users: %q", w)
			continue
		}
		if n < last && !across[n] {
			s.fault("users: u%d after u%d: %v", n, last, got)
		}
		last = max(n, last)
		seen[n]++
	}
	for _, u := range all {
		if seen[u.n] > 1 {
			s.fault("users: u%d is there %d times: %v", u.n, seen[u.n], got)
		}
		if s.disturbed(u.start, u.end.Add(5*time.Second)) || s.floorless(u.start) {
			continue
		}
		if want := fmt.Sprintf("u%d:0-%d", u.n, u.frames-1); !slices.Contains(got, want) {
			s.fault("users: %s is not there: %v", want, got)
		}
	}
}

// checkAnswers is G8: of what was played, what was heard is there, and nothing else.
func (s *swarm) checkAnswers() {
	heard := map[TurnID]time.Duration{}
	lastAt := map[TurnID]time.Time{}
	for _, h := range s.rec.all() {
		if h.event == nil {
			heard[h.turn] += packet
			lastAt[h.turn] = h.at
		}
	}
	texts := map[TurnID]string{}
	for _, it := range s.log.Snapshot().Items {
		m, ok := it.(*chatctx.Message)
		if !ok || m.Role != chatctx.RoleAssistant {
			continue
		}
		text := strings.TrimSpace(m.Content.Text())
		part := strings.SplitN(text, "-", 4) // leg, item, epoch, word
		if len(part) < 4 {
			continue // said by the session
		}
		var id TurnID
		id.Item = part[1]
		_, _ = fmt.Sscan(part[2], &id.Epoch)
		if _, twice := texts[id]; twice {
			s.fault("G8: %v is there twice", id)
		}
		texts[id] = text
		if words, most := len(strings.Fields(text)), int(heard[id]/wordLong); words > most { // after a crash too
			s.fault("G8: of %v %d words were heard, and the context has %q", id, most, text)
		}
	}
	for id, d := range heard {
		if strings.HasPrefix(id.Item, "say.") || s.disturbed(lastAt[id].Add(-2*time.Second), lastAt[id].Add(8*time.Second)) {
			continue
		}
		words := int(d / wordLong)
		if got := len(strings.Fields(texts[id])); got != words {
			s.fault("G8: of %v %s (%d words) were heard, and the context has %q", id, d, words, texts[id])
		}
	}
}

// checkAfter looks at what the legs were given; the session has ended.
func (s *swarm) checkAfter() {
	for _, l := range s.made {
		floors := len(inputsOf[FloorIn](l.inputs))
		if floors > 1 {
			s.fault("the leg %s %d got the floor %d times", l.name, l.start.Epoch, floors)
		}
		known, told := map[string]bool{}, map[string]int{}
		for id := range l.asked {
			known[id] = true
		}
		for _, it := range l.start.Seed.Items {
			if f, ok := it.(*chatctx.FunctionCall); ok {
				known[f.CallID] = true
			}
		}
		for _, in := range l.inputs.all() {
			switch in := in.(type) {
			case ItemIn:
				if f, ok := in.Item.(*chatctx.FunctionCall); ok {
					known[f.CallID] = true
				}
			case ToolResultIn:
				if told[in.CallID]++; told[in.CallID] > 1 || !known[in.CallID] && l.start.Seed.Mode == SeedItems {
					s.fault("the leg %s %d got the result of %s %d times; it knows the call: %v", l.name, l.start.Epoch, in.CallID, told[in.CallID], known[in.CallID])
				}
			}
		}
	}
}
