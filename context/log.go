package chatctx

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Default bounds of a LogConfig.
const (
	DefaultMaxItemBytes  = 256 << 10
	DefaultMaxImageBytes = 1 << 20
	maxOpIDBytes         = 128
	readBatch            = 128
)

// LogConfig is what a Log needs. Zero limits mean the defaults.
type LogConfig struct {
	Store         Store
	Session       string
	MaxItemBytes  int // of an item without its image bytes; default DefaultMaxItemBytes
	MaxImageBytes int // of one image; default DefaultMaxImageBytes
}

// Log is the one writer of a session's conversation: it gives operations their seq, makes them durable and folds them.
// It is safe for concurrent use.
type Log struct {
	cfg LogConfig

	appending sync.Mutex // held over a whole append: the total order is the order of its holders

	mu     sync.RWMutex // guards what follows; never held over I/O
	chat   *ChatContext
	acks   map[string]Ack      // op_id → first answer, for the session's life
	used   map[string]struct{} // item ids ever given, also those removed since
	calls  map[string]callState
	grown  chan struct{}       // closed and replaced at every append
	closed chan struct{}
}

// callState is what the log has of one call_id (G4).
type callState struct{ called, answered bool }

// Origin says who sends an operation, when, and under which leg's epoch.
type Origin struct {
	Author string
	Epoch  uint64
	At     time.Time
}

// OpenLog reads what the store has of the session and folds it.
func OpenLog(ctx context.Context, cfg LogConfig) (*Log, error) {
	if cfg.MaxItemBytes == 0 {
		cfg.MaxItemBytes = DefaultMaxItemBytes
	}
	if cfg.MaxImageBytes == 0 {
		cfg.MaxImageBytes = DefaultMaxImageBytes
	}
	l := &Log{
		cfg: cfg, chat: New(),
		acks: map[string]Ack{}, used: map[string]struct{}{}, calls: map[string]callState{},
		grown: make(chan struct{}), closed: make(chan struct{}),
	}
	for {
		entries, err := cfg.Store.Read(ctx, cfg.Session, l.chat.Seq(), readBatch)
		if err != nil {
			return nil, unavailable(err)
		}
		if len(entries) == 0 {
			return l, nil
		}
		for _, e := range entries {
			if err := l.fold(e); err != nil {
				return nil, err
			}
		}
	}
}

// fold applies an entry and remembers its ids. The caller holds mu, or is alone.
func (l *Log) fold(e Entry) error {
	if err := l.chat.Apply(e); err != nil {
		return err
	}
	l.acks[e.OpID] = ackOf(e)
	if e.Op != OpAppend {
		return nil
	}
	l.used[e.Item.ItemID()] = struct{}{}
	switch it := e.Item.(type) {
	case *FunctionCall:
		l.calls[it.CallID] = callState{called: true, answered: l.calls[it.CallID].answered}
	case *FunctionCallOutput:
		l.calls[it.CallID] = callState{called: l.calls[it.CallID].called, answered: true}
	}
	return nil
}

func ackOf(e Entry) Ack {
	ack := Ack{Seq: e.Seq, ItemID: e.ItemID}
	if e.Op == OpAppend {
		ack.ItemID = e.Item.ItemID()
	}
	return ack
}

// Append validates op, makes it durable as the next entry and folds it. It returns the first answer again for a known op_id
// (G3), and an *Error that changes nothing when op is refused (G12).
func (l *Log) Append(ctx context.Context, from Origin, op Op) (Ack, error) {
	if op.ID == "" || len(op.ID) > maxOpIDBytes {
		return Ack{}, fail(InvalidArgument, "op_id", "op_id is required: 1 to %d bytes, unique in the session", maxOpIDBytes)
	}
	if ack, known := l.known(op.ID); known {
		return ack, nil
	}
	warnings, err := l.prepareImages(ctx, &op)
	if err != nil {
		return Ack{}, err
	}
	l.appending.Lock()
	defer l.appending.Unlock()
	if ack, known := l.known(op.ID); known {
		return ack, nil
	}
	entry, err := l.plan(from, op)
	if err != nil {
		return Ack{}, err
	}
	if err := l.cfg.Store.Append(ctx, l.cfg.Session, entry); err != nil {
		return Ack{}, unavailable(err)
	}
	ack, err := l.commit(entry)
	ack.Warnings = warnings
	return ack, err
}

func (l *Log) known(opID string) (Ack, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	ack, ok := l.acks[opID]
	ack.Duplicate = ok
	return ack, ok
}

func (l *Log) commit(e Entry) (Ack, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.fold(e); err != nil {
		return Ack{}, err
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return l.acks[e.OpID], nil
}

// plan makes the entry that op would become, without changing anything.
func (l *Log) plan(from Origin, op Op) (Entry, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	select {
	case <-l.closed:
		return Entry{}, fail(EngineUnavailable, "", "the session's log is closed")
	default:
	}
	e := Entry{Seq: l.chat.Seq() + 1, OpID: op.ID, Author: from.Author, At: At(from.At), Epoch: from.Epoch, Op: op.Kind}
	var err error
	switch op.Kind {
	case OpAppend:
		e.Item, err = l.planAppend(op.Item)
	case OpUpdate:
		e.ItemID = op.ItemID
		e.Item, err = l.planUpdate(op)
	case OpRemove:
		e.ItemID = op.ItemID
		_, err = l.touch(op)
	case OpTruncate:
		e.Removed, err = planTruncate(l.chat.Items(), op.MaxItems, op.MaxTokens)
	default:
		err = fail(InvalidArgument, "op", "unknown operation %q: allowed are append, update, remove and truncate", op.Kind)
	}
	return e, err
}

func (l *Log) planAppend(item Item) (Item, error) {
	if item == nil {
		return nil, fail(InvalidArgument, "item", "an append needs an item")
	}
	if err := l.checkItem(item); err != nil {
		return nil, err
	}
	id := item.ItemID()
	if id == "" {
		item = item.withID(uuid.NewString())
	} else if !ValidID(id) {
		return nil, fail(InvalidArgument, "id", "id %q: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -", id)
	} else if _, taken := l.used[id]; taken {
		return nil, fail(DuplicateID, "id", "the item id %s is taken by another op_id: choose another or leave it out", id)
	}
	switch it := item.(type) {
	case *FunctionCall:
		if l.calls[it.CallID].called {
			return nil, fail(DuplicateID, "call_id", "the call %s is recorded already", it.CallID)
		}
	case *FunctionCallOutput:
		if l.calls[it.CallID].answered {
			return nil, fail(Conflict, "call_id", "the call %s has its output already", it.CallID)
		}
	}
	return item, nil
}

func (l *Log) planUpdate(op Op) (Item, error) {
	old, err := l.touch(op)
	if err != nil {
		return nil, err
	}
	item, err := op.Changes.apply(old)
	if err != nil {
		return nil, err
	}
	return item, l.checkItem(item)
}

// touch finds the item that op is about and checks its base_seq: conflicts are per item, so that two agents that change
// different items never get into each other's way.
func (l *Log) touch(op Op) (Item, error) {
	i, ok := l.chat.index[op.ItemID]
	if !ok {
		return nil, fail(NotFound, "item_id", "there is no item %q", op.ItemID)
	}
	n := l.chat.nodes[i]
	if op.BaseSeq > l.chat.seq {
		return nil, fail(InvalidArgument, "base_seq", "base_seq %d is past the head %d", op.BaseSeq, l.chat.seq)
	}
	if op.BaseSeq != 0 && n.modified > op.BaseSeq {
		return nil, fail(Conflict, "base_seq", "item %s was changed by entry %d, after base_seq %d: read it and try again", op.ItemID, n.modified, op.BaseSeq)
	}
	return n.item, nil
}

func (l *Log) checkItem(item Item) error {
	if err := item.validate(); err != nil {
		return err
	}
	if n := itemBytes(item); n > l.cfg.MaxItemBytes {
		return fail(TooLarge, "item", "the item has %d bytes without its image bytes: at most %d are allowed", n, l.cfg.MaxItemBytes)
	}
	return nil
}

// prepareImages stores the images of op's content and puts references in their place.
func (l *Log) prepareImages(ctx context.Context, op *Op) ([]string, error) {
	var blobs []pendingBlob
	var warnings []string
	var err error
	switch {
	case op.Kind == OpAppend && op.Item != nil:
		if err := op.Item.validate(); err != nil {
			return nil, err
		}
		op.Item, blobs, warnings, err = extractImages(op.Item, l.cfg.MaxImageBytes)
		if m, ok := op.Item.(*Message); ok && err == nil {
			err = l.checkReferences(ctx, m.Content, blobs)
		}
	case op.Kind == OpUpdate && op.Changes.Content != nil:
		var content Content
		content, blobs, warnings, err = extractContent(*op.Changes.Content, l.cfg.MaxImageBytes)
		op.Changes.Content = &content
		if err == nil {
			err = l.checkReferences(ctx, content, blobs)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, b := range blobs {
		if err := l.cfg.Store.PutBlob(ctx, l.cfg.Session, b.sha256, b.blob); err != nil {
			return nil, unavailable(err)
		}
	}
	return warnings, nil
}

// checkReferences refuses blob URLs that the session's store does not hold: a reader could never resolve them.
func (l *Log) checkReferences(ctx context.Context, content Content, pending []pendingBlob) error {
	for _, img := range content.Images() {
		sha, ok := strings.CutPrefix(img.URL, BlobPrefix)
		if !ok || slices.ContainsFunc(pending, func(b pendingBlob) bool { return b.sha256 == sha }) {
			continue
		}
		if _, err := l.cfg.Store.GetBlob(ctx, l.cfg.Session, sha); err != nil {
			if errors.Is(err, ErrNoBlob) {
				return fail(InvalidImage, "content.url", "this session has no image %s: send it as a data: URL", img.URL)
			}
			return unavailable(err)
		}
	}
	return nil
}

// PutImage stores image bytes and returns the URL that an ImageContent names them by.
func (l *Log) PutImage(ctx context.Context, data []byte) (url string, info ImageInfo, err error) {
	if len(data) > l.cfg.MaxImageBytes {
		return "", ImageInfo{}, tooLarge(len(data), l.cfg.MaxImageBytes)
	}
	info, err = InspectImage(data)
	if err != nil {
		return "", ImageInfo{}, err
	}
	sha := sha256Hex(data)
	if err := l.cfg.Store.PutBlob(ctx, l.cfg.Session, sha, Blob{MIME: info.MIME, Data: data}); err != nil {
		return "", ImageInfo{}, unavailable(err)
	}
	return BlobPrefix + sha, info, nil
}

// Blob finds image bytes by the SHA-256 in lower-case hex.
func (l *Log) Blob(ctx context.Context, sha256 string) (Blob, error) {
	b, err := l.cfg.Store.GetBlob(ctx, l.cfg.Session, sha256)
	if errors.Is(err, ErrNoBlob) {
		return Blob{}, fail(NotFound, "sha256", "this session has no image %s", sha256)
	}
	if err != nil {
		return Blob{}, unavailable(err)
	}
	return b, nil
}

// Head is the seq of the newest entry, 0 when there is none.
func (l *Log) Head() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.chat.Seq()
}

// Chat is a copy of the conversation as it is now.
func (l *Log) Chat() *ChatContext {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.chat.Clone()
}

// Snapshot is the state now; it is cheaper than Chat.
func (l *Log) Snapshot() Snapshot {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.chat.Snapshot()
}

// Close ends the log: later appends are refused and cursors at the head return ErrClosed. The store stays open.
func (l *Log) Close() {
	l.appending.Lock() // an append under way is answered first
	defer l.appending.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
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
	return &Error{Kind: EngineUnavailable, Detail: "the conversation's store did not answer; what was sent is not recorded: try again with the same op_id", Cause: err}
}
