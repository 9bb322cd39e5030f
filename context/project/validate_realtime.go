package project

// openAIRealtime checks realtime items, or the events that create them.
func (c *checker) openAIRealtime(items []place) {
	ids, calls, answered := map[string]bool{}, map[string]string{}, map[string]bool{}
	for _, p := range items {
		item := c.object(p)
		if item == nil {
			continue
		}
		if item["type"] == "conversation.item.create" {
			c.unknown(p.path, item, []string{"type", "event_id", "previous_item_id", "item"})
			if before, given := item["previous_item_id"].(string); given && before != "root" && !ids[before] {
				c.bad(p.path+".previous_item_id", "no item before this has the id %q", cut(before))
			}
			p = place{p.path + ".item", item["item"]}
			if item = c.object(p); item == nil {
				continue
			}
		}
		if id, given := item["id"].(string); given {
			if ids[id] {
				c.bad(p.path+".id", "%q was used before", cut(id))
			}
			ids[id] = true
			c.realtimeID(p.path+".id", id)
		}
		switch c.oneOf(p.path, item, "type", "message", "function_call", "function_call_output", "mcp_approval_response", "mcp_list_tools", "mcp_call", "mcp_approval_request") {
		case "message":
			c.unknown(p.path, item, []string{"type", "role", "content", "id", "object", "status"})
			c.realtimeMessage(p.path, item)
		case "function_call":
			c.unknown(p.path, item, []string{"type", "call_id", "name", "arguments", "id", "object", "status"})
			c.chatFunction(p.path, item)
			if id, ok := c.text(p.path, item, "call_id"); ok {
				if calls[id] != "" {
					c.bad(p.path+".call_id", "%q was used before", cut(id))
				}
				calls[id] = p.path
				c.realtimeID(p.path+".call_id", id)
			}
		case "function_call_output":
			c.unknown(p.path, item, []string{"type", "call_id", "output", "id", "object", "status"})
			c.text(p.path, item, "output")
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
			c.some(calls[id], "the call %q has no output: the model waits for it, or calls again", cut(id))
		}
	}
}

// realtimeID: longer ids were refused by servers of this dialect; other characters are refused by all.
func (c *checker) realtimeID(path, id string) {
	c.named(path, id, 64)
	if len(id) > 32 {
		c.some(path, "%d characters: more than 32 are not safe", len(id))
	}
}

func (c *checker) realtimeMessage(path string, item map[string]any) {
	kinds := map[string][]string{"user": {"input_text", "input_audio", "input_image"}, "assistant": {"output_text"}, "system": {"input_text"}}
	role := c.oneOf(path, item, "role", "user", "assistant", "system")
	parts := c.elements(place{path + ".content", item["content"]})
	if parts != nil && len(parts) == 0 {
		c.bad(path+".content", "an empty list")
	}
	if role == "" {
		return
	}
	for _, p := range parts {
		part := c.object(p, "type", "text", "audio", "transcript", "image_url", "detail")
		if part == nil {
			continue
		}
		switch c.oneOf(p.path, part, "type", kinds[role]...) {
		case "input_text", "output_text":
			if s, ok := c.text(p.path, part, "text"); ok && s == "" {
				c.bad(p.path+".text", "empty")
			}
		case "input_audio":
			c.text(p.path, part, "audio")
		case "input_image":
			if part["detail"] != nil {
				c.oneOf(p.path, part, "detail", "auto", "low", "high")
			}
			if url, ok := c.text(p.path, part, "image_url"); ok {
				// An event may have 15 MiB.
				c.imageURL(p.path+".image_url", url, takes{kinds: []string{"image/png", "image/jpeg"}, maxBase64: 15<<20 - 1024, totalBase64: 1 << 40})
			}
		}
	}
}
