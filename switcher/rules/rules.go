// Package rules answers without a model: by fixed rules from the conversation and from the figures of what it sees, so that a call is alive with no key and no network.
package rules

import (
	"fmt"
	"time"
	"unicode"

	chatctx "sightline/context"
	"sightline/switcher"
)

// Responder keeps nothing between turns: whatever it knows stands in the Turn.
type Responder struct{}

// Turn is what is to be answered: the conversation, whose last item is the user's, and what can be seen now.
type Turn struct {
	At    time.Time
	Items chatctx.Items
	Seen  []switcher.Sight
	// Tools may be asked for by a Reply; Running are the call ids that are still being executed.
	Tools   []switcher.Tool
	Running map[string]bool
}

func notWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

type rule struct {
	phrases []string // lower case, words parted by one space
	answer  func(Turn, history) string
}

// table is read from the top: put the narrow rule before the wide one.
var table = []rule{
	{[]string{"how many messages", "how long is this conversation"}, countMessages},
	{[]string{"how many images", "how many pictures"}, countImages},
	{[]string{"repeat", "what did i say", "say that again", "my last message"}, repeatUser},
	{[]string{"what did you say", "your last answer"}, repeatSelf},
	{[]string{"what time", "the time", "what day", "which day"}, tellTime},
	{[]string{"bright", "brightness", "dark", "light"}, tellBrightness},
	{[]string{"how old", "how fresh", "age", "latency", "delay"}, tellAge},
	{[]string{"size", "resolution", "how big", "how large"}, tellSize},
	{[]string{"help", "what can you do", "commands"}, help},
	{[]string{"see", "look", "watch", "describe", "camera", "screen", "picture", "image"}, describe},
	{[]string{"hello", "hi", "hey", "good morning", "good evening"}, greet},
	{[]string{"thanks", "thank you"}, func(Turn, history) string { return "You are welcome." }},
	{[]string{"bye", "goodbye"}, func(Turn, history) string { return "Goodbye. The conversation stays here." }},
}

func help(Turn, history) string {
	return `I answer by rules, without a model. Ask "what do you see?", "how bright is it?", "how old is the image?", ` +
		`"which size?", "how many messages?", "how many images?", "repeat my last message", "what did you say?" or "what time is it?". ` +
		`Tell me your name and your order number, and ask for them later. With tools I look up your order, read a sign and switch the pipeline.`
}

func greet(turn Turn, h history) string {
	s := "Hello. "
	if len(h.assistant) > 0 {
		s = "Hello again. "
	}
	return s + describe(turn, h) + ` Ask "help" for what I can answer.`
}

func tellTime(turn Turn, _ history) string {
	return "It is " + turn.At.Format("15:04:05 MST on Monday, 2 January 2006") + "."
}

// fallback proves that it read the message and looks anyway.
func fallback(turn Turn, h history) string {
	said := h.user[len(h.user)-1].Content
	if said.Text() == "" {
		return shown(turn, said) + " " + describe(turn, h)
	}
	return fmt.Sprintf(`You said %q. I answer by rules only: ask "help". %s`, short(said.Text()), describe(turn, h))
}

// shown speaks about the images that the message itself carries.
func shown(turn Turn, said chatctx.Content) string {
	images := said.Images()
	if len(images) == 0 {
		return "Your message is empty."
	}
	i, s := images[0], "Your message shows an image"
	if i.Width > 0 {
		s += fmt.Sprintf(" of %d×%d", i.Width, i.Height)
	}
	if i.Source != "" {
		s += " from " + sourceName(i.Source)
	}
	if !i.CapturedAt.IsZero() {
		s += ", captured " + ago(turn.At.Sub(i.CapturedAt.Time))
	}
	return s + "."
}

// short keeps an answer readable when the message was long.
func short(text string) string {
	const most = 200
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}
