package project

import (
	"encoding/json"

	chatctx "sightline/context"
)

// GeminiRequest is the part of a generateContent request that is made of the conversation; Contents also are the turns of a Live
// session's clientContent.
type GeminiRequest struct {
	SystemInstruction *GeminiContent  `json:"systemInstruction,omitempty"`
	Contents          []GeminiContent `json:"contents"`
}

// GeminiContent is one turn: user or model. A turn of functionResponse parts has nothing else in it.
type GeminiContent struct {
	Role  string       `json:"role,omitempty"`
	Parts []GeminiPart `json:"parts"`
}

// GeminiPart has one of its fields, and a call its thoughtSignature.
type GeminiPart struct {
	Text             string                  `json:"text,omitempty"`
	InlineData       *GeminiBlob             `json:"inlineData,omitempty"`
	FunctionCall     *GeminiFunctionCall     `json:"functionCall,omitempty"`
	FunctionResponse *GeminiFunctionResponse `json:"functionResponse,omitempty"`
	ThoughtSignature string                  `json:"thoughtSignature,omitempty"`
}

// GeminiBlob is an image; Data is base64.
type GeminiBlob struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"`
}

// GeminiFunctionCall is a call; Args is a JSON object.
type GeminiFunctionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// GeminiFunctionResponse is what the function of that name answered.
type GeminiFunctionResponse struct {
	ID       string       `json:"id,omitempty"`
	Name     string       `json:"name"`
	Response GeminiAnswer `json:"response"`
}

// GeminiAnswer is the text of an output, under output or, of a failed call, under error.
type GeminiAnswer struct {
	Output string `json:"output,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Gemini gives a conversation for generateContent or a Live session. Handoffs and summaries are marked texts of the user.
func Gemini(items chatctx.Items, o Options) (GeminiRequest, []Loss) {
	c := normalise(items, o, geminiImages())
	out := GeminiRequest{Contents: make([]GeminiContent, 0, len(c.steps)+2)}
	losses := append(c.losses, instructionRoles(items, Options{})...)
	if c.instructions != "" {
		out.SystemInstruction = &GeminiContent{Parts: []GeminiPart{{Text: c.instructions}}}
	}
	turn := func(role string) *GeminiContent {
		n := len(out.Contents)
		if n == 0 || out.Contents[n-1].Role != role || out.Contents[n-1].Parts[0].FunctionResponse != nil {
			out.Contents = append(out.Contents, GeminiContent{Role: role})
		}
		return &out.Contents[len(out.Contents)-1]
	}
	note := func(text string) {
		t := turn("user")
		t.Parts = append(t.Parts, GeminiPart{Text: mark(text)})
	}
	for i, s := range c.steps {
		if i == 0 && firstRole(s) != chatctx.RoleUser {
			note(noteStart)
			losses = append(losses, Loss{AddedTurn, s.id, "the first turn has to be the user's"})
		}
		switch s.kind {
		case stepSay:
			role := "user"
			if s.role == chatctx.RoleAssistant {
				role = "model"
			}
			t := turn(role)
			t.Parts = appendGeminiParts(t.Parts, s.parts)
		case stepNote:
			note(s.note)
		case stepCalls:
			t := turn("model")
			answers := GeminiContent{Role: "user"}
			for k, call := range s.calls {
				asking, answer := geminiCall(call, &losses)
				if k == 0 {
					asking.ThoughtSignature = o.GeminiSignature
				}
				t.Parts = append(t.Parts, asking)
				answers.Parts = append(answers.Parts, answer)
			}
			out.Contents = append(out.Contents, answers)
		}
	}
	if n := len(out.Contents); n > 0 && out.Contents[n-1].Role == "model" && !o.AllowLastAssistant {
		note(noteSilence)
		losses = append(losses, Loss{AddedTurn, "", "the last turn has to be the user's"})
	}
	return out, losses
}

func geminiCall(c *call, losses *[]Loss) (asking, answer GeminiPart) {
	id, name := outerNames(c, geminiID, true, losses)
	response := &GeminiFunctionResponse{ID: id, Name: name, Response: GeminiAnswer{Output: c.output}}
	if c.isError {
		response.Response = GeminiAnswer{Error: c.output}
	}
	return GeminiPart{FunctionCall: &GeminiFunctionCall{id, name, rawObject(c.arguments)}}, GeminiPart{FunctionResponse: response}
}

func appendGeminiParts(out []GeminiPart, parts []part) []GeminiPart {
	for _, p := range parts {
		if p.pic == nil {
			out = append(out, GeminiPart{Text: p.text})
			continue
		}
		if p.pic.caption != "" {
			out = append(out, GeminiPart{Text: p.pic.caption})
		}
		if p.pic.url != "" {
			out = append(out, GeminiPart{InlineData: &GeminiBlob{p.pic.mime, p.pic.base64()}})
		}
	}
	return out
}
