package gateway

import (
	"fmt"
	"testing"
)

// TestG12PendingIsBounded: by number and by bytes, the oldest go; what is answered goes, by either id.
func TestG12PendingIsBounded(t *testing.T) {
	var p pendingList
	message := func(op, request string, size int) pendingMessage {
		return pendingMessage{op, request, relayed{1, make([]byte, size)}}
	}
	for i := range relayPending + 10 {
		p.add(message(fmt.Sprint("op-", i), "", 1))
	}
	if len(p.all()) != relayPending || p.has("op-9") || !p.has("op-10") {
		t.Errorf("%d are kept", len(p.all()))
	}
	p.answered("op-10", "")
	p.add(message("", "r", 1))
	p.answered("", "r")
	p.answered("op-10", "nobody")
	if len(p.all()) != relayPending-1 || p.has("op-10") || p.has("") {
		t.Errorf("%d are kept after answers", len(p.all()))
	}
	for range 3 {
		p.add(message("big", "", relayPendingBytes/2))
	}
	if n := len(p.all()); n != 2 || p.bytes != relayPendingBytes {
		t.Errorf("%d are kept, %d bytes", n, p.bytes)
	}
	p.answered("big", "")
	p.answered("big", "")
	if !p.empty() || p.bytes != 0 {
		t.Errorf("%d bytes of nothing", p.bytes)
	}
}
