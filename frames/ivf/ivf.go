// Package ivf reads IVF files, the simplest container of VP8, VP9 and AV1 frames: what test clips and synthetic publishers come from.
// It does not write them and does not look into the frames.
package ivf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// MaxFrame bounds one frame, in bytes; a file that claims more is refused before anything is allocated.
const MaxFrame = 16 << 20

// Header is the file's 32-byte header.
type Header struct {
	FourCC        string // "VP80", "VP90", "AV01"
	Width, Height int    // pixels
	Rate, Scale   uint32 // a tick of PTS is Scale/Rate seconds
	Frames        uint32 // as the writer said; often wrong in cut files
}

// Time turns a frame's PTS into time since the start.
func (h Header) Time(pts uint64) time.Duration {
	return time.Duration(float64(pts) * float64(h.Scale) / float64(h.Rate) * float64(time.Second))
}

// Frame is one encoded frame.
type Frame struct {
	PTS  uint64 // ticks
	Data []byte
}

// Reader reads frames in order.
type Reader struct {
	Header Header
	r      io.Reader
	n      int
}

// NewReader reads the file header.
func NewReader(r io.Reader) (*Reader, error) {
	var b [32]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return nil, fmt.Errorf("ivf: file header of 32 bytes: %w", err)
	}
	if string(b[:4]) != "DKIF" {
		return nil, errors.New("ivf: file does not start with DKIF")
	}
	le := binary.LittleEndian
	if v, n := le.Uint16(b[4:]), le.Uint16(b[6:]); v != 0 || n != 32 {
		return nil, fmt.Errorf("ivf: version %d with a header of %d bytes: must be 0 and 32", v, n)
	}
	h := Header{
		FourCC: string(b[8:12]),
		Width:  int(le.Uint16(b[12:])), Height: int(le.Uint16(b[14:])),
		Rate: le.Uint32(b[16:]), Scale: le.Uint32(b[20:]), Frames: le.Uint32(b[24:]),
	}
	if h.Rate == 0 || h.Scale == 0 {
		return nil, fmt.Errorf("ivf: time base %d/%d: neither may be 0", h.Scale, h.Rate)
	}
	return &Reader{Header: h, r: r}, nil
}

// Next returns the next frame in memory of its own, io.EOF after the last, and io.ErrUnexpectedEOF (wrapped) in a file that is cut short.
func (r *Reader) Next() (Frame, error) {
	var b [12]byte
	if _, err := io.ReadFull(r.r, b[:]); err != nil {
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return Frame{}, io.EOF
		}
		return Frame{}, fmt.Errorf("ivf: header of frame %d: %w", r.n, err)
	}
	size := binary.LittleEndian.Uint32(b[:])
	if size > MaxFrame {
		return Frame{}, fmt.Errorf("ivf: frame %d claims %d bytes: at most %d are allowed", r.n, size, MaxFrame)
	}
	f := Frame{PTS: binary.LittleEndian.Uint64(b[4:]), Data: make([]byte, size)}
	if _, err := io.ReadFull(r.r, f.Data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, fmt.Errorf("ivf: frame %d: %w", r.n, err)
	}
	r.n++
	return f, nil
}

// ReadAll returns the header and every frame.
func ReadAll(r io.Reader) (Header, []Frame, error) {
	rd, err := NewReader(r)
	if err != nil {
		return Header{}, nil, err
	}
	var fs []Frame
	for {
		f, err := rd.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return rd.Header, fs, nil
		}
		if err != nil {
			return rd.Header, fs, err
		}
		fs = append(fs, f)
	}
}
