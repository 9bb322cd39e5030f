package chatctx

import "context"

// Store keeps the logs and the image bytes of many sessions. A Store only stores: it never interprets entries. It is safe for
// concurrent use, also by several Logs of one session. storetest has the suite that each implementation passes.
type Store interface {
	// Append makes e durable as the entry after e.Seq-1. When the head is not e.Seq-1 it stores nothing and returns
	// ErrStaleHead. When it returns nil, the entry is there for good.
	Append(ctx context.Context, session string, e Entry) error
	// Read returns up to limit entries with seq > after, in order, without holes; none only at the head. It may return fewer
	// than limit, to bound the bytes it holds. The caller does not write to the slice.
	Read(ctx context.Context, session string, after uint64, limit int) ([]Entry, error)
	// Head is the last seq of a session, 0 when it has none.
	Head(ctx context.Context, session string) (uint64, error)
	// PutBlob keeps bytes under their SHA-256 (64 lower-case hex digits); putting the same again is no error.
	PutBlob(ctx context.Context, session, sha256 string, b Blob) error
	// GetBlob finds bytes by their SHA-256; ErrNoBlob when the session has none such.
	GetBlob(ctx context.Context, session, sha256 string) (Blob, error)
	// Delete forgets a session's entries and blobs; an unknown session is no error.
	Delete(ctx context.Context, session string) error
	// Close releases what the store holds; later calls return errors.
	Close() error
}

// Blob is the bytes of one image and their type.
type Blob struct {
	MIME string
	Data []byte // immutable
}

type storeError string

func (e storeError) Error() string { return string(e) }

// What a Store answers when it cannot do as asked, though nothing is broken.
const (
	ErrStaleHead storeError = "the log's head has moved on"
	ErrNoBlob    storeError = "no such blob"
	ErrClosed    storeError = "closed"
)
