package project

import (
	"strings"

	chatctx "sightline/context"
)

// Text gives a conversation as plain text, one line an item, for a prompt or a person: "User: …", "Assistant: …",
// "[tool call] name(arguments)", "[tool result] name -> output" or "[tool error] …", handoffs and summaries between ⟦ and ⟧. Further
// lines of a text are indented, so that no text can begin an item. Instructions are not part of it: ActiveConfig has them.
func Text(items chatctx.Items, o Options) (string, []Loss) {
	c := normalise(items, o, imageRules{none: true})
	if c.instructions != "" {
		c.losses = append(c.losses, Loss{LostInstructionsIn, "", "plain text has no place for instructions"})
	}
	var lines []string
	for _, s := range c.steps {
		switch s.kind {
		case stepSay:
			who := "User: "
			if s.role == chatctx.RoleAssistant {
				who = "Assistant: "
			}
			lines = append(lines, who+indent(strings.TrimSpace(joinTexts(s.parts, " "))))
		case stepNote:
			lines = append(lines, mark(s.note))
		case stepCalls:
			for _, call := range s.calls {
				lines = append(lines, "[tool call] "+indent(call.name)+"("+indent(call.arguments)+")")
			}
			for _, call := range s.calls {
				kind := "[tool result] "
				if call.isError {
					kind = "[tool error] "
				}
				lines = append(lines, kind+indent(call.name)+" -> "+indent(call.output))
			}
		}
	}
	return strings.Join(lines, "\n"), c.losses
}

// lineEnds are all that a reader may take for the end of a line.
var lineEnds = strings.NewReplacer("\r\n", "\n  ", "\n", "\n  ", "\r", "\n  ", "\v", "\n  ", "\f", "\n  ", "\u0085", "\n  ", "\u2028", "\n  ", "\u2029", "\n  ")

func indent(s string) string { return lineEnds.Replace(s) }
