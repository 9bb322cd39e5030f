package project

import "encoding/json"

// openAIChat checks the messages of a chat completion.
func (c *checker) openAIChat(messages []place) {
	open := map[string]bool{} // ids that wait for their tool message
	seen := map[string]bool{}
	asked := "" // the message that calls
	settle := func() {
		for _, id := range sortedKeys(open) {
			c.bad(asked, "the call %q is not answered by the tool messages directly after it", cut(id))
		}
		clear(open)
	}
	for i, p := range messages {
		m := c.object(p, "role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call", "prompt_cache_breakpoint")
		if m == nil {
			continue
		}
		role := c.oneOf(p.path, m, "role", "system", "developer", "user", "assistant", "tool", "function")
		if role != "tool" {
			settle()
		}
		switch role {
		case "system", "developer":
			c.chatContent(p.path, m["content"], "text")
			if role == "developer" {
				c.some(p.path+".role", "developer is known to OpenAI only: system is known everywhere")
			}
			if i > 0 {
				c.some(p.path+".role", "a %s message that is not the first: some chat templates refuse it", role)
			}
		case "user":
			c.chatContent(p.path, m["content"], "text", "image_url", "input_audio", "file")
		case "assistant":
			calls := m["tool_calls"] != nil
			if m["content"] != nil || !calls && m["function_call"] == nil && m["refusal"] == nil && m["audio"] == nil {
				c.chatContent(p.path, m["content"], "text", "refusal")
			}
			if calls {
				asked = p.path
				c.chatCalls(p.path+".tool_calls", m["tool_calls"], seen, open)
			}
		case "tool":
			c.chatContent(p.path, m["content"], "text")
			if id, ok := c.text(p.path, m, "tool_call_id"); ok && !open[id] {
				c.bad(p.path+".tool_call_id", "no call before this has the id %q, or it is answered already", cut(id))
			} else {
				delete(open, id)
			}
		}
		if role != "tool" && m["tool_call_id"] != nil {
			c.bad(p.path+".tool_call_id", "only a tool message has it")
		}
		if role != "assistant" && m["tool_calls"] != nil {
			c.bad(p.path+".tool_calls", "only an assistant message has them")
		}
	}
	settle()
}

func (c *checker) chatCalls(path string, value any, seen, open map[string]bool) {
	calls := c.elements(place{path, value})
	if calls != nil && len(calls) == 0 {
		c.bad(path, "an empty list: leave it out")
	}
	for _, p := range calls {
		call := c.object(p, "id", "type", "function")
		if call == nil {
			continue
		}
		c.oneOf(p.path, call, "type", "function")
		if id, ok := c.text(p.path, call, "id"); ok {
			switch {
			case id == "" || len(id) > 40:
				c.bad(p.path+".id", "%d characters: 1 to 40 are allowed", len(id))
			case seen[id]:
				c.bad(p.path+".id", "%q was used before", cut(id))
			}
			seen[id], open[id] = true, true
		}
		if f := c.object(place{p.path + ".function", call["function"]}, "name", "arguments"); f != nil {
			c.chatFunction(p.path+".function", f)
		}
	}
}

// chatFunction checks the name and arguments of a call in any of OpenAI's formats.
func (c *checker) chatFunction(path string, f map[string]any) {
	if name, ok := c.text(path, f, "name"); ok {
		c.named(path+".name", name, 64)
	}
	if arguments, ok := c.text(path, f, "arguments"); ok {
		var object map[string]any
		if json.Unmarshal([]byte(arguments), &object) != nil || object == nil {
			c.some(path+".arguments", "no JSON object")
		}
	}
}

func (c *checker) chatContent(path string, value any, kinds ...string) {
	path += ".content"
	if s, ok := value.(string); ok {
		if s == "" {
			c.some(path, "empty")
		}
		return
	}
	parts := c.elements(place{path, value})
	if parts != nil && len(parts) == 0 {
		c.bad(path, "an empty list")
	}
	for _, p := range parts {
		part := c.object(p)
		if part == nil {
			continue
		}
		switch c.oneOf(p.path, part, "type", kinds...) {
		case "text":
			c.unknown(p.path, part, []string{"type", "text", "prompt_cache_breakpoint"})
			if s, ok := c.text(p.path, part, "text"); ok && s == "" {
				c.bad(p.path+".text", "empty")
			}
		case "image_url":
			c.unknown(p.path, part, []string{"type", "image_url", "prompt_cache_breakpoint"})
			if image := c.object(place{p.path + ".image_url", part["image_url"]}, "url", "detail"); image != nil {
				if image["detail"] != nil {
					c.oneOf(p.path+".image_url", image, "detail", "auto", "low", "high", "original")
				}
				if url, ok := c.text(p.path+".image_url", image, "url"); ok {
					c.imageURL(p.path+".image_url.url", url, takesOpenAI())
				}
			}
		}
	}
}
