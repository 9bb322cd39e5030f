package frames

import (
	"bytes"
	"errors"

	"sightline/frames/internal/av1hdr"
)

var (
	errAV1Payload = errors.New("av1 payload: lengths do not fit it")
	errAV1Frame   = errors.New("av1 frame: ends within a unit")
	errAV1Change  = errors.New("av1 frame: another sequence header, but no key frame")
)

// Bits of the aggregation header (AV1 RTP payload specification §4.4).
const (
	av1Z, av1Y, av1N = 0x80, 0x40, 0x08
)

// av1Depacketizer makes temporal units (low overhead format, every OBU with its size) of AV1 RTP payloads. pion/rtp's is not used: it tells no
// start but by Z, and fragments grow for ever.
type av1Depacketizer struct {
	sequence []byte // payload of the last key frame's sequence header

	// the frame in work
	open     []byte // an OBU of which more is to come
	isOpen   bool
	frames   int
	key      bool
	newest   []byte // payload of its sequence header; nil: none
	sizeW    int
	sizeH    int
	seqError error
}

// parse never looks past the payload's end.
func (d *av1Depacketizer) parse(payload []byte) (packet, error) {
	if len(payload) < 2 || payload[0]&(av1Z|av1N) == av1Z|av1N { // a new sequence does not begin with a continuation
		return packet{}, errAV1Payload
	}
	p := packet{start: payload[0]&av1Z == 0, loose: true, head: payload[0], data: payload[1:]}
	var first []byte // but for a delimiter, which senders should leave out
	whole := false
	if err := p.elements(func(b []byte, last bool) error {
		if first == nil || first[0]>>3&15 == av1hdr.TypeDelimiter {
			first, whole = b, !last || p.head&av1Y == 0
		}
		return nil
	}); err != nil {
		return packet{}, err
	}
	kind := first[0] >> 3 & 15
	p.key = p.start && (kind == av1hdr.TypeSequence || p.head&av1N != 0)
	if first[0]&4 != 0 && len(first) > 1 { // the OBU's extension
		p.temporal.known, p.temporal.id = true, first[1]>>5
	}
	p.maybe = p.start && kind != av1hdr.TypeFrame && kind != av1hdr.TypeHeader
	if p.start && kind == av1hdr.TypeSequence {
		if o, _, err := av1hdr.ParseOBU(first); err == nil && whole {
			if s, err := av1hdr.ParseSequence(o.Payload); err == nil {
				p.width, p.height = uint16(s.Width), uint16(s.Height)
			}
		}
	}
	return p, nil
}

// elements calls do for every OBU element, none of them empty.
func (p *packet) elements(do func(b []byte, last bool) error) error {
	rest, count := p.data, int(p.head>>4&3)
	for i := 1; len(rest) > 0; i++ {
		n := len(rest)
		if count == 0 || i < count {
			var err error
			if n, rest, err = av1hdr.Leb128(rest); err != nil || n > len(rest) {
				return errAV1Payload
			}
		}
		if n == 0 || count > 0 && i == count && n != len(rest) {
			return errAV1Payload
		}
		b := rest[:n:n]
		rest = rest[n:]
		if len(rest) == 0 && count > 0 && i != count {
			return errAV1Payload
		}
		if err := do(b, len(rest) == 0); err != nil {
			return err
		}
	}
	return nil
}

func (d *av1Depacketizer) keep(packet) {}

func (d *av1Depacketizer) begin() {
	d.open, d.isOpen = d.open[:0], false
	d.frames, d.key, d.newest, d.seqError = 0, false, nil, nil
	if cap(d.open) > spareBytes {
		d.open = nil
	}
}

func (d *av1Depacketizer) add(dst []byte, p packet) ([]byte, error) {
	n := 0
	err := p.elements(func(b []byte, last bool) (err error) {
		continued := n == 0 && p.head&av1Z != 0
		n++
		if continued != d.isOpen || len(dst)+len(d.open)+len(b) > frameBytes {
			return errAV1Payload
		}
		more := last && p.head&av1Y != 0
		if !continued && !more {
			dst, err = d.unit(dst, b, p.sid)
			return err
		}
		d.open = append(d.open, b...)
		if d.isOpen = more; !more {
			dst, err = d.unit(dst, d.open, p.sid)
			d.open = d.open[:0]
		}
		return err
	})
	return dst, err
}

// unit appends one whole OBU of layer sid; what no decoder needs is left out, and layers above.
func (d *av1Depacketizer) unit(dst, b []byte, sid uint8) ([]byte, error) {
	o, rest, err := av1hdr.ParseOBU(b)
	if err != nil || len(rest) > 0 {
		return dst, errAV1Payload
	}
	if o.Spatial > int(sid) {
		return dst, nil
	}
	switch o.Type {
	case av1hdr.TypeSequence:
		s, err := av1hdr.ParseSequence(o.Payload)
		if err != nil {
			d.seqError = err
		}
		d.newest, d.sizeW, d.sizeH = bytes.Clone(o.Payload), s.Width, s.Height
	case av1hdr.TypeFrame, av1hdr.TypeHeader:
		d.key = d.key || d.frames == 0 && d.newest != nil && av1hdr.ShownKey(o.Payload)
		d.frames++
	case av1hdr.TypeTiles, av1hdr.TypeRedundant:
	default:
		return dst, nil
	}
	return av1hdr.AppendOBU(dst, o), nil
}

func (d *av1Depacketizer) finish(frame []byte) ([]byte, head, error) {
	switch {
	case d.isOpen:
		return frame, head{}, errAV1Frame
	case d.seqError != nil:
		return frame, head{}, d.seqError
	case d.frames == 0:
		return frame, head{}, errNoFrame
	case d.key:
		d.sequence = d.newest
		return frame, head{key: true, width: d.sizeW, height: d.sizeH}, nil
	case d.newest != nil && !bytes.Equal(d.newest, d.sequence):
		return frame, head{}, errAV1Change
	}
	return frame, head{}, nil
}
