// Package stilljpeg decodes and encodes still JPEGs with go-libjpeg behind guards: that library crashes, hangs or takes gigabytes on
// inputs which are all refused here first. It does not scale and does not turn pictures.
package stilljpeg

import (
	"errors"
	"fmt"
)

// Bounds of a still picture.
const (
	MaxSide        = 16384      // pixels a side
	MaxPixels      = 50_000_000 // pixels a picture
	MaxScans       = 64         // a progressive picture needs about ten; time is linear in them
	MaxMemoryBytes = 256 << 20  // planes and coefficients while decoding
)

// ErrTooLarge is what pictures are refused with (errors.Is) that are out of bounds.
var ErrTooLarge = errors.New("picture is too large")

type tooLarge string

func (e tooLarge) Error() string { return string(e) }

func (e tooLarge) Is(target error) bool { return target == ErrTooLarge }

// TooLarge is an error that is ErrTooLarge and says how.
func TooLarge(format string, args ...any) error { return tooLarge(fmt.Sprintf(format, args...)) }

// ErrNotJPEG is what bytes that do not start as a JPEG give.
var ErrNotJPEG = errors.New("jpeg: does not start with FF D8")

// Info is what the markers of a JPEG say.
type Info struct {
	Width, Height int // pixels, as stored: before Orientation
	Components    []Component
	Progressive   bool
	Arithmetic    bool
	Scans         int
	Buffered      bool // all coefficients are kept while decoding: progressive, or not all components in each scan
	Orientation   int  // EXIF, 1 to 8; 1 when there is none or it is not valid
	Adobe         bool // an Adobe APP14 segment is there
	Bytes         int  // from start to end marker; what follows is no part of the picture
}

// Component is one component's sampling factors, 1 to 4.
type Component struct{ H, V int }

// Parse walks the segments from start to end marker without decoding anything, and refuses what is cut short, out of bounds, of a process
// nobody here decodes, or read otherwise by libjpeg: what it sees is what was counted here.
func Parse(b []byte) (Info, error) {
	if len(b) == 0 {
		return Info{}, errors.New("jpeg: empty")
	}
	if len(b) < 2 || b[0] != 0xff || b[1] != 0xd8 {
		return Info{}, ErrNotJPEG
	}
	w := walker{b: b, pos: 2, info: Info{Orientation: 1}}
	for {
		more, err := w.segment()
		if err != nil {
			return Info{}, fmt.Errorf("jpeg: %w", err)
		}
		if !more {
			break
		}
	}
	if w.info.Scans == 0 {
		return Info{}, errors.New("jpeg: no picture in it")
	}
	return w.info, nil
}

type walker struct {
	b    []byte
	pos  int
	info Info
}

var errEarly = errors.New("data ends early: no end marker")

// segment reads one marker and what belongs to it; false after the end marker.
func (w *walker) segment() (more bool, err error) {
	if w.pos >= len(w.b) {
		return false, errEarly
	}
	if w.b[w.pos] != 0xff {
		return false, fmt.Errorf("byte %d: %#02x where a marker must be", w.pos, w.b[w.pos])
	}
	for w.pos < len(w.b) && w.b[w.pos] == 0xff { // fill bytes
		w.pos++
	}
	if w.pos >= len(w.b) {
		return false, errEarly
	}
	m := w.b[w.pos]
	w.pos++
	switch {
	case m == 0xd9:
		w.info.Bytes = w.pos
		return false, nil
	case m == 0x01 || m >= 0xd0 && m <= 0xd7: // no length
		return true, nil
	case m < 0xc0 || m == 0xc8 || m == 0xd8 || m == 0xde || m == 0xdf || m >= 0xf0 && m <= 0xfd:
		return false, fmt.Errorf("byte %d: marker FF %02X has no place here", w.pos-1, m) // libjpeg would look for the next one inside it
	}
	if w.pos+2 > len(w.b) {
		return false, errEarly
	}
	n := int(w.b[w.pos])<<8 | int(w.b[w.pos+1])
	if n < 2 {
		return false, fmt.Errorf("segment FF %02X: length %d, at least 2", m, n)
	}
	if w.pos+n > len(w.b) {
		return false, errEarly
	}
	body := w.b[w.pos+2 : w.pos+n]
	w.pos += n
	return true, w.body(m, body)
}

func (w *walker) body(m byte, body []byte) error {
	switch {
	case m == 0xe1:
		if o := orientation(body); o != 0 {
			w.info.Orientation = o
		}
	case m == 0xee:
		w.info.Adobe = w.info.Adobe || len(body) >= 5 && string(body[:5]) == "Adobe"
	case m == 0xda:
		if len(w.info.Components) == 0 {
			return errors.New("a scan before the frame header")
		}
		most := MaxScans
		if len(w.info.Components) == 4 { // the pure Go decoder takes several times as long for each; libjpeg writes 18
			most = MaxScans / 2
		}
		if w.info.Scans++; w.info.Scans > most {
			return TooLarge("more than %d scans are not allowed", most)
		}
		if len(body) < 1 || len(body) != 4+2*int(body[0]) {
			return fmt.Errorf("scan header of %d bytes: wrong length", len(body))
		}
		w.info.Buffered = w.info.Buffered || w.info.Scans > 1 || int(body[0]) < len(w.info.Components)
		w.skipScan()
	case m >= 0xc0 && m <= 0xcf && m != 0xc4 && m != 0xc8 && m != 0xcc:
		return w.frame(m, body)
	}
	return nil
}

// skipScan moves to the marker after the entropy-coded data, in which FF is followed by 00 or is a restart marker.
func (w *walker) skipScan() {
	for ; w.pos+1 < len(w.b); w.pos++ {
		if w.b[w.pos] == 0xff {
			if m := w.b[w.pos+1]; m != 0 && m != 0xff && (m < 0xd0 || m > 0xd7) {
				return
			}
		}
	}
	w.pos = len(w.b)
}

func (w *walker) frame(m byte, body []byte) error {
	switch m {
	case 0xc0, 0xc1, 0xc2, 0xc9, 0xca:
	default:
		return fmt.Errorf("process %d is not supported: baseline, extended, progressive and their arithmetic forms are", m-0xc0)
	}
	if len(w.info.Components) > 0 {
		return errors.New("two frame headers")
	}
	if len(body) < 6 || len(body) != 6+3*int(body[5]) {
		return fmt.Errorf("frame header of %d bytes: wrong length", len(body))
	}
	if body[0] != 8 {
		return fmt.Errorf("%d bits a sample: only 8 are supported", body[0])
	}
	i := &w.info
	i.Height, i.Width = int(body[1])<<8|int(body[2]), int(body[3])<<8|int(body[4])
	i.Progressive, i.Arithmetic = m == 0xc2 || m == 0xca, m >= 0xc9
	i.Buffered = i.Progressive
	if err := CheckSize(i.Width, i.Height); err != nil {
		return err
	}
	if n := body[5]; n != 1 && n != 3 && n != 4 {
		return fmt.Errorf("%d components: must be 1, 3 or 4", n)
	}
	for c := body[6:]; len(c) >= 3; c = c[3:] {
		h, v := int(c[1]>>4), int(c[1]&15)
		if h < 1 || h > 4 || v < 1 || v > 4 {
			return fmt.Errorf("sampling factor %d×%d: must be 1 to 4", h, v)
		}
		i.Components = append(i.Components, Component{h, v})
	}
	return nil
}

// CheckSize refuses sizes out of bounds, of any kind of still.
func CheckSize(w, h int) error {
	if w < 1 || h < 1 || w > MaxSide || h > MaxSide || w*h > MaxPixels {
		return TooLarge("picture of %d×%d: allowed are 1 to %d a side and %d pixels", w, h, MaxSide, MaxPixels)
	}
	return nil
}

// samples is how many samples all planes have together, in whole MCUs.
func (i *Info) samples() int {
	h, v, sum := 1, 1, 0
	for _, c := range i.Components {
		h, v, sum = max(h, c.H), max(v, c.V), sum+c.H*c.V
	}
	return (i.Width + 8*h - 1) / (8 * h) * ((i.Height + 8*v - 1) / (8 * v)) * 64 * sum
}

// Memory is how many bytes decoding takes at most, the picture included, when it is scaled to eighths of its size (1 to 8). What is kept of
// coefficients takes 2 bytes a sample in libjpeg and 4 in the pure Go decoder.
func (i *Info) Memory(eighths int) int64 {
	scaled := func(n int) int64 { return int64((n*eighths+7)/8 + 32) }
	pixels := scaled(i.Width) * scaled(i.Height)
	samples := int64(i.samples())
	need := pixels * 3 // RGB, or planes of which none is larger than the picture
	if i.planar() && len(i.Components) == 1 {
		need = pixels
	} else if i.planar() && eighths == 8 {
		need = min(need, samples+64*int64(i.Width+i.Height)+4096)
	}
	each := int64(2)
	if len(i.Components) == 4 { // its four planes and the picture
		need, each = samples+pixels*4, 4
	}
	if i.Buffered {
		need += each * samples
	}
	return need
}

// planar reports whether go-libjpeg gives this kind as planes: one component, or three of which chroma is sampled alike by 1 and luma by 1
// or 2. It makes RGB of every other kind of three components. Four go to the standard library.
func (i *Info) planar() bool {
	if len(i.Components) == 1 {
		return true
	}
	if len(i.Components) != 3 {
		return false
	}
	y, u, v := i.Components[0], i.Components[1], i.Components[2]
	return u == v && u.H == 1 && u.V == 1 && y.H <= 2 && y.V <= 2
}

// Scales reports whether the picture can be decoded to eighths of its size.
func (i *Info) Scales() bool { return len(i.Components) != 4 }

// orientation is the EXIF orientation in an APP1 segment, 1 to 8, or 0.
func orientation(b []byte) int {
	if len(b) < 14 || string(b[:6]) != "Exif\x00\x00" {
		return 0
	}
	b = b[6:]
	u16, u32 := be16, be32
	switch string(b[:4]) {
	case "MM\x00*":
	case "II*\x00":
		u16, u32 = le16, le32
	default:
		return 0
	}
	at := u32(b[4:])
	if at+2 > len(b) || at < 8 {
		return 0
	}
	for n, e := u16(b[at:]), b[at+2:]; n > 0 && len(e) >= 12; n, e = n-1, e[12:] {
		if u16(e) == 0x0112 && u16(e[2:]) == 3 && u32(e[4:]) == 1 {
			if o := u16(e[8:]); o >= 1 && o <= 8 {
				return o
			}
		}
	}
	return 0
}

func be16(b []byte) int { return int(b[0])<<8 | int(b[1]) }
func le16(b []byte) int { return int(b[1])<<8 | int(b[0]) }
func be32(b []byte) int { return be16(b)<<16 | be16(b[2:]) }
func le32(b []byte) int { return le16(b[2:])<<16 | le16(b) }
