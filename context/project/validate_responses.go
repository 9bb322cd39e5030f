package project

import "strconv"

// openAIResponses checks the input of a Responses request.
func (c *checker) openAIResponses(items []place) {
	calls, answered := map[string]string{}, map[string]bool{}
	for _, p := range items {
		item := c.object(p)
		if item == nil {
			continue
		}
		kind, _ := item["type"].(string)
		if kind == "" && item["role"] != nil {
			kind = "message"
		}
		switch kind {
		case "":
			c.bad(p.path+".type", "missing")
		case "message":
			c.responsesMessage(p.path, item)
			c.ownID(p.path, item, "msg")
		case "function_call":
			c.ownID(p.path, item, "fc")
			c.chatFunction(p.path, item)
			if id, ok := c.text(p.path, item, "call_id"); ok {
				if id == "" || len(id) > 64 {
					c.bad(p.path+".call_id", "%d characters: 1 to 64 are allowed", len(id))
				} else if calls[id] != "" {
					c.bad(p.path+".call_id", "%q was used before", cut(id))
				}
				calls[id] = p.path
			}
		case "function_call_output":
			if s, isText := item["output"].(string); !isText {
				c.elements(place{p.path + ".output", item["output"]})
			} else if s == "" {
				c.some(p.path+".output", "empty")
			}
			if id, ok := c.text(p.path, item, "call_id"); ok {
				if calls[id] == "" {
					c.bad(p.path+".call_id", "no call before this has the call_id %q", cut(id))
				} else if answered[id] {
					c.bad(p.path+".call_id", "%q is answered already", cut(id))
				}
				answered[id] = true
			}
		}
	}
	for _, id := range sortedKeys(calls) {
		if !answered[id] {
			c.bad(calls[id], "the call %q has no output", cut(id))
		}
	}
}

// ownID: the API knows its own ids by how they begin.
func (c *checker) ownID(path string, item map[string]any, prefix string) {
	id, ok := item["id"].(string)
	if !ok {
		return
	}
	if len(id) > 64 || len(id) < len(prefix) || id[:len(prefix)] != prefix {
		c.bad(path+".id", "%q: an id begins with %s and has at most 64 characters; leave it out for items of your own", cut(id), strconv.Quote(prefix))
	}
}

func (c *checker) responsesMessage(path string, item map[string]any) {
	c.unknown(path, item, []string{"type", "role", "content", "id", "status", "phase"})
	role := c.oneOf(path, item, "role", "user", "assistant", "system", "developer")
	if s, ok := item["content"].(string); ok {
		if s == "" {
			c.some(path+".content", "empty")
		}
		return
	}
	kinds := []string{"input_text", "input_image", "input_file"}
	if role == "assistant" {
		kinds = []string{"output_text", "refusal"}
	}
	parts := c.elements(place{path + ".content", item["content"]})
	if parts != nil && len(parts) == 0 {
		c.bad(path+".content", "an empty list")
	}
	for _, p := range parts {
		part := c.object(p)
		if part == nil {
			continue
		}
		switch c.oneOf(p.path, part, "type", kinds...) {
		case "input_text", "output_text":
			if s, ok := c.text(p.path, part, "text"); ok && s == "" {
				c.bad(p.path+".text", "empty")
			}
		case "input_image":
			if role != "user" {
				c.bad(p.path, "images are for user messages")
			}
			if part["detail"] != nil {
				c.oneOf(p.path, part, "detail", "auto", "low", "high", "original")
			}
			if part["file_id"] == nil {
				if url, ok := c.text(p.path, part, "image_url"); ok {
					c.imageURL(p.path+".image_url", url, takesOpenAI())
				}
			}
		}
	}
}
