package frames

import (
	"encoding/binary"
	"errors"

	"sightline/frames/internal/vp9hdr"
)

var (
	errVP9Descriptor = errors.New("vp9 payload: descriptor is cut short, or nothing follows it")
	errVP9Layers     = errors.New("vp9 picture: more than 8 layers, or one that is empty or several frames")
)

// vp9Depacketizer takes payloads of RFC 9628 §4.2 apart. pion/rtp's VP9Packet is not used: what one packet says stays in it for the next.
type vp9Depacketizer struct {
	// the frame in work
	starts [8]int // where each layer's frame of the picture starts
	layers int
}

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

// parse never looks past the payload's end.
func (vp9Depacketizer) parse(payload []byte) (packet, error) {
	r := &bytesReader{payload, true}
	first := r.next()
	const (
		bitI, bitP, bitL, bitF, bitB, bitE, bitV = 0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02
	)
	var p packet
	if first&bitI != 0 {
		v := r.next()
		p.hasPictureID, p.pictureID, p.pictureMask = true, uint16(v&0x7f), 0x7f
		if v&0x80 != 0 {
			p.pictureID, p.pictureMask = p.pictureID<<8|uint16(r.next()), 0x7fff
		}
	}
	if first&bitL != 0 {
		v := r.next()
		p.layered, p.sid = true, v>>1&7
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
		p.sizes = r.structure()
	}
	if !r.ok || len(r.b) == 0 {
		return packet{}, errVP9Descriptor
	}
	p.begins, p.end, p.data = first&bitB != 0, first&bitE != 0, r.b
	p.start = p.begins && p.sid == 0
	if p.start && first&bitP == 0 { // not inter-predicted: a key frame, or an intra frame, which is none
		if h, err := vp9hdr.Parse(p.data); err == nil && h.Key {
			p.key, p.width, p.height = true, uint16(h.Width), uint16(h.Height)
		}
	}
	return p, nil
}

// structure passes over the scalability structure and gives the sizes of the layers that it tells.
func (r *bytesReader) structure() (sizes []byte) {
	v := r.next()
	if v&0x10 != 0 {
		n := min(4*(int(v>>5)+1), len(r.b))
		sizes = r.b[:n:n]
		for range 4 * (int(v>>5) + 1) {
			r.next()
		}
	}
	if v&0x08 == 0 {
		return sizes
	}
	for range r.next() { // pictures of the group
		for range r.next() >> 2 & 3 { // references
			r.next()
		}
	}
	return sizes
}

func (*vp9Depacketizer) keep(packet) {}

func (d *vp9Depacketizer) begin() { d.layers = 0 }

func (d *vp9Depacketizer) add(dst []byte, p packet) ([]byte, error) {
	if p.begins {
		if d.layers == len(d.starts) {
			return dst, errVP9Layers
		}
		d.starts[d.layers] = len(dst)
		d.layers++
	}
	return append(dst, p.data...), nil
}

// finish makes one superframe (VP9 bitstream specification, annex B) of the layers of a picture: the decoder shows the last.
func (d *vp9Depacketizer) finish(frame []byte) ([]byte, head, error) {
	if d.layers > 1 {
		marker := byte(0xc0 | 3<<3 | (d.layers - 1))
		index := []byte{marker}
		for i, at := range d.starts[:d.layers] {
			end := len(frame)
			if i+1 < d.layers {
				end = d.starts[i+1]
			}
			if fs, err := vp9hdr.Frames(frame[at:end]); err != nil || len(fs) != 1 || len(fs[0]) != end-at {
				return frame, head{}, errVP9Layers
			}
			index = binary.LittleEndian.AppendUint32(index, uint32(end-at))
		}
		frame = append(append(frame, index...), marker)
	}
	h, err := vp9hdr.Check(frame)
	return frame, head{h.Key, h.Width, h.Height, h.Refresh == 0}, err
}
