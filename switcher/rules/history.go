package rules

import (
	"fmt"

	chatctx "sightline/context"
)

// history is the conversation as the rules need it; user ends with the message that is being answered.
type history struct {
	user, assistant []*chatctx.Message
	images          int // in all messages
}

func readHistory(items chatctx.Items) history {
	var h history
	for _, item := range items {
		m, ok := item.(*chatctx.Message)
		if !ok {
			continue
		}
		h.images += len(m.Content.Images())
		switch m.Role {
		case chatctx.RoleUser:
			h.user = append(h.user, m)
		case chatctx.RoleAssistant:
			h.assistant = append(h.assistant, m)
		}
	}
	return h
}

func countMessages(_ Turn, h history) string {
	return fmt.Sprintf("So far %s from you and %s from me.", count(len(h.user), "message"), count(len(h.assistant), "answer"))
}

func countImages(_ Turn, h history) string {
	return fmt.Sprintf("The conversation holds %s.", count(h.images, "image"))
}

func repeatUser(_ Turn, h history) string {
	if len(h.user) < 2 {
		return "This is your first message."
	}
	before := h.user[len(h.user)-2].Content
	if before.Text() == "" {
		return "Before this you sent " + count(len(before.Images()), "image") + " without text."
	}
	return fmt.Sprintf("Before this you said %q.", short(before.Text()))
}

func repeatSelf(_ Turn, h history) string {
	if len(h.assistant) == 0 {
		return "I have not said anything yet."
	}
	return fmt.Sprintf("I said %q.", short(h.assistant[len(h.assistant)-1].Content.Text()))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
