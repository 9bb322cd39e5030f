package gateway

import (
	"slices"
	"sync"
)

// pendingList is what a relayed agent has said and got no answer to, oldest first.
type pendingList struct {
	mu    sync.Mutex
	list  []pendingMessage
	bytes int
}

type pendingMessage struct {
	opID, requestID string
	message         relayed
}

func (p *pendingList) add(m pendingMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list, p.bytes = append(p.list, m), p.bytes+len(m.message.data)
	for len(p.list) > relayPending || p.bytes > relayPendingBytes {
		p.dropLocked(0)
	}
}

func (p *pendingList) dropLocked(i int) {
	p.bytes -= len(p.list[i].message.data)
	p.list = slices.Delete(p.list, i, i+1)
}

func (p *pendingList) answered(opID, requestID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.list, func(m pendingMessage) bool {
		return opID != "" && m.opID == opID || requestID != "" && m.requestID == requestID
	})
	if i >= 0 {
		p.dropLocked(i)
	}
}

func (p *pendingList) has(opID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return opID != "" && slices.ContainsFunc(p.list, func(m pendingMessage) bool { return m.opID == opID })
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
