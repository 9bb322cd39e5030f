package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Input is what is read: an *os.File, a *bytes.Reader or a *strings.Reader with its size.
type Input struct {
	io.ReaderAt
	Size int64 // bytes
}

// Bytes makes an Input of what is in memory.
func Bytes(data []byte) Input { return Input{bytes.NewReader(data), int64(len(data))} }

// input reads JSON values at known places.
type input struct {
	Input
	base int64 // bytes before the first value: a byte order mark
	max  int   // bytes of one element at most
}

// opened looks at the first bytes and refuses what is no text at all, saying what it is.
func open(in Input, maxElement int) (*input, error) {
	head := make([]byte, 8)
	n, err := in.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &Error{Detail: "the input cannot be read", Cause: err}
	}
	head = head[:n]
	for prefix, what := range map[string]string{
		"\x1f\x8b": "gzip: unpack it first", "PK\x03\x04": "a ZIP archive: unpack it first", "(\xb5/\xfd": "zstd: unpack it first",
		"\xff\xfe": "UTF-16: convert it to UTF-8 first", "\xfe\xff": "UTF-16: convert it to UTF-8 first",
		"SQLite f": "an SQLite database", "%PDF": "a PDF document",
	} {
		if bytes.HasPrefix(head, []byte(prefix)) {
			return nil, &Error{Place: Place{Line: 1, Column: 1}, Detail: "this is " + what}
		}
	}
	i := &input{Input: in, max: maxElement}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		i.base = 3
	}
	return i, nil
}

// first gives the first byte that is no white space, 0 for an empty input.
func (in *input) first() byte {
	buf := make([]byte, 4096)
	for off := in.base; ; {
		n, err := in.ReadAt(buf, off)
		if i := skipSpace(buf[:n], 0); i < n {
			return buf[i]
		}
		if err != nil || n == 0 {
			return 0
		}
		off += int64(n)
	}
}

// decoder reads from off on; its offsets count from off.
type decoder struct {
	*json.Decoder
	in   *input
	from int64
	lim  *limitedReader
}

// limitedReader refuses to feed a decoder more than max bytes for one value: a decoder holds a value whole.
type limitedReader struct {
	r    io.Reader
	left int
	max  int
}

var errTooLong = errors.New("too long")

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	n, err := l.r.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

func (in *input) decode(from int64) *decoder {
	lim := &limitedReader{r: io.NewSectionReader(in, from, in.Size-from), max: in.max, left: in.max}
	return &decoder{Decoder: json.NewDecoder(lim), in: in, from: from, lim: lim}
}

func (d *decoder) offset() int64 { return d.from + d.InputOffset() }

// token reads the next token; EOF inside a value is an error that says so.
func (d *decoder) token() (json.Token, error) {
	d.lim.left = d.lim.max
	t, err := d.Token()
	if err != nil {
		return nil, d.fault(err, "")
	}
	return t, nil
}

// value reads the next value whole. The bytes are the caller's.
func (d *decoder) value(path string) (node, error) {
	d.lim.left = d.lim.max
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return node{}, d.fault(err, path)
	}
	return node{raw: raw, off: d.offset() - int64(len(raw))}, nil
}

// fault gives a decoder's error its place.
func (d *decoder) fault(err error, path string) error {
	place := Place{Offset: d.offset(), Field: path}
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, errTooLong):
		return &Error{Place: place, Detail: fmt.Sprintf("a value of more than %d bytes: that is more than one element may have", d.in.max)}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &Error{Place: Place{Offset: d.in.Size, Field: path}, Detail: "the input ends in the middle of a value: it is cut off"}
	case errors.As(err, &syntax):
		place.Offset = d.offending(err, place.Offset)
		return &Error{Place: place, Detail: "no JSON here", Cause: err}
	}
	return &Error{Place: place, Detail: "the input cannot be read", Cause: err}
}

// offending finds the byte that a syntax error is about. A decoder that is used by tokens and by values does not count its bytes
// right, so the value is looked at once more.
func (d *decoder) offending(err error, off int64) int64 {
	off = d.in.skip(off, " \t\r\n")
	if strings.HasPrefix(err.Error(), "expected ") || strings.Contains(err.Error(), "looking for beginning of value") && d.in.byteAt(off) == '}' {
		return off
	}
	from := d.in.skip(off, " \t\r\n,:")
	raw := make([]byte, min(int64(d.in.max), d.in.Size-from))
	n, _ := d.in.ReadAt(raw, from)
	var value json.RawMessage
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal(raw[:n], &value), &syntax) && syntax.Offset > 0 {
		return from + syntax.Offset - 1 // the offset is behind the offending byte
	}
	return off
}

func (in *input) byteAt(off int64) byte {
	var b [1]byte
	_, _ = in.ReadAt(b[:], off)
	return b[0]
}

// skip gives the next position whose byte is none of those.
func (in *input) skip(off int64, bytes string) int64 {
	buf := make([]byte, 512)
	for {
		n, err := in.ReadAt(buf, off)
		for i := range n {
			if strings.IndexByte(bytes, buf[i]) < 0 {
				return off + int64(i)
			}
		}
		if off += int64(n); err != nil || n == 0 {
			return off
		}
	}
}

// at reads the value that stands at off whole.
func (in *input) at(off int64, path string) (node, error) { return in.decode(off).value(path) }

// lines gives each place its line and column, in one pass over the input up to the last of them.
func (in *input) lines(places []*Place) {
	slices.SortFunc(places, func(a, b *Place) int {
		switch {
		case a.Offset < b.Offset:
			return -1
		case a.Offset > b.Offset:
			return 1
		}
		return 0
	})
	buf := make([]byte, 64<<10)
	line, start, off := 1, in.base, int64(0)
	n := 0
	for _, p := range places {
		if p.Offset < 0 {
			continue
		}
		for {
			for i := 0; i < n && off+int64(i) < p.Offset; {
				k := bytes.IndexByte(buf[i:n], '\n')
				if k < 0 || off+int64(i+k) >= p.Offset {
					break
				}
				i += k + 1
				line, start = line+1, off+int64(i)
				buf, off, n, i = buf[i:], off+int64(i), n-i, 0
			}
			if p.Offset <= off+int64(n) || off+int64(n) >= in.Size {
				break
			}
			off += int64(n)
			buf = make([]byte, 64<<10)
			n, _ = in.ReadAt(buf, off)
			if n == 0 {
				break
			}
		}
		p.Line, p.Column = line, int(max(p.Offset-start, 0))+1
	}
}

// peek finds the value behind a key that was just read: where it begins and by which byte. The decoder stays where it is.
func (d *decoder) peek() (off int64, first byte) {
	off = d.in.skip(d.offset(), " \t\r\n:")
	return off, d.in.byteAt(off)
}

func delimOf(c rune) json.Delim { return json.Delim(c) }
