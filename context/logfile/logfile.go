package logfile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	chatctx "sightline/context"
)

const (
	version   = 1
	readBatch = 256
	maxLine   = 16 << 20 // an image of 4 MiB in base64, and room
)

// Count is what a conversation has, or what was done with it.
type Count struct {
	Entries int // in the store afterwards
	Images  int
	New     int // of Entries: stored by this import
}

type line struct {
	Version int                    `json:"sightline_log,omitempty"`
	Key     string                 `json:"key,omitempty"`
	Session *chatctx.SessionRecord `json:"session,omitempty"`
	Image   *image                 `json:"image,omitempty"`
	Entry   *chatctx.Entry         `json:"entry,omitempty"`
	End     *end                   `json:"end,omitempty"`
}

type image struct {
	SHA256 string `json:"sha256"`
	MIME   string `json:"mime"`
	Data   []byte `json:"data"`
}

type end struct {
	Entries int    `json:"entries"`
	Images  int    `json:"images"`
	SHA256  string `json:"sha256"`
}

// walk gives every entry of a log in order, and every image once before the first entry that names it. It folds what it reads.
func walk(ctx context.Context, store chatctx.Store, key string, onImage func(sum string, b chatctx.Blob) error, onEntry func(*chatctx.Entry) error) (Count, error) {
	var n Count
	chat := chatctx.New()
	seen := map[string]bool{}
	for {
		entries, err := store.Read(ctx, key, uint64(n.Entries), readBatch)
		if err != nil {
			return n, fmt.Errorf("after entry %d: %w", n.Entries, err)
		}
		if len(entries) == 0 {
			return n, nil
		}
		for i := range entries {
			e := &entries[i]
			for _, sum := range imagesOf(e) {
				if seen[sum] {
					continue
				}
				b, err := store.GetBlob(ctx, key, sum)
				if err != nil {
					return n, fmt.Errorf("entry %d: image %s: %w", e.Seq, sum, err)
				}
				if got := sha256.Sum256(b.Data); hex.EncodeToString(got[:]) != sum {
					return n, fmt.Errorf("entry %d: image %s is not what was stored", e.Seq, sum)
				}
				if err := onImage(sum, b); err != nil {
					return n, err
				}
				seen[sum] = true
				n.Images++
			}
			if err := chat.Apply(*e); err != nil {
				return n, fmt.Errorf("entry %d: %w", e.Seq, err)
			}
			if err := onEntry(e); err != nil {
				return n, err
			}
			n.Entries++
		}
	}
}

// imagesOf names the stored images that an entry refers to.
func imagesOf(e *chatctx.Entry) []string {
	m, ok := e.Item.(*chatctx.Message)
	if !ok {
		return nil
	}
	var sums []string
	for _, img := range m.Content.Images() {
		if sum, ok := strings.CutPrefix(img.URL, chatctx.BlobPrefix); ok {
			sums = append(sums, sum)
		}
	}
	return sums
}

// Verify reads a whole log with its images and says where it is not sound: a hole, an entry or image that is not what was
// stored, an entry that cannot follow those before it.
func Verify(ctx context.Context, store chatctx.Store, key string) (Count, error) {
	return walk(ctx, store, key, func(string, chatctx.Blob) error { return nil }, func(*chatctx.Entry) error { return nil })
}

// Export writes a log; record may be nil.
func Export(ctx context.Context, w io.Writer, store chatctx.Store, key string, record *chatctx.SessionRecord) (Count, error) {
	sum := sha256.New()
	put := func(l line) error {
		b, err := json.Marshal(l)
		if err != nil {
			return err
		}
		b = append(b, '\n')
		sum.Write(b)
		_, err = w.Write(b)
		return err
	}
	if err := put(line{Version: version, Key: key, Session: record}); err != nil {
		return Count{}, err
	}
	n, err := walk(ctx, store, key,
		func(sum string, b chatctx.Blob) error { return put(line{Image: &image{sum, b.MIME, b.Data}}) },
		func(e *chatctx.Entry) error { return put(line{Entry: e}) })
	if err != nil {
		return n, err
	}
	return n, put(line{End: &end{n.Entries, n.Images, hex.EncodeToString(sum.Sum(nil))}})
}

// Import stores the conversations of a file and puts their records into the directory; done hears of each that is complete.
// What is there already is left as it is when it is the same, and is an error when it is not.
func Import(ctx context.Context, r io.Reader, store chatctx.Store, directory chatctx.Directory, done func(key string, n Count)) error {
	records := map[string]chatctx.SessionRecord{}
	list, err := directory.Sessions(ctx)
	if err != nil {
		return err
	}
	for _, record := range list {
		records[record.ID] = record
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	lines.Split(wholeLines)
	var now *importing
	for number := 1; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if l.Version != 0 {
			if now != nil {
				return fmt.Errorf("line %d: a conversation begins before the one of key %s has ended", number, now.key)
			}
			if now, err = begin(ctx, store, l); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
		if now == nil {
			return fmt.Errorf("line %d: no conversation has begun: the first line must have sightline_log", number)
		}
		ended, err := now.take(ctx, l, lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if ended {
			if err := now.register(ctx, directory, records); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
			done(now.key, now.n)
			now = nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if now != nil {
		return fmt.Errorf("the file is cut off: the conversation of key %s has no end", now.key)
	}
	return nil
}

// wholeLines keeps the line feed, which the checksum covers.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// importing is a conversation that is being read from a file.
type importing struct {
	store   chatctx.Store
	key     string
	session *chatctx.SessionRecord
	sum     hash.Hash
	n       Count
	there   []chatctx.Entry // read ahead from the store, to compare
	atEnd   bool            // of what the store had
}

func begin(ctx context.Context, store chatctx.Store, l line) (*importing, error) {
	if l.Version != version {
		return nil, fmt.Errorf("sightline_log is %d, this program reads %d", l.Version, version)
	}
	if !chatctx.ValidID(l.Key) {
		return nil, errors.New("key: allowed are 1 to 64 of A-Z, a-z, 0-9, _ and -")
	}
	if l.Session != nil && l.Session.Key != l.Key {
		return nil, errors.New("the session's record is of another key")
	}
	return &importing{store: store, key: l.Key, session: l.Session, sum: sha256.New()}, nil
}

func (im *importing) take(ctx context.Context, l line, raw []byte) (ended bool, err error) {
	switch {
	case l.End != nil:
		if want := (end{im.n.Entries, im.n.Images, hex.EncodeToString(im.sum.Sum(nil))}); *l.End != want {
			return false, fmt.Errorf("the conversation of key %s is not what was exported: entries %d of %d, images %d of %d, or a byte differs",
				im.key, im.n.Entries, l.End.Entries, im.n.Images, l.End.Images)
		}
		return true, nil
	case l.Image != nil:
		im.n.Images++
		err = im.store.PutBlob(ctx, im.key, l.Image.SHA256, chatctx.Blob{MIME: l.Image.MIME, Data: l.Image.Data})
	case l.Entry != nil:
		err = im.entry(ctx, l.Entry)
	case l.Version == 0:
		err = errors.New("no sightline_log, image, entry or end in it")
	}
	im.sum.Write(raw)
	return false, err
}

// entry compares with what the store has, or appends.
func (im *importing) entry(ctx context.Context, e *chatctx.Entry) error {
	if e.Seq != uint64(im.n.Entries+1) {
		return fmt.Errorf("entry %d follows entry %d", e.Seq, im.n.Entries)
	}
	if len(im.there) == 0 && !im.atEnd {
		there, err := im.store.Read(ctx, im.key, uint64(im.n.Entries), readBatch)
		if err != nil {
			return err
		}
		im.there, im.atEnd = there, len(there) == 0
	}
	if len(im.there) > 0 {
		if !same(e, &im.there[0]) {
			return fmt.Errorf("the store has another entry %d of key %s: two conversations of one key cannot be joined", e.Seq, im.key)
		}
		im.there = im.there[1:]
	} else {
		if err := im.store.Append(ctx, im.key, *e); err != nil {
			return fmt.Errorf("entry %d: %w", e.Seq, err)
		}
		im.n.New++
	}
	im.n.Entries++
	return nil
}

func same(a, b *chatctx.Entry) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// register puts the session's record into the directory; one that is there of the same log is newer and stays.
func (im *importing) register(ctx context.Context, directory chatctx.Directory, records map[string]chatctx.SessionRecord) error {
	if im.session == nil {
		return nil
	}
	old, there := records[im.session.ID]
	switch {
	case !there:
		records[im.session.ID] = *im.session
		return directory.PutSession(ctx, *im.session)
	case old.Key != im.key:
		return fmt.Errorf("the session %s is here already with another conversation (key %s)", old.ID, old.Key)
	}
	return nil
}
