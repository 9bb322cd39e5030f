package rules

import (
	"context"
	"strings"
)

// Reply is an answer: text to be said, calls to be made, or both. After calls the model is asked again, with their outputs in
// the conversation.
type Reply struct {
	Text  string
	Calls []Call
}

// Call is a tool to be run.
type Call struct {
	Name, Arguments string
}

// Answer replies in words alone: by the first rule that fits the last user message. It never fails; without a user message it
// says nothing.
func (r Responder) Answer(_ context.Context, turn Turn) (string, error) {
	turn.Tools = nil
	return r.Reply(turn).Text, nil
}

// Reply answers what stands last in the conversation: outputs of tools that nobody has spoken of yet, a handoff, or the last
// message of the caller, for which it may ask for tools that the turn offers.
func (r Responder) Reply(turn Turn) Reply {
	h := readHistory(turn.Items)
	if taken, ok := takenOver(turn.Items); ok {
		return Reply{Text: taken}
	}
	if len(h.user) == 0 {
		return Reply{}
	}
	late, own := outcomes(turn)
	if own != "" {
		return Reply{Text: join(late, own)}
	}
	reply := answer(turn, h)
	reply.Text = join(late, reply.Text)
	return reply
}

func answer(turn Turn, h history) Reply {
	text := h.user[len(h.user)-1].Content.Text()
	words := split(text)
	f := readFacts(turn.Items)
	if reply, ok := f.answer(words); ok {
		return reply
	}
	if reply, ok := useTools(turn, f, words); ok {
		return reply
	}
	said, narrow := lookUp(words)
	if narrow {
		return Reply{Text: said.answer(turn, h)}
	}
	if sorry := withoutTool(words); sorry != "" {
		return Reply{Text: sorry}
	}
	// A recogniser mishears; what comes near a sentence that is understood is taken for it.
	if meant, ok := nearest(words); ok {
		words = split(meant)
		if reply, ok := f.answer(words); ok {
			return reply
		}
		if reply, ok := useTools(turn, f, words); ok {
			return reply
		}
		if rule, _ := lookUp(words); rule != nil {
			return Reply{Text: rule.answer(turn, h)}
		}
	}
	if said != nil {
		return Reply{Text: said.answer(turn, h)}
	}
	return Reply{Text: fallback(turn, h)}
}

// lookUp finds the first rule of the table whose words occur; narrow: by more than one word.
func lookUp(words []string) (found *rule, narrow bool) {
	for i, r := range table {
		for _, phrase := range r.phrases {
			if !has(words, phrase) {
				continue
			}
			if strings.Contains(phrase, " ") {
				return &table[i], true
			}
			if found == nil {
				found = &table[i]
			}
		}
	}
	return found, false
}

func join(a, b string) string { return strings.TrimSpace(a + " " + b) }
