package gateway

import (
	"encoding/json"
	"sync"
)

// Bounds of an outbox.
const (
	maxTold       = 1024 // messages that wait; beyond it the oldest that may be missed goes, then the oldest
	maxSoundAhead = 100  // pieces of 20 ms
)

// outbox is what an agent is told unasked and has not been sent: messages in order, and sound. Putting in never waits.
type outbox struct {
	mu     sync.Mutex
	told   []toldMessage
	sound  [][]byte // whole binary messages, oldest first
	counts *metrics // of what is dropped
}

// waiting is how many messages and pieces of sound have not been taken.
func (b *outbox) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.told) + len(b.sound)
}

// toldMessage is marshalled where it is made, once for all agents it goes to.
type toldMessage struct {
	data     []byte
	missable bool // partial transcripts, progress: the next one says it all
}

func textMessage(v any, missable bool) toldMessage {
	data, err := json.Marshal(v)
	if err != nil { // our own types: cannot fail but for a raw field that a check has let through
		data = []byte(`{"type":"error","code":"internal","message":"a message could not be written"}`)
	}
	return toldMessage{data: data, missable: missable}
}

// tell adds a message.
func (b *outbox) tell(m toldMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.told) >= maxTold {
		at := 0
		for i, old := range b.told {
			if old.missable {
				at = i
				break
			}
		}
		b.told = append(b.told[:at], b.told[at+1:]...)
		b.counts.lost.Inc()
	}
	b.told = append(b.told, m)
}

// hear adds a piece of sound; the oldest goes where too many wait.
func (b *outbox) hear(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.sound) >= maxSoundAhead {
		b.sound = append(b.sound[:0], b.sound[1:]...)
		b.counts.lostSound.Inc()
	}
	b.sound = append(b.sound, message)
}

// take empties the outbox.
func (b *outbox) take() (told []toldMessage, sound [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	told, sound = b.told, b.sound
	b.told, b.sound = nil, nil
	return told, sound
}
