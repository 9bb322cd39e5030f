package jetstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// heads is a file that says of each session how far it was acknowledged and when. It is written after the entry is on disk and
// not synced, so it may lag behind the store but is never ahead of it: a log that ends before its head has lost its end. The
// server inside does not notice that by itself (a flipped bit makes it cut a stream off, or skip a message).
type heads struct {
	writing sync.Mutex // held over writing the file, never by readers
	file    *os.File   // nil when closed; guarded by writing

	mu    sync.Mutex // guards what follows
	of    map[string]head
	free  []int // slots of forgotten sessions
	slots int
	err   error // the first write error; the entries themselves are safe
}

type head struct {
	n    uint64 // 0 when the session has images only
	at   int64  // Unix seconds of the last write
	slot int
}

// A slot: CRC-32C of the rest, length of the id, the id, n, at.
const (
	headSlot = 88
	headID   = 5
	headN    = headID + 64
	headAt   = headN + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// newHeads is one without a file: it knows what this process has seen acknowledged. With a cluster it is all there is, since the
// end of a log is then on other machines' disks and on more than one.
func newHeads() *heads { return &heads{of: map[string]head{}} }

// openHeads reads the file; bad is how many slots did not read, as after a power cut.
func openHeads(dir string) (h *heads, bad int, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "heads"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("the file of heads: %w", err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("the file of heads: %w", err), f.Close())
	}
	h = &heads{file: f, of: map[string]head{}, slots: (len(data) + headSlot - 1) / headSlot}
	for slot := range h.slots {
		b := data[slot*headSlot : min((slot+1)*headSlot, len(data))]
		id, e, ok := decodeHead(b)
		e.slot = slot
		switch old, double := h.of[id]; {
		case !ok:
			bad++
			h.free = append(h.free, slot)
		case id == "":
			h.free = append(h.free, slot)
		case double && old.n >= e.n:
			h.free = append(h.free, slot)
		default:
			h.of[id] = e
		}
	}
	return h, bad, nil
}

func decodeHead(b []byte) (id string, e head, ok bool) {
	if len(b) != headSlot || int(b[4]) > 64 {
		return "", head{}, false
	}
	if !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
		return "", head{}, true // never used
	}
	if binary.LittleEndian.Uint32(b) != crc32.Checksum(b[4:], castagnoli) {
		return "", head{}, false
	}
	return string(b[headID : headID+int(b[4])]), head{n: binary.LittleEndian.Uint64(b[headN:]), at: int64(binary.LittleEndian.Uint64(b[headAt:]))}, true
}

func encodeHead(id string, e head) []byte {
	b := make([]byte, headSlot)
	b[4] = byte(len(id))
	copy(b[headID:], id)
	binary.LittleEndian.PutUint64(b[headN:], e.n)
	binary.LittleEndian.PutUint64(b[headAt:], uint64(e.at))
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// acknowledged is how far the session must reach at least.
func (h *heads) acknowledged(session string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of[session].n
}

// raise remembers that entry n of a session (0: an image) is on disk.
func (h *heads) raise(session string, n uint64, at time.Time) {
	h.mu.Lock()
	e, known := h.of[session]
	if !known {
		if last := len(h.free) - 1; last >= 0 {
			e.slot, h.free = h.free[last], h.free[:last]
		} else {
			e.slot = h.slots
			h.slots++
		}
	}
	e.n, e.at = max(e.n, n), at.Unix()
	h.of[session] = e
	h.mu.Unlock()
	h.write(e.slot, session)
}

func (h *heads) forget(session string) {
	h.mu.Lock()
	e, known := h.of[session]
	delete(h.of, session)
	h.mu.Unlock()
	if known {
		h.write(e.slot, session)
		h.mu.Lock()
		h.free = append(h.free, e.slot)
		h.mu.Unlock()
	}
}

// write brings a session's slot up to what is known of it now, so that the order of two writes does not matter.
func (h *heads) write(slot int, session string) {
	h.writing.Lock()
	defer h.writing.Unlock()
	b := make([]byte, headSlot)
	h.mu.Lock()
	if e, known := h.of[session]; known && e.slot == slot {
		b = encodeHead(session, e)
	}
	h.mu.Unlock()
	if h.file == nil {
		return
	}
	if _, err := h.file.WriteAt(b, int64(slot)*headSlot); err != nil {
		h.mu.Lock()
		if h.err == nil {
			h.err = fmt.Errorf("the file of heads: %w", err)
		}
		h.mu.Unlock()
	}
}

// sessions is every session that has an entry or an image, sorted; idle only those without a write since then.
func (h *heads) sessions(before time.Time) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for id, e := range h.of {
		if before.IsZero() || e.at < before.Unix() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (h *heads) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.of)
}

func (h *heads) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func (h *heads) close() error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if h.file == nil {
		return nil
	}
	err := h.file.Close()
	h.file = nil
	return err
}
