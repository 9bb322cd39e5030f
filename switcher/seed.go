package switcher

import (
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
)

// seeding is what a leg was given before it began.
type seeding struct {
	Seed
	seq             uint64          // of the newest entry in it
	calls           map[string]bool // call ids that it has
	base, plus      chatctx.Items   // what it was made of: the conversation, and what it brought along
	stale           int             // of them, changed since
	seeded, dropped int
}

// midCall goes with structured items, which have no frame of their own.
const midCall = "You are joining a call that is already under way; to the caller you are whom they have been talking to all along. The messages before are what was said. Do not greet again and do not introduce yourself again. What a tool has answered is an established fact: do not call the tool again for it."

// makeSeed makes what a pipeline is to be told of the conversation, in the best form that it takes.
func makeSeed(snap chatctx.Snapshot, plus chatctx.Items, p Pipeline, o project.SeedOptions, switchTool string) seeding {
	s := seeding{seq: snap.Seq, calls: map[string]bool{}, base: snap.Items, plus: plus}
	items, running := relevant(append(snap.Items[:len(snap.Items):len(snap.Items)], plus...), switchTool)
	for _, it := range items {
		if f, ok := it.(*chatctx.FunctionCall); ok {
			s.calls[f.CallID] = true
		}
	}
	s.Mode = SeedInstructions
	if len(p.Can.Seeds) > 0 {
		s.Mode = p.Can.Seeds[0]
	}
	o.Mode, o.Running = project.SeedMode(s.Mode), running
	if switchTool != "" {
		o.HideTools = []string{switchTool}
	}
	most := p.Can.MaxInstructions
	if most <= 0 {
		most = DefaultMaxInstructions
	}
	o.MaxChars = most
	made, losses := project.Seed(items, o)
	for range 4 { // the bound is in bytes, the projector's in code points
		if len(made.Instructions) <= most {
			break
		}
		o.MaxChars = o.MaxChars * most / len(made.Instructions) * 19 / 20
		made, losses = project.Seed(items, o)
	}
	s.Instructions, s.Items = made.Instructions, made.Items
	if s.Mode == SeedItems && len(made.Items) > 0 {
		s.Instructions = joined(s.Instructions, midCall)
	}
	s.seeded = len(items)
	lost := map[string]bool{}
	for _, l := range losses {
		switch l.Kind {
		case project.LostOlder, project.LostOrphanOutput, project.LostDuplicateCall, project.LostEarlierOutput, project.LostEmpty, project.LostUnheard:
			lost[l.ItemID] = true
		}
	}
	s.dropped = min(len(lost), s.seeded)
	s.seeded -= s.dropped
	return s
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "\n\n" + b
}

// relevant are the items that a model may see: a model that reads of a switch asks for it again. running are the calls that are
// still being worked on; the session answers all others.
func relevant(items chatctx.Items, switchTool string) (out chatctx.Items, running map[string]bool) {
	running = map[string]bool{}
	hidden := map[string]bool{}
	for _, it := range items {
		switch it := it.(type) {
		case *chatctx.PipelineSwitch:
			continue
		case *chatctx.FunctionCall:
			if switchTool != "" && it.Name == switchTool {
				hidden[it.CallID] = true
				continue
			}
			running[it.CallID] = true
		case *chatctx.FunctionCallOutput:
			if hidden[it.CallID] || switchTool != "" && it.Name == switchTool {
				continue
			}
			delete(running, it.CallID)
		}
		out = append(out, it)
	}
	return out, running
}

// unanswered reports whether the caller waits for an answer to what stands last.
func unanswered(items chatctx.Items, switchTool string) bool {
	answered := map[string]bool{}
	for i := len(items) - 1; i >= 0; i-- { // the newest decide: the rest is not looked at
		switch it := items[i].(type) {
		case *chatctx.Message:
			switch {
			case it.Role == chatctx.RoleUser:
				return true
			case it.Role == chatctx.RoleAssistant && it.Content.Text() != "":
				return false
			}
		case *chatctx.AgentHandoff:
			return true
		case *chatctx.FunctionCall:
			if !answered[it.CallID] && (switchTool == "" || it.Name != switchTool) {
				return false // its result will come
			}
		case *chatctx.FunctionCallOutput:
			if answered[it.CallID] = true; switchTool == "" || it.Name != switchTool {
				return true
			}
		}
	}
	return false
}

// missed are the inputs that tell a leg what has come into the log since its seed, up to the commit. Words of the caller that
// became more since then are told again.
func (s *seeding) missed(chat *chatctx.ChatContext, switchTool string) (in []Input, n int) {
	all := chat.Items()
	same := 0 // items from the first on that are as they were: of a long conversation nearly all
	for same < min(len(all), len(s.base)) && all[same] == s.base[same] {
		same++
	}
	hadItem := make(map[string]chatctx.Item, len(s.base)-same+len(s.plus))
	for _, l := range []chatctx.Items{s.base[same:], s.plus} {
		for _, it := range l {
			hadItem[it.ItemID()] = it
		}
	}
	items, _ := relevant(all[same:], switchTool)
	for _, it := range items {
		m, isMessage := it.(*chatctx.Message)
		if isMessage && len(m.Content) == 0 {
			continue // a place that waits for its words
		}
		if was, had := hadItem[it.ItemID()]; had {
			w, _ := was.(*chatctx.Message)
			if was == it || !isMessage || w == nil || w.Content.Text() == m.Content.Text() {
				continue
			}
			if s.stale++; m.Role != chatctx.RoleUser { // an answer that was cut off since: told again it would stand there twice
				continue
			}
		}
		n++
		if o, ok := it.(*chatctx.FunctionCallOutput); ok && s.calls[o.CallID] {
			in = append(in, ToolResultIn{CallID: o.CallID, Name: o.Name, Output: o.Output, IsError: o.IsError})
			continue
		}
		seq, _, _ := chat.Placed(it.ItemID())
		in = append(in, ItemIn{Seq: seq, Item: it})
	}
	return in, n
}

// seedOptions are those of a session's seeds.
func (c *Config) seedOptions(now time.Time) project.SeedOptions {
	o := project.SeedOptions{Base: c.Instructions}
	o.KeepImages, o.ForAgent, o.Downscale, o.Now = c.KeepImages, c.Agent, c.Sized, now
	return o
}
