package chatctx

import (
	"crypto/sha256"
	"encoding/hex"
)

// itemBytes is the size of an item's texts; it stands for the size of its JSON without marshalling it.
func itemBytes(item Item) int {
	switch it := item.(type) {
	case *Message:
		n := len(it.ID) + len(it.AgentID) + len(it.TextGenerated)
		for _, p := range it.Content {
			switch part := p.(type) {
			case Text:
				n += len(part.Text) + len(`{"type":"text","text":""}`)
			case ImageContent:
				n += len(part.URL) + len(part.Source) + len(`{"type":"image","url":"","detail":"auto","width":1024,"height":1024}`)
			}
		}
		return n
	case *FunctionCall:
		return len(it.ID) + len(it.CallID) + len(it.Name) + len(it.Arguments) + len(it.AgentID)
	case *FunctionCallOutput:
		return len(it.ID) + len(it.CallID) + len(it.Name) + len(it.Output)
	case *AgentHandoff:
		return len(it.ID) + len(it.FromAgent) + len(it.ToAgent) + len(it.Reason) + len(it.Summary)
	case *ConfigUpdate:
		return len(it.ID) + len(it.Instructions) + len(it.Tools)
	case *Summary:
		return len(it.ID) + len(it.Text)
	case *PipelineSwitch:
		return len(it.ID) + len(it.From) + len(it.To) + len(it.Reason) + len(it.OpID)
	}
	return 0
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
