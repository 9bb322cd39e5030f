package project

import (
	"strings"
	"unicode"
)

// blockList is a message of the Messages API: consecutive messages of one role count as one.
type blockList struct {
	role, path string
	blocks     []place
}

// anthropic checks the system prompt and the messages of a Messages request.
func (c *checker) anthropic(root any) {
	if object, ok := root.(map[string]any); ok {
		c.anthropicSystem(object["system"])
	}
	messages := c.list(root, "messages")
	if len(messages) > 100_000 {
		c.bad("messages", "%d messages: at most 100,000 are allowed", len(messages))
	}
	var turns []blockList
	images := 0
	for _, p := range messages {
		m := c.object(p, "role", "content")
		if m == nil {
			continue
		}
		role := c.oneOf(p.path, m, "role", "user", "assistant")
		var blocks []place
		if s, ok := m["content"].(string); ok {
			blocks = []place{{p.path + ".content", map[string]any{"type": "text", "text": s}}}
		} else if blocks = c.elements(place{p.path + ".content", m["content"]}); blocks != nil && len(blocks) == 0 {
			c.bad(p.path+".content", "an empty list")
		}
		for _, b := range blocks {
			images += countImages(b.value)
		}
		if n := len(turns); n > 0 && turns[n-1].role == role {
			turns[n-1].blocks = append(turns[n-1].blocks, blocks...)
			continue
		}
		turns = append(turns, blockList{role: role, path: p.path, blocks: blocks})
	}
	if images > 100 {
		c.bad("messages", "%d images: at most 100 are allowed", images)
	}
	allowed := takes{kinds: []string{"image/jpeg", "image/png", "image/gif", "image/webp"}, links: true, maxBase64: 5 << 20, totalBase64: 32 << 20, maxSide: 8000}
	if images > 20 {
		allowed.maxSide = 2000
	}
	seen := map[string]bool{}
	for i, t := range turns {
		var before, next blockList
		if i > 0 {
			before = turns[i-1]
		}
		if i+1 < len(turns) {
			next = turns[i+1]
		}
		if t.role == "user" {
			c.anthropicUser(t, before, allowed)
		} else {
			c.anthropicAssistant(t, next, seen)
		}
	}
	c.anthropicEnds(turns)
}

func (c *checker) anthropicSystem(system any) {
	switch s := system.(type) {
	case nil:
	case string:
		if strings.TrimSpace(s) == "" && s != "" {
			c.bad("system", "nothing but white space")
		}
	default:
		for _, p := range c.elements(place{"system", system}) {
			if block := c.object(p, "type", "text", "cache_control", "citations"); block != nil {
				c.oneOf(p.path, block, "type", "text")
				c.anthropicText(p.path, block)
			}
		}
	}
}

func (c *checker) anthropicEnds(turns []blockList) {
	if len(turns) == 0 {
		return
	}
	if turns[0].role != "user" {
		c.bad(turns[0].path+".role", "the first message has to be the user's")
	}
	last := turns[len(turns)-1]
	if last.role != "assistant" {
		return
	}
	c.some(last.path+".role", "the last message is the assistant's: many models do not take a prefill")
	if len(last.blocks) > 0 {
		b := last.blocks[len(last.blocks)-1]
		if block, ok := b.value.(map[string]any); ok {
			if s, _ := block["text"].(string); strings.TrimRightFunc(s, unicode.IsSpace) != s {
				c.bad(b.path, "the last assistant message ends in white space")
			}
		}
	}
}

func (c *checker) anthropicText(path string, block map[string]any) {
	if s, ok := c.text(path, block, "text"); ok && strings.TrimSpace(s) == "" {
		c.bad(path+".text", "empty, or nothing but white space")
	}
}

func (c *checker) anthropicUser(t, before blockList, allowed takes) {
	asked := blockIDs(before, "tool_use", "id")
	answered := map[string]bool{}
	results := true // tool_result blocks have to come first
	for _, p := range t.blocks {
		block := c.object(p)
		if block == nil {
			continue
		}
		switch kind := c.oneOf(p.path, block, "type", "text", "image", "tool_result", "document", "search_result", "container_upload"); kind {
		case "tool_result":
			c.unknown(p.path, block, []string{"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"})
			id, _ := c.text(p.path, block, "tool_use_id")
			switch {
			case !asked[id]:
				c.bad(p.path+".tool_use_id", "the message before has no tool_use of the id %q", cut(id))
			case answered[id]:
				c.bad(p.path+".tool_use_id", "%q is answered already", cut(id))
			case !results:
				c.bad(p.path, "tool_result blocks have to come first")
			}
			answered[id] = true
			c.toolResult(p, block, allowed)
			continue
		case "text":
			c.unknown(p.path, block, []string{"type", "text", "cache_control", "citations"})
			c.anthropicText(p.path, block)
		case "image":
			c.anthropicImage(p, block, allowed)
		}
		results = false
	}
	for _, id := range sortedKeys(asked) {
		if !answered[id] {
			c.bad(before.path, "the tool_use %q is not answered in the next message", cut(id))
		}
	}
}

func (c *checker) toolResult(p place, block map[string]any, allowed takes) {
	content := block["content"]
	if content == nil {
		return
	}
	if _, ok := content.(string); ok {
		return
	}
	for _, inner := range c.elements(place{p.path + ".content", content}) {
		b := c.object(inner)
		if b == nil {
			continue
		}
		switch c.oneOf(inner.path, b, "type", "text", "image", "document", "search_result", "tool_reference", "browser_state") {
		case "text":
			c.anthropicText(inner.path, b)
		case "image":
			c.anthropicImage(inner, b, allowed)
		}
	}
}

func (c *checker) anthropicImage(p place, block map[string]any, allowed takes) {
	c.unknown(p.path, block, []string{"type", "source", "cache_control", "transformations"})
	path := p.path + ".source"
	source := c.object(place{path, block["source"]})
	if source == nil {
		return
	}
	switch c.oneOf(path, source, "type", "base64", "url", "file") {
	case "base64":
		kind, _ := c.text(path, source, "media_type")
		if data, ok := c.text(path, source, "data"); ok {
			c.imageBytes(path, kind, data, allowed)
		}
	case "url":
		if url, ok := c.text(path, source, "url"); ok {
			c.imageURL(path+".url", url, takes{links: true})
		}
	}
}

func (c *checker) anthropicAssistant(t, next blockList, seen map[string]bool) {
	calls := false
	for _, p := range t.blocks {
		block := c.object(p)
		if block == nil {
			continue
		}
		switch c.oneOf(p.path, block, "type", "text", "tool_use", "thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result",
			"web_fetch_tool_result", "code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result",
			"tool_search_tool_result", "mcp_tool_use", "mcp_tool_result") {
		case "text":
			c.unknown(p.path, block, []string{"type", "text", "cache_control", "citations"})
			c.anthropicText(p.path, block)
			if calls {
				c.bad(p.path, "tool_use blocks have to come last")
			}
		case "tool_use":
			calls = true
			c.unknown(p.path, block, []string{"type", "id", "name", "input", "cache_control", "caller", "toolset_name"})
			id, _ := c.text(p.path, block, "id")
			c.named(p.path+".id", id, 256)
			if seen[id] {
				c.bad(p.path+".id", "%q was used before", cut(id))
			}
			seen[id] = true
			if name, ok := c.text(p.path, block, "name"); ok {
				c.named(p.path+".name", name, 128)
			}
			c.object(place{p.path + ".input", block["input"]})
		}
	}
	if calls && next.role != "user" {
		c.bad(t.path, "tool_use blocks are not answered: a user message with their tool_result blocks has to follow")
	}
}

// blockIDs are the ids under key of the blocks of a kind.
func blockIDs(t blockList, kind, key string) map[string]bool {
	ids := map[string]bool{}
	for _, p := range t.blocks {
		if block, ok := p.value.(map[string]any); ok && block["type"] == kind {
			if id, ok := block[key].(string); ok {
				ids[id] = true
			}
		}
	}
	return ids
}

// countImages counts the image blocks in a block, those in a tool_result too.
func countImages(block any) int {
	b, ok := block.(map[string]any)
	if !ok {
		return 0
	}
	if b["type"] == "image" {
		return 1
	}
	n := 0
	if inner, ok := b["content"].([]any); ok {
		for _, i := range inner {
			n += countImages(i)
		}
	}
	return n
}
