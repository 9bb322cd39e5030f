package project

import "strings"

// gemini checks the system instruction and the contents of a generateContent request.
func (c *checker) gemini(root any) {
	if object, ok := root.(map[string]any); ok {
		for _, name := range []string{"systemInstruction", "system_instruction"} {
			if object[name] != nil {
				c.geminiSystem(place{name, object[name]})
			}
		}
	}
	turns := c.list(root, "contents")
	before := "" // the kind of the turn before: "" none, user, model, calls, answers
	var asked []string
	lastWords := geminiLastWords(turns)
	for i, p := range turns {
		turn := c.object(p, "role", "parts")
		if turn == nil {
			continue
		}
		role := "user"
		if turn["role"] != nil {
			role = c.oneOf(p.path, turn, "role", "user", "model")
		}
		calls, answers := c.geminiParts(p, turn, role, i > lastWords)
		kind := role
		switch {
		case len(calls) > 0:
			kind = "calls"
			if before == "" || before == "model" || before == "calls" {
				c.bad(p.path, "a turn with functionCall parts comes directly after a user turn or one with functionResponse parts")
			}
		case len(answers) > 0:
			kind = "answers"
		}
		if before == "calls" && kind != "answers" {
			c.bad(p.path, "the turn after functionCall parts has to answer them")
		}
		if kind == "answers" {
			c.geminiAnswers(p.path, asked, answers, before)
		}
		if i == 0 && role == "model" {
			c.bad(p.path+".role", "the first turn has to be the user's")
		}
		before, asked = kind, calls
	}
	switch before {
	case "calls":
		c.bad("contents", "the functionCall parts of the last turn are not answered")
	case "model":
		c.some("contents", "the last turn is the model's: it has to be the user's or an answer to a call")
	}
}

func (c *checker) geminiSystem(p place) {
	system := c.object(p, "role", "parts")
	if system == nil {
		return
	}
	for _, part := range c.elements(place{p.path + ".parts", system["parts"]}) {
		if fields := c.object(part); fields != nil {
			if s, ok := c.text(part.path, fields, "text"); ok && s == "" {
				c.bad(part.path+".text", "empty")
			}
		}
	}
}

func (c *checker) geminiAnswers(path string, asked, answers []string, before string) {
	if before != "calls" {
		c.bad(path, "functionResponse parts without functionCall parts in the turn before")
		return
	}
	if len(asked) != len(answers) {
		c.bad(path, "%d functionResponse parts for %d functionCall parts", len(answers), len(asked))
		return
	}
	left := map[string]int{}
	for _, name := range asked {
		left[name]++
	}
	for _, name := range answers {
		if left[name]--; left[name] < 0 {
			c.bad(path, "a functionResponse of %q, which was not called", cut(name))
		}
	}
}

// geminiParts gives the names called and answered in a turn.
func (c *checker) geminiParts(p place, turn map[string]any, role string, current bool) (calls, answers []string) {
	parts := c.elements(place{p.path + ".parts", turn["parts"]})
	if parts != nil && len(parts) == 0 {
		c.bad(p.path+".parts", "an empty list")
	}
	known := []string{"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult"}
	for _, at := range parts {
		part := c.object(at, append([]string{"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"}, known...)...)
		if part == nil {
			continue
		}
		n := 0
		for _, name := range known {
			if part[name] != nil {
				n++
			}
		}
		if n != 1 {
			c.bad(at.path, "a part has exactly one of %q, this has %d", known, n)
		}
		if part["text"] != nil {
			if s, ok := c.text(at.path, part, "text"); ok && s == "" {
				c.bad(at.path+".text", "empty")
			}
		}
		if part["inlineData"] != nil {
			c.geminiImage(at.path+".inlineData", part["inlineData"])
		}
		if part["functionCall"] != nil {
			if role == "user" {
				c.bad(at.path, "a functionCall in a user turn")
			}
			if current && len(calls) == 0 && part["thoughtSignature"] == nil {
				c.some(at.path, "no thoughtSignature: Gemini 3 refuses calls of the current turn without one")
			}
			calls = append(calls, c.geminiNamed(at.path+".functionCall", part["functionCall"], "args"))
		}
		if part["functionResponse"] != nil {
			answers = append(answers, c.geminiNamed(at.path+".functionResponse", part["functionResponse"], "response"))
		}
	}
	return calls, answers
}

// geminiNamed checks a functionCall or functionResponse and gives its name; payload is the field that has to be an object.
func (c *checker) geminiNamed(path string, value any, payload string) string {
	fields := c.object(place{path, value}, "id", "name", payload, "willContinue", "scheduling", "parts")
	if fields == nil {
		return ""
	}
	name, ok := c.text(path, fields, "name")
	if ok {
		if len(name) == 0 || len(name) > 64 || !(name[0] == '_' || name[0] >= 'a' && name[0] <= 'z' || name[0] >= 'A' && name[0] <= 'Z') {
			c.bad(path+".name", "%q: 1 to 64 characters, a letter or _ first", cut(name))
		}
		for _, r := range name {
			if r != '_' && r != '-' && r != '.' && r != ':' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
				c.bad(path+".name", "%q: only letters, digits, _ - . and : are allowed", cut(name))
				break
			}
		}
	}
	if fields[payload] != nil || payload == "response" {
		c.object(place{path + "." + payload, fields[payload]})
	}
	return name
}

func (c *checker) geminiImage(path string, value any) {
	blob := c.object(place{path, value}, "mimeType", "data", "displayName")
	if blob == nil {
		return
	}
	kind, _ := c.text(path, blob, "mimeType")
	data, ok := c.text(path, blob, "data")
	if ok && strings.HasPrefix(kind, "image/") && !strings.HasPrefix(kind, "image/hei") { // HEIC and HEIF are taken, and not read here
		c.imageBytes(path, kind, data, takes{kinds: []string{"image/png", "image/jpeg", "image/webp"}, maxBase64: 20 << 20, totalBase64: 20 << 20})
	}
}

// geminiLastWords is the place of the last user turn that is no answer to a call: after it the current turn begins.
func geminiLastWords(turns []place) int {
	last := -1
	for i, p := range turns {
		turn, _ := p.value.(map[string]any)
		parts, _ := turn["parts"].([]any)
		if turn == nil || turn["role"] == "model" || len(parts) == 0 {
			continue
		}
		if first, ok := parts[0].(map[string]any); ok && first["functionResponse"] == nil {
			last = i
		}
	}
	return last
}
