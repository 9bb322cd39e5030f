// Package spell writes what was said and done as plain lines, for providers that take nothing else in mid-call; it reads no conversation itself.
package spell

import (
	"strings"

	chatctx "sightline/context"
	"sightline/context/project"
)

var unmarked = strings.NewReplacer("⟦", "[", "⟧", "]")

// Marked is a line of ours where others' words stand too; theirs cannot have these two.
func Marked(line string) string { return "⟦" + unmarked.Replace(line) + "⟧" }

// Lines of ours that ask for an answer.
const (
	AnswerNow   = "The caller is waiting for an answer to their last words: give it now. Do not mention this line."
	AnswerAloud = "The caller cannot read: say your last answer aloud. Do not mention this line."
)

// Heard says how much of the last answer the caller heard before they interrupted it; text is "" where nobody knows the words,
// played whether they heard anything.
func Heard(text string, played bool) string {
	switch text = strings.TrimSpace(text); {
	case text != "":
		return Marked("The caller interrupted; of your last answer they heard only: " + text)
	case !played:
		return Marked("The caller interrupted your last answer before they heard anything of it.")
	}
	return Marked("The caller interrupted your last answer and did not hear the end of it.")
}

// Others gives what somebody else put into the conversation in mid-call, as turns.
func Others(items chatctx.Items, o project.Options) ([]project.GeminiContent, []project.Loss) {
	o.AllowLastAssistant = true
	made, losses := project.Gemini(items, o)
	turns := made.Contents
	for _, l := range losses { // the projector says that the conversation begins, where it is the model that does
		if l.Kind == project.AddedTurn && len(turns) > 0 {
			turns[0].Parts[0].Text = Marked("meanwhile in the call")
		}
	}
	if s := made.SystemInstruction; s != nil {
		turns = append([]project.GeminiContent{{Role: "user", Parts: []project.GeminiPart{{Text: Marked("instructions: " + s.Parts[0].Text)}}}}, turns...)
	}
	return turns, losses
}

// Turns is turns as one text: the caller's words as they are, all else between ⟦ and ⟧. image is given the images; nil: they are
// left out.
func Turns(turns []project.GeminiContent, image func(*project.GeminiBlob)) string {
	var lines []string
	for _, t := range turns {
		for _, p := range t.Parts {
			switch {
			case p.InlineData != nil:
				if image != nil {
					image(p.InlineData)
				}
			case p.FunctionCall != nil:
				lines = append(lines, Marked("the tool "+p.FunctionCall.Name+" was called with "+string(p.FunctionCall.Args)))
			case p.FunctionResponse != nil:
				a := p.FunctionResponse.Response
				lines = append(lines, Marked("the tool "+p.FunctionResponse.Name+" answered: "+a.Output+a.Error))
			case t.Role == "model":
				lines = append(lines, Marked("you said: "+p.Text))
			case p.Text != "":
				lines = append(lines, p.Text)
			}
		}
	}
	return strings.Join(lines, "\n")
}
