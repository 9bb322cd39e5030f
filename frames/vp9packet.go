package frames

import (
	"errors"

	"sightline/frames/internal/vp9hdr"
)

var errVP9Descriptor = errors.New("vp9 payload: descriptor is cut short, or nothing follows it")

// vp9Depacketizer takes payloads of RFC 9628 §4.2 apart. pion/rtp's VP9Packet is not used: what one packet says stays in it for the next.
type vp9Depacketizer struct{ stateless }

// bytesReader takes bytes off a slice; after the end ok is false.
type bytesReader struct {
	b  []byte
	ok bool
}

func (r *bytesReader) next() (v byte) {
	if len(r.b) == 0 {
		r.ok = false
		return 0
	}
	v, r.b = r.b[0], r.b[1:]
	return v
}

// parse never looks past the payload's end. Packets of upper spatial layers are dropped: their base is a picture without them.
func (vp9Depacketizer) parse(payload []byte) (packet, error) {
	r := &bytesReader{payload, true}
	first := r.next()
	const (
		bitI, bitP, bitL, bitF, bitB, bitV = 0x80, 0x40, 0x20, 0x10, 0x08, 0x02
	)
	var p packet
	if first&bitI != 0 {
		v := r.next()
		p.hasPictureID, p.pictureID, p.pictureMask = true, uint16(v&0x7f), 0x7f
		if v&0x80 != 0 {
			p.pictureID, p.pictureMask = p.pictureID<<8|uint16(r.next()), 0x7fff
		}
	}
	spatial := byte(0)
	if first&bitL != 0 {
		v := r.next()
		spatial = v >> 1 & 7
		p.temporal.known, p.temporal.id, p.temporal.sync = true, v>>5, v&0x10 != 0
		if first&bitF == 0 {
			r.next() // TL0PICIDX
		}
	}
	if first&bitF != 0 && first&bitP != 0 {
		for n := 0; r.next()&1 != 0; n++ { // P_DIFF, N
			if n == 2 {
				return packet{}, errVP9Descriptor
			}
		}
	}
	if first&bitV != 0 {
		r.structure()
	}
	if !r.ok || len(r.b) == 0 {
		return packet{}, errVP9Descriptor
	}
	if spatial > 0 {
		return packet{drop: true}, nil
	}
	p.start, p.data = first&bitB != 0, r.b
	if p.start && first&bitP == 0 { // not inter-predicted: a key frame, or an intra frame, which is none
		if h, err := vp9hdr.Parse(p.data); err == nil && h.Key {
			p.key, p.width, p.height = true, uint16(h.Width), uint16(h.Height)
		}
	}
	return p, nil
}

// structure passes over the scalability structure.
func (r *bytesReader) structure() {
	v := r.next()
	if v&0x10 != 0 { // sizes
		for range 4 * (int(v>>5) + 1) {
			r.next()
		}
	}
	if v&0x08 == 0 {
		return
	}
	for range r.next() { // pictures of the group
		for range r.next() >> 2 & 3 { // references
			r.next()
		}
	}
}

func (vp9Depacketizer) finish(frame []byte) ([]byte, head, error) {
	h, err := vp9hdr.Check(frame)
	return frame, head{h.Key, h.Width, h.Height, h.Refresh == 0}, err
}
