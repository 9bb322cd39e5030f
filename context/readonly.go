package chatctx

import "time"

// View is a ChatContext that can only be read. It is live: it shows what the ChatContext is now, and like it is not safe for use
// beside a change.
type View struct{ c *ChatContext }

// ReadOnly is a view of c for those who must not change it.
func (c *ChatContext) ReadOnly() View { return View{c} }

// Seq is as ChatContext has it.
func (v View) Seq() uint64 { return v.c.Seq() }

// Len is as ChatContext has it.
func (v View) Len() int { return v.c.Len() }

// Items is as ChatContext has it.
func (v View) Items() Items { return v.c.Items() }

// ItemsFrom is as ChatContext has it.
func (v View) ItemsFrom(from uint64) Items { return v.c.ItemsFrom(from) }

// Item is as ChatContext has it.
func (v View) Item(id string) (Item, bool) { return v.c.Item(id) }

// Messages is as ChatContext has it.
func (v View) Messages() []ChatMessage { return v.c.Messages() }

// Handoffs is as ChatContext has it.
func (v View) Handoffs() []AgentHandoff { return v.c.Handoffs() }

// LastHandoff is as ChatContext has it.
func (v View) LastHandoff() (AgentHandoff, bool) { return v.c.LastHandoff() }

// TurnCount is as ChatContext has it.
func (v View) TurnCount() int { return v.c.TurnCount() }

// EstimatedTokens is as ChatContext has it.
func (v View) EstimatedTokens() int { return v.c.EstimatedTokens() }

// ToContextMessages is as ChatContext has it.
func (v View) ToContextMessages() []ContextMessage { return v.c.ToContextMessages() }

// Snapshot is as ChatContext has it.
func (v View) Snapshot() Snapshot { return v.c.Snapshot() }

// Copy is as ChatContext has it.
func (v View) Copy(o CopyOptions) *ChatContext { return v.c.Copy(o) }

// Placed is as ChatContext has it.
func (v View) Placed(id string) (seq uint64, at time.Time, ok bool) { return v.c.Placed(id) }

// ToOpenAIMessages is as ChatContext has it.
func (v View) ToOpenAIMessages(reasoningModel bool) []OpenAIMessage {
	return v.c.ToOpenAIMessages(reasoningModel)
}
