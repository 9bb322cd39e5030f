package frames

import "errors"

var errVP8Descriptor = errors.New("vp8 payload: descriptor is cut short, or nothing follows it")

// vp8Packet is one RTP payload of VP8 taken apart (RFC 7741 §4.2). pion/rtp's VP8Packet is not used: it takes every S=1 for the start of a
// frame, also of a later partition.
type vp8Packet struct {
	start        bool // first packet of a frame: S=1 and PID=0
	hasPictureID bool
	pictureID    uint16
	pictureMask  uint16 // 0x7f or 0x7fff: where pictureID wraps
	data         []byte // what follows the descriptor; at least one byte
}

// parseVP8 never looks past the payload's end.
func parseVP8(payload []byte) (vp8Packet, error) {
	var p vp8Packet
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
		return vp8Packet{}, errVP8Descriptor
	}
	p.start = first&0x10 != 0 && first&0x07 == 0
	if first&0x80 != 0 { // X
		ext, ok := next()
		if !ok {
			return vp8Packet{}, errVP8Descriptor
		}
		if ext&0x80 != 0 { // I
			v, ok := next()
			if !ok {
				return vp8Packet{}, errVP8Descriptor
			}
			p.hasPictureID, p.pictureID, p.pictureMask = true, uint16(v&0x7f), 0x7f
			if v&0x80 != 0 { // M: 15 bits
				low, ok := next()
				if !ok {
					return vp8Packet{}, errVP8Descriptor
				}
				p.pictureID, p.pictureMask = p.pictureID<<8|uint16(low), 0x7fff
			}
		}
		if ext&0x40 != 0 { // L: TL0PICIDX
			if _, ok := next(); !ok {
				return vp8Packet{}, errVP8Descriptor
			}
		}
		if ext&0x30 != 0 { // T or K: TID, Y, KEYIDX
			if _, ok := next(); !ok {
				return vp8Packet{}, errVP8Descriptor
			}
		}
	}
	if len(b) == 0 {
		return vp8Packet{}, errVP8Descriptor
	}
	p.data = b
	return p, nil
}

// key reports whether the frame that starts here is a key frame (RFC 6386 §9.1: the P bit is 0).
func (p vp8Packet) key() bool { return p.start && len(p.data) > 0 && p.data[0]&1 == 0 }
