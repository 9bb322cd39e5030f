package load

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	chatctx "sightline/context"

	"sightline/gateway/wire"
)

// logBook is what one agent was sent of a session's log.
type logBook struct {
	mu      sync.Mutex
	logID   string
	base    uint64 // the log begins after it: 0, or where a snapshot stood for what was before
	entries []entryMark
	broken  string // what was wrong with the order, empty while nothing was
}

// entryMark is one entry: sum is over all that it says.
type entryMark struct {
	seq    uint64
	sum    [sha256.Size]byte
	opID   string
	commit uint64 // the epoch, where the entry commits a switch; else 0
}

// welcome notes where the log begins; after a reconnect it goes on.
func (b *logBook) welcome(w wire.Welcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.logID != "" && b.logID != w.LogID && b.broken == "" {
		b.broken = "the session has begun a new log"
	}
	b.logID = w.LogID
	if w.Snapshot != nil {
		b.base, b.entries = w.Snapshot.Seq, nil
	}
}

func (b *logBook) entry(e chatctx.Entry) {
	mark := entryMark{seq: e.Seq, opID: e.OpID}
	text, err := json.Marshal(e)
	mark.sum = sha256.Sum256(text)
	if s, ok := e.Item.(*chatctx.PipelineSwitch); ok && s.State == "committed" {
		mark.commit = s.Epoch
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if want := b.headLocked() + 1; e.Seq != want && b.broken == "" {
		b.broken = fmt.Sprintf("entry %d came where %d was due", e.Seq, want)
	}
	if err != nil && b.broken == "" {
		b.broken = "an entry cannot be written as JSON: " + err.Error()
	}
	b.entries = append(b.entries, mark)
}

// clone is a copy of this moment.
func (b *logBook) clone() *logBook {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &logBook{logID: b.logID, base: b.base, entries: slices.Clone(b.entries), broken: b.broken}
}

// head is the newest entry.
func (b *logBook) head() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.headLocked()
}

func (b *logBook) headLocked() uint64 {
	if n := len(b.entries); n > 0 {
		return b.entries[n-1].seq
	}
	return b.base
}

// digest is one hash over all entries in order.
func (b *logBook) digest() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := sha256.New()
	for _, e := range b.entries {
		all.Write(e.sum[:])
	}
	return hex.EncodeToString(all.Sum(nil))[:16]
}

// compare tells what is not the same in the logs of one session's agents, each in a sentence. All have come to their end.
func compare(books map[string]*logBook) (differences []string) {
	names := slices.Sorted(maps.Keys(books))
	if len(names) == 0 {
		return nil
	}
	first := books[names[0]]
	for _, name := range names {
		b := books[name]
		if b.broken != "" {
			differences = append(differences, fmt.Sprintf("agent %s: %s", name, b.broken))
		}
		if b == first {
			continue
		}
		if b.logID != first.logID {
			differences = append(differences, fmt.Sprintf("agents %s and %s follow different logs", names[0], name))
			continue
		}
		if at := firstDifference(first, b); at != 0 {
			differences = append(differences, fmt.Sprintf("agents %s and %s were sent different entries %d", names[0], name, at))
		}
	}
	return differences
}

// firstDifference is the seq of the first entry that is not the same in both, as far as both reach back; 0 for none.
func firstDifference(a, b *logBook) uint64 {
	from := max(a.base, b.base) + 1
	ea, eb := since(a.entries, from), since(b.entries, from)
	for i := range max(len(ea), len(eb)) {
		if i >= len(ea) || i >= len(eb) || ea[i].seq != eb[i].seq || ea[i].sum != eb[i].sum {
			return from + uint64(i)
		}
	}
	return 0
}

func since(entries []entryMark, seq uint64) []entryMark {
	i := slices.IndexFunc(entries, func(e entryMark) bool { return e.seq >= seq })
	if i < 0 {
		return nil
	}
	return entries[i:]
}

// missing tells which acknowledged operations and told commits are not, or not once, in the log.
func (b *logBook) missing(acked map[string]uint64, commits map[uint64]string) (missing []string) {
	at, epochs := map[string][]uint64{}, map[uint64]int{}
	for _, e := range b.entries {
		at[e.opID] = append(at[e.opID], e.seq)
		if e.commit > 0 {
			epochs[e.commit]++
		}
	}
	for _, opID := range slices.Sorted(maps.Keys(acked)) {
		if seq := acked[opID]; seq > b.base && !slices.Equal(at[opID], []uint64{seq}) {
			missing = append(missing, fmt.Sprintf("%s was acknowledged as entry %d and is in the log as %v", opID, seq, at[opID]))
		}
	}
	for _, epoch := range slices.Sorted(maps.Keys(commits)) {
		if epochs[epoch] != 1 {
			missing = append(missing, fmt.Sprintf("the switch to epoch %d (%s) was told and is %d times in the log", epoch, commits[epoch], epochs[epoch]))
		}
	}
	return missing
}
