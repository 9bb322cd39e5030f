package jetstream

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// The server (2.15.2) takes a record's sequence from a block before it looks at the record's checksum, and fills the gap up to
// it in memory, one number after the other: one flipped high bit and it takes all memory there is. tameBlocks looks at the
// sequences first and puts one that is out of all reason right, as far as the one before tells it. The checksum then says
// whether that was all that was wrong; if not, the entry counts as damaged, as it should.
func tameBlocks(dir string, log *slog.Logger) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // nothing there yet
			return nil
		case err != nil:
			return err
		case d.IsDir() || !strings.HasSuffix(path, ".blk"):
			return nil
		}
		repaired, err := tameBlock(path)
		if repaired > 0 {
			log.Error("the store's files are damaged", "file", path, "impossible_sequences", repaired)
		}
		return err
	})
}

// Of a record in a block: its length (the highest bit says whether there are headers), its sequence (the two highest bits say
// that it was erased or is a tombstone), a time, the length of its subject.
const (
	recordHeader  = 22
	recordHasHdr  = 1 << 31
	recordFlags   = 3 << 62
	recordTomb    = 1 << 62
	longestRecord = 32 << 20
	// Gaps within a block come from deleted sessions; a block has 8 MiB at most.
	longestGap = 1 << 24
)

func tameBlock(path string) (repaired int, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReaderSize(f, 64<<10)
	var header [recordHeader]byte
	var at int64
	var first, last uint64
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return repaired, nil // the end, or what the server cuts off
		}
		length := int64(binary.LittleEndian.Uint32(header[:]) &^ recordHasHdr)
		if length < recordHeader || length > longestRecord {
			return repaired, nil // the server sees that itself
		}
		stored := binary.LittleEndian.Uint64(header[4:])
		seq := stored &^ recordFlags
		switch {
		case stored&recordTomb != 0:
		case first == 0:
			first, last = seq, seq
		case seq > last+longestGap:
			repaired++
			last++
			binary.LittleEndian.PutUint64(header[4:], last|stored&recordFlags)
			if _, err := f.WriteAt(header[4:12], at+4); err != nil {
				return repaired, fmt.Errorf("repairing %s: %w", path, err)
			}
		case seq > last:
			last = seq
		}
		at += length
		if rest := int(length) - recordHeader; rest <= r.Buffered() {
			_, _ = r.Discard(rest)
		} else {
			if _, err := f.Seek(at, io.SeekStart); err != nil {
				return repaired, err
			}
			r.Reset(f)
		}
	}
}
