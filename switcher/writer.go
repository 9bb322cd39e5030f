package switcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	chatctx "sightline/context"
)

// writer puts the switcher's own entries into the log, in order. While the store does not answer it tries again: the same op_id
// is never applied twice.
type writer struct {
	log     *chatctx.Log
	trouble func(error)
	wake    chan struct{} // capacity 1

	mu    sync.Mutex
	queue []write
	shut  bool

	void map[string]bool // by op_id: the started entry was refused; for run
}

// write is one go: then is told how its last operation came out.
type write struct {
	ops  []chatctx.Op
	from chatctx.Origin
	lax  bool   // a refused operation is left out
	op   string // op_id of the switch that it belongs to: nothing is written of one whose started entry was refused
	then func(chatctx.Ack, error)
}

func newWriter(l *chatctx.Log, trouble func(error)) *writer {
	return &writer{log: l, trouble: trouble, wake: make(chan struct{}, 1), void: map[string]bool{}}
}

func (w *writer) add(j write) {
	w.mu.Lock()
	w.queue = append(w.queue, j)
	w.mu.Unlock()
	w.poke()
}

func (w *writer) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// close makes run return when all is written.
func (w *writer) close() {
	w.mu.Lock()
	w.shut = true
	w.mu.Unlock()
	w.poke()
}

func (w *writer) next() (j write, ok, shut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return write{}, false, w.shut
	}
	j, w.queue = w.queue[0], w.queue[1:]
	return j, true, false
}

func (w *writer) run(ctx context.Context) {
	for {
		j, ok, shut := w.next()
		if shut {
			return
		}
		if !ok {
			select {
			case <-w.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if j.op != "" && w.void[j.op] {
			continue
		}
		ack, err := w.write(ctx, j)
		if j.then != nil {
			j.then(ack, err)
		}
	}
}

const (
	minWriteRetry = 20 * time.Millisecond
	maxWriteRetry = time.Second
)

func (w *writer) write(ctx context.Context, j write) (ack chatctx.Ack, err error) {
	for _, op := range j.ops {
		if ack, err = w.append(ctx, j.from, op); err != nil && !j.lax {
			return ack, err
		}
	}
	return ack, err
}

func (w *writer) append(ctx context.Context, from chatctx.Origin, op chatctx.Op) (chatctx.Ack, error) {
	for wait := minWriteRetry; ; wait = min(2*wait, maxWriteRetry) {
		from.At = time.Now()
		ack, err := w.log.Append(ctx, from, op)
		if !unavailable(err) || errors.Is(err, chatctx.ErrClosed) || ctx.Err() != nil {
			return ack, err
		}
		w.trouble(err)
		if err := sleep(ctx, wait); err != nil {
			return ack, err
		}
	}
}

func unavailable(err error) bool {
	var e *chatctx.Error
	return errors.As(err, &e) && e.Kind == chatctx.EngineUnavailable
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The switcher's own entries.

func (w *writer) started(a aWriteStarted, then func(seq uint64, dup bool, err error)) {
	item := a.item
	w.add(write{
		ops: []chatctx.Op{{ID: item.OpID, Kind: chatctx.OpAppend, Item: &item}}, from: chatctx.Origin{Author: a.author, Epoch: a.epoch},
		then: func(ack chatctx.Ack, err error) {
			dup := ack.Duplicate && ack.ItemID != item.ID
			if dup || err != nil {
				w.void[item.OpID] = true
			}
			then(ack.Seq, dup, err)
		},
	})
}

func (w *writer) commit(a aWriteCommit, then func(error)) {
	item := a.item
	if len(a.before) > 0 {
		j := write{from: chatctx.Origin{Author: a.author, Epoch: a.epoch}, lax: true}
		for _, it := range a.before {
			j.ops = append(j.ops, chatctx.Op{ID: opPrefix + it.ItemID(), Kind: chatctx.OpAppend, Item: it})
		}
		w.add(j)
	}
	w.add(write{
		ops: []chatctx.Op{{ID: fmt.Sprintf("%scommitted:%d", opPrefix, item.Epoch), Kind: chatctx.OpAppend, Item: &item}}, from: chatctx.Origin{Author: "system", Epoch: item.Epoch},
		then: func(_ chatctx.Ack, err error) { then(err) },
	})
}

// aborted takes back what a commit that did not come about had brought along, and says that it is aborted.
func (w *writer) aborted(a aWriteAborted) {
	item := a.item
	j := write{from: chatctx.Origin{Author: "system", Epoch: a.epoch}, lax: true, op: item.OpID}
	for _, id := range []string{fmt.Sprintf("handoff-%d", item.Epoch), fmt.Sprintf("config-%d", item.Epoch)} {
		if w.has(id) {
			j.ops = append(j.ops, chatctx.Op{ID: opPrefix + "undo:" + id, Kind: chatctx.OpRemove, ItemID: id})
		}
	}
	j.ops = append(j.ops, chatctx.Op{ID: fmt.Sprintf("%saborted:%d", opPrefix, item.Epoch), Kind: chatctx.OpAppend, Item: &item})
	w.add(j)
}

func (w *writer) has(id string) bool {
	for _, it := range w.log.Snapshot().Items {
		if it.ItemID() == id {
			return true
		}
	}
	return false
}
