package sockettest

import (
	"fmt"

	chatctx "sightline/context"
	"sightline/switcher"
)

// order is what has been put out so far.
type order struct {
	opened, over    map[string]bool // turns
	calls           map[string]bool
	begun, finished map[string]bool // utterances
}

// Ordered says what a session would not expect of the outputs of a leg, whatever its provider did: something of a turn after its end,
// an end without a beginning, a call asked for twice, a transcript that goes on after it was final.
func Ordered(outs []switcher.Output) error {
	s := order{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for i, o := range outs {
		if !s.take(o) {
			return fmt.Errorf("output %d of %d is out of order: %T%.200v", i, len(outs), o, o)
		}
	}
	return nil
}

func (s *order) take(o switcher.Output) (ok bool) {
	switch o := o.(type) {
	case switcher.TextOut:
		return s.goesOn(o.Item)
	case switcher.SoundOut:
		return len(o.PCM) > 0 && o.Rate >= 8000 && o.Rate <= 48000 && s.goesOn(o.Item)
	case switcher.TurnDoneOut:
		ok = s.opened[o.Item] && !s.over[o.Item]
		s.over[o.Item] = true
	case switcher.ToolCallOut:
		ok = chatctx.ValidID(o.CallID) && !s.calls[o.CallID] && (o.Item == "" || s.opened[o.Item] && !s.over[o.Item])
		s.calls[o.CallID] = true
	case switcher.ToolCancelOut:
		for _, id := range o.CallIDs {
			if !s.calls[id] {
				return false
			}
		}
		return true
	case switcher.CallerSpeechOut:
		ok = chatctx.ValidID(o.Item) && o.Started != s.begun[o.Item]
		s.begun[o.Item] = true
	case switcher.TranscriptOut:
		ok = s.begun[o.Item] && !s.finished[o.Item] && !(o.Final && o.Failed)
		s.finished[o.Item] = o.Final || o.Failed
	default:
		return true
	}
	return ok
}

func (s *order) goesOn(item string) bool {
	s.opened[item] = true
	return chatctx.ValidID(item) && !s.over[item]
}
