package frames

import (
	"errors"

	"sightline/frames/internal/vp8hdr"
)

var errVP8Descriptor = errors.New("vp8 payload: descriptor is cut short, or nothing follows it")

// vp8Depacketizer takes payloads of RFC 7741 §4.2 apart. pion/rtp's VP8Packet is not used: it takes every S=1 for the start of a frame, also of
// a later partition.
type vp8Depacketizer struct{ stateless }

// parse never looks past the payload's end.
func (vp8Depacketizer) parse(payload []byte) (packet, error) {
	p, err := parseVP8(payload)
	if err != nil {
		return p, err
	}
	p.key = p.start && p.data[0]&1 == 0 // RFC 6386 §9.1: the P bit
	if p.key {
		if h, err := vp8hdr.Parse(p.data); err == nil && h.CheckSize() == nil {
			p.width, p.height = uint16(h.Width), uint16(h.Height)
		}
	}
	return p, nil
}

func (vp8Depacketizer) finish(frame []byte) ([]byte, head, error) {
	h, err := vp8hdr.Parse(frame)
	if err == nil {
		err = h.CheckSize()
	}
	if err == nil {
		err = h.CheckComplete(len(frame))
	}
	return frame, head{key: h.Key, width: h.Width, height: h.Height}, err
}

// parseVP8 reads the descriptor; at least one byte of data follows it.
func parseVP8(payload []byte) (packet, error) {
	var p packet
	b := payload
	next := func() (v byte, ok bool) {
		if len(b) == 0 {
			return 0, false
		}
		v, b = b[0], b[1:]
		return v, true
	}
	first, ok := next()
	if !ok {
		return packet{}, errVP8Descriptor
	}
	p.start = first&0x10 != 0 && first&0x07 == 0
	p.temporal.unreferenced = first&0x20 != 0
	if first&0x80 != 0 { // X
		ext, ok := next()
		if !ok {
			return packet{}, errVP8Descriptor
		}
		if ext&0x80 != 0 { // I
			v, ok := next()
			if !ok {
				return packet{}, errVP8Descriptor
			}
			p.hasPictureID, p.pictureID, p.pictureMask = true, uint16(v&0x7f), 0x7f
			if v&0x80 != 0 { // M: 15 bits
				low, ok := next()
				if !ok {
					return packet{}, errVP8Descriptor
				}
				p.pictureID, p.pictureMask = p.pictureID<<8|uint16(low), 0x7fff
			}
		}
		if ext&0x40 != 0 { // L: TL0PICIDX
			if _, ok := next(); !ok {
				return packet{}, errVP8Descriptor
			}
		}
		if ext&0x30 != 0 { // T or K: TID, Y, KEYIDX
			v, ok := next()
			if !ok {
				return packet{}, errVP8Descriptor
			}
			if ext&0x20 != 0 {
				p.temporal.known, p.temporal.id, p.temporal.sync = true, v>>6, v&0x20 != 0
			}
		}
	}
	if len(b) == 0 {
		return packet{}, errVP8Descriptor
	}
	p.data = b
	return p, nil
}
