package gateway

import (
	"slices"
	"sync"
)

// pendingList is what a relayed agent has said and got no answer to, oldest first.
type pendingList struct {
	mu   sync.Mutex
	list []pendingMessage
}

type pendingMessage struct {
	opID, requestID string
	message         relayed
}

func (p *pendingList) add(m pendingMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.list = append(p.list, m); len(p.list) > relayPending {
		p.list = slices.Delete(p.list, 0, 1)
	}
}

func (p *pendingList) answered(opID, requestID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.list, func(m pendingMessage) bool {
		return opID != "" && m.opID == opID || requestID != "" && m.requestID == requestID
	})
	if i >= 0 {
		p.list = slices.Delete(p.list, i, i+1)
	}
}

func (p *pendingList) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list) == 0
}

func (p *pendingList) all() (messages []relayed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.list {
		messages = append(messages, m.message)
	}
	return messages
}
