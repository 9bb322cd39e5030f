package chatctx

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Default bounds of a LogConfig.
const (
	DefaultMaxItemBytes  = 256 << 10
	DefaultMaxImageBytes = 1 << 20
	maxOpIDBytes         = 128
	maxAuthorBytes       = 128
	readBatch            = 512 // a store on disk pays for each reading, not for each entry
)

// LogConfig is what a Log needs. Zero limits mean the defaults.
type LogConfig struct {
	Store         Store
	Session       string
	MaxItemBytes  int // of an item without its image bytes; default DefaultMaxItemBytes
	MaxImageBytes int // of one image; default DefaultMaxImageBytes
}

// Log is the writer of a session's conversation: it gives operations their seq, makes them durable and folds them.
// It is safe for concurrent use.
type Log struct {
	cfg LogConfig

	// turn has one place: who has put a token into it is appending, and the total order is the order of its holders. It is a
	// channel so that waiting for a slow store ends with the waiter's own context.
	turn chan struct{}

	// mu guards what follows and is never held over I/O. Only the holder of turn writes, so that the holder reads without mu.
	mu      sync.RWMutex
	chat    *ChatContext
	answers answers
	warned  map[string][]string // op_id → the warnings of the first answer, of the few that have some
	calls   map[string]callState

	head      atomic.Uint64           // chat.seq, for followers
	grown     atomic.Pointer[growing] // what waiting followers wait for; nil while nobody waits
	notifying atomic.Bool             // a notifier is under way

	stored sync.Map // SHA-256 → nothing, of images that the store is known to have

	closed chan struct{}
}

// callState is what the log has of one call_id (G4).
type callState struct{ called, answered bool }

// Origin says who sends an operation, when, and under which leg's epoch.
type Origin struct {
	Author string // at most 128 bytes of UTF-8
	Epoch  uint64
	At     time.Time
}

// OpenLog reads what the store has of the session and folds it.
func OpenLog(ctx context.Context, cfg LogConfig) (*Log, error) {
	if !ValidID(cfg.Session) {
		return nil, fail(InvalidArgument, "session", "session id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", cfg.Session)
	}
	if cfg.MaxItemBytes == 0 {
		cfg.MaxItemBytes = DefaultMaxItemBytes
	}
	if cfg.MaxImageBytes == 0 {
		cfg.MaxImageBytes = DefaultMaxImageBytes
	}
	l := &Log{
		cfg: cfg, turn: make(chan struct{}, 1), chat: New(), closed: make(chan struct{}),
		answers: newAnswers(), warned: map[string][]string{}, calls: map[string]callState{},
	}
	if err := l.catchUp(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// catchUp folds what the store has after the head. The caller holds turn, or is alone.
func (l *Log) catchUp(ctx context.Context) error {
	for {
		entries, err := l.cfg.Store.Read(ctx, l.cfg.Session, l.chat.seq, readBatch)
		if err != nil {
			return unavailable(err)
		}
		if len(entries) == 0 {
			return nil
		}
		for i := range entries {
			if err := l.commit(&entries[i], nil); err != nil {
				return err
			}
		}
	}
}

// Append validates op, makes it durable as the next entry and folds it. It returns the first answer again for a known op_id
// (G3), and an *Error that changes nothing when op is refused (G12). After EngineUnavailable it is not known whether the store
// has the entry: sending the same op again gives the answer, and never a second entry.
//
// Append takes op.Item and op.Changes over: the caller must not write to them, nor to what they refer to, any more.
func (l *Log) Append(ctx context.Context, from Origin, op Op) (Ack, error) {
	if len(from.Author) > maxAuthorBytes || !utf8.ValidString(from.Author) {
		return Ack{}, fail(InvalidArgument, "author", "an author is at most %d bytes of UTF-8", maxAuthorBytes)
	}
	if op.ID == "" || len(op.ID) > maxOpIDBytes || !utf8.ValidString(op.ID) {
		return Ack{}, fail(InvalidArgument, "op_id", "op_id is required: 1 to %d bytes of UTF-8, unique in the session", maxOpIDBytes)
	}
	ack, known, seen := l.known(op.ID)
	if known {
		return ack, nil
	}
	op, blobs, warnings, err := l.takeImages(op)
	if err != nil {
		return Ack{}, err
	}
	if len(blobs) > 0 { // nothing is stored for an operation that is refused
		if err := l.rehearse(ctx, from, op); err != nil {
			return Ack{}, err
		}
	}
	if err := l.storeImages(ctx, op, blobs); err != nil {
		return Ack{}, err
	}
	if err := l.takeTurn(ctx); err != nil {
		return Ack{}, err
	}
	defer l.endTurn()
	return l.write(ctx, from, op, warnings, seen)
}

func (l *Log) takeTurn(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unavailable(ctx.Err())
	}
}

func (l *Log) endTurn() { <-l.turn }

// rehearse says whether op would be refused now.
func (l *Log) rehearse(ctx context.Context, from Origin, op Op) error {
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.endTurn()
	if _, known := l.answer(op.ID); known {
		return nil
	}
	_, err := l.plan(from, op)
	return err
}

// maxStale is how often an append starts again because the store has entries that this Log has not seen: from an append whose
// answer was lost, or from another writer.
const maxStale = 8

// write plans, stores and commits. The caller holds turn; up to the entry seen it knows that op's id is new.
func (l *Log) write(ctx context.Context, from Origin, op Op, warnings []string, seen uint64) (Ack, error) {
	for range maxStale {
		if l.chat.seq != seen {
			if ack, known := l.answer(op.ID); known {
				return ack, nil
			}
		}
		entry, err := l.plan(from, op)
		if err != nil {
			return Ack{}, err
		}
		err = l.cfg.Store.Append(ctx, l.cfg.Session, entry)
		if err == nil {
			if err := l.commit(&entry, warnings); err != nil {
				return Ack{}, err
			}
			return Ack{Seq: entry.Seq, ItemID: l.answers.at(entry.Seq).itemID, Warnings: warnings}, nil
		}
		if !errors.Is(err, ErrStaleHead) {
			return Ack{}, unavailable(err)
		}
		if err := l.catchUp(ctx); err != nil {
			return Ack{}, err
		}
	}
	return Ack{}, unavailable(ErrStaleHead)
}

// known gives the first answer to a known op_id, and the head up to which an unknown one is new.
func (l *Log) known(opID string) (ack Ack, known bool, seen uint64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	ack, known = l.answer(opID)
	return ack, known, l.chat.seq
}

// answer gives the first answer to an op_id again.
func (l *Log) answer(opID string) (Ack, bool) {
	seq, ok := l.answers.find(opID)
	if !ok {
		return Ack{}, false
	}
	return Ack{Seq: seq, ItemID: l.answers.at(seq).itemID, Duplicate: true, Warnings: l.warned[opID]}, true
}

// commit folds an entry that the store has and wakes the followers.
func (l *Log) commit(e *Entry, warnings []string) error {
	if err := l.fold(e, warnings); err != nil {
		return err
	}
	l.head.Store(e.Seq)
	if l.grown.Load() != nil && l.notifying.CompareAndSwap(false, true) {
		go l.notify()
	}
	return nil
}

// fold applies an entry and remembers its ids.
func (l *Log) fold(e *Entry, warnings []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var gone []uint64 // seq of the appends of what goes
	for id := range e.removals() {
		if i, ok := l.chat.find(id); ok {
			gone = append(gone, l.chat.nodes[i].added)
		}
	}
	if err := l.chat.apply(e); err != nil {
		return err
	}
	if len(warnings) > 0 {
		l.warned[e.OpID] = warnings
	}
	itemID := e.ItemID
	if e.Op == OpAppend {
		itemID = e.Item.ItemID()
		switch it := e.Item.(type) {
		case *FunctionCall:
			l.calls[it.CallID] = callState{called: true, answered: l.calls[it.CallID].answered}
		case *FunctionCallOutput:
			l.calls[it.CallID] = callState{called: l.calls[it.CallID].called, answered: true}
		}
	}
	l.answers.add(e.OpID, itemID)
	for _, seq := range gone {
		l.answers.remove(seq)
	}
	return nil
}

// Head is the seq of the newest entry, 0 when there is none.
func (l *Log) Head() uint64 { return l.head.Load() }

// Chat is a copy of the conversation as it is now. Its index is made outside of the lock, so that appends hardly wait.
func (l *Log) Chat() *ChatContext {
	l.mu.RLock()
	c := &ChatContext{seq: l.chat.seq, last: l.chat.last, nodes: slices.Clone(l.chat.nodes)}
	l.mu.RUnlock()
	return c.indexed()
}

// Snapshot is the state now; it is cheaper than Chat.
func (l *Log) Snapshot() Snapshot {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.chat.Snapshot()
}

// Close ends the log: later appends are refused and cursors at the head return ErrClosed. It waits for the append under way,
// which is answered first. The store stays open.
func (l *Log) Close() {
	l.turn <- struct{}{}
	defer l.endTurn()
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
}

func unavailable(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: EngineUnavailable, Detail: "the conversation's store did not answer; what was sent may not be recorded: send it again with the same op_id", Cause: err}
}
