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

// ErrNotJPEG is what bytes that do not start as a JPEG give.
var ErrNotJPEG = errors.New("jpeg: does not start with FF D8")

// Info is what the markers of a JPEG say.
type Info struct {
	Width, Height int // pixels, as stored: before Orientation
	Components    []Component
	Progressive   bool
	Arithmetic    bool
	Scans         int
	Orientation   int  // EXIF, 1 to 8; 1 when there is none or it is not valid
	Adobe         bool // an Adobe APP14 segment is there
}

// Component is one component's sampling factors, 1 to 4.
type Component struct{ H, V int }

// Parse walks the segments from start to end marker without decoding anything, and refuses what is cut short, out of bounds or of a
// process nobody here decodes.
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
	return w.info, w.info.checkMemory()
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
		return false, nil
	case m == 0x01 || m >= 0xd0 && m <= 0xd7: // no length
		return true, nil
	case m == 0x00 || m == 0xd8:
		return false, fmt.Errorf("byte %d: marker FF %02X between segments", w.pos-1, m)
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
		if w.info.Scans++; w.info.Scans > MaxScans {
			return fmt.Errorf("more than %d scans", MaxScans)
		}
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
		return fmt.Errorf("picture of %d×%d: allowed are 1 to %d a side and %d pixels", w, h, MaxSide, MaxPixels)
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

// checkMemory refuses what needs more than MaxMemoryBytes: planes, and for pictures in several scans also coefficients, which
// libjpeg keeps in 2 bytes and the pure Go decoder in 4.
func (i *Info) checkMemory() error {
	need := i.samples()
	if i.Progressive || i.Scans > 1 {
		each := 2
		if !i.goLibjpegTakes() {
			each = 4
		}
		need += each * i.samples()
	}
	if len(i.Components) == 4 {
		need += 4 * i.Width * i.Height
	}
	if need > MaxMemoryBytes {
		return fmt.Errorf("jpeg: decoding needs %d MB, at most %d are allowed", need>>20, MaxMemoryBytes>>20)
	}
	return nil
}

// library reports whether go-libjpeg decodes this kind: one or three components, chroma sampled alike by 1 or 2. The rest goes to
// the standard library, which takes any sampling and four components, but no arithmetic coding.
func (i *Info) goLibjpegTakes() bool {
	if len(i.Components) == 1 {
		return true
	}
	if len(i.Components) != 3 {
		return false
	}
	y, u, v := i.Components[0], i.Components[1], i.Components[2]
	return u == v && u.H == 1 && u.V == 1 && y.H <= 2 && y.V <= 2
}

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
