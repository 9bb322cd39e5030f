package rules

import (
	"strings"
	"unicode"

	chatctx "sightline/context"
)

// facts are what the caller has told, read out of the conversation anew each time: whoever answers, in whichever pipeline,
// knows what the log knows.
type facts struct {
	order, name, note string
	justOrder         bool // the last message told it
	justName          bool
	justNote          bool
	found             map[string]string // order number → output of the last look-up that went well
}

func readFacts(items chatctx.Items) facts {
	f := facts{found: map[string]string{}}
	asked := map[string]string{} // call id → order number
	wanted := false              // the agent has just asked for the number
	for _, item := range items {
		switch item := item.(type) {
		case *chatctx.Message:
			text := item.Content.Text()
			switch item.Role {
			case chatctx.RoleUser:
				f.justOrder, f.justName, f.justNote = f.learn(split(text), wanted)
				wanted = false
			case chatctx.RoleAssistant:
				wanted = strings.Contains(text, askNumber)
			}
		case *chatctx.Summary:
			f.summed(item.Text)
		case *chatctx.AgentHandoff:
			f.summed(item.Summary)
		case *chatctx.FunctionCall:
			if item.Name == lookupOrder {
				asked[item.CallID] = digitsOf(item.Arguments)
			}
		case *chatctx.FunctionCallOutput:
			if n := asked[item.CallID]; n != "" && !item.IsError {
				f.found[n] = item.Output
			}
		}
	}
	return f
}

// learn takes what one message tells. bare: digits with few other words are an order number; digits alone always are.
func (f *facts) learn(words []string, bare bool) (order, name, note bool) {
	number, rest := longestNumber(words)
	if len(number) >= 3 && (has(words, "order", "number", "orders", "look up", "lookup") || bare && rest <= 3 || rest == 0) {
		f.order, order = number, true
	}
	if n := nameIn(words); n != "" {
		f.name, name = n, true
	}
	for _, opening := range []string{"remember that", "please remember", "remember"} {
		if _, after, ok := strings.Cut(" "+strings.Join(words, " ")+" ", " "+opening+" "); ok && !has(words, "what", "do you remember") && len(strings.Fields(after)) > 1 {
			f.note, note = strings.TrimSpace(after), true
			break
		}
	}
	return order, name, note
}

// summed takes facts out of a summary, which speaks of the caller in the third person.
func (f *facts) summed(text string) {
	for _, sentence := range strings.FieldsFunc(text, func(r rune) bool { return r == '.' || r == '\n' || r == ';' }) {
		f.learn(split(sentence), false)
	}
}

// answer speaks of what was told, now or before.
func (f facts) answer(words []string) (Reply, bool) {
	question := has(words, "what", "which", "tell me", "say", "repeat", "one was", "know", "was", "who", "remember")
	var told []string
	if question && has(words, "order number", "my number", "order numbers") && !f.justOrder {
		told = append(told, known(f.order != "", "It is order number "+spoken(f.order)+".", "You have not told me an order number yet."))
	}
	if question && has(words, "my name", "who am i") && !f.justName {
		told = append(told, known(f.name != "", "Your name is "+f.name+".", "You have not told me your name yet."))
	}
	if has(words, "what did i ask you to remember", "what should you remember", "what do you remember") {
		told = append(told, known(f.note != "", "You asked me to remember: "+short(f.note)+".", "You have not asked me to remember anything."))
	}
	if len(told) > 0 {
		return Reply{Text: strings.Join(told, " ")}, true
	}
	if wants(words) != (wish{}) { // "look up order 4711" is more than telling a number
		return Reply{}, false
	}
	switch {
	case f.justOrder && f.justName:
		return Reply{Text: "Thank you, " + f.name + ". Your order number is " + spoken(f.order) + "."}, true
	case f.justOrder:
		return Reply{Text: "Thank you. Your order number is " + spoken(f.order) + "."}, true
	case f.justName:
		return Reply{Text: "Nice to meet you, " + f.name + "."}, true
	case f.justNote:
		return Reply{Text: "I will remember it."}, true
	}
	return Reply{}, false
}

func known(is bool, what, otherwise string) string {
	if is {
		return what
	}
	return otherwise
}

var notNames = map[string]bool{"what": true, "not": true, "and": true, "but": true, "the": true, "a": true, "is": true, "please": true, "my": true, "i": true,
	"with": true, "order": true, "you": true, "it": true, "on": true, "in": true, "at": true, "to": true, "for": true, "so": true, "who": true, "his": true, "her": true,
	"look": true, "switch": true, "read": true, "then": true, "can": true, "could": true, "will": true, "has": true, "was": true, "that": true, "there": true,
	"again": true, "back": true, "later": true, "me": true, "asked": true, "wants": true, "or": true, "now": true}

// nameIn is the name that somebody gives: at most two words.
func nameIn(words []string) string {
	for i, w := range words {
		start := 0
		switch next := at(words, i+1); {
		case w == "name" && (next == "is" || next == "s" || next == "as"):
			start = i + 2
		case w == "named", w == "called" && (at(words, i-1) == "am" || at(words, i-1) == "m" || at(words, i-1) == "is"), w == "call" && next == "me":
			start = i + 1
			if w == "call" {
				start = i + 2
			}
		default:
			continue
		}
		var name []string
		for _, n := range words[min(start, len(words)):] {
			if notNames[n] || len(name) == 2 || digitsOf(n) != "" || digit[n] != "" {
				break
			}
			name = append(name, title(n))
		}
		if len(name) > 0 {
			return strings.Join(name, " ")
		}
	}
	return ""
}

func at(words []string, i int) string {
	if i < 0 || i >= len(words) {
		return ""
	}
	return words[i]
}

func title(w string) string {
	r := []rune(w)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}
