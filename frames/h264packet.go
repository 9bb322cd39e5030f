package frames

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"sightline/frames/internal/h264hdr"
)

// Packet types of RFC 6184 §5.2 that hold other units.
const (
	h264STAPA = 24
	h264FUA   = 28
)

// keptBytes bounds all parameter sets kept, in bytes; real streams have two of 40 together.
const keptBytes = 32 << 10

var (
	errH264Payload = errors.New("h264 payload: cut short, or of a kind that packetization modes 0 and 1 do not have")
	errH264Frame   = errors.New("h264 frame")
)

// h264Depacketizer makes Annex B access units of the payloads of RFC 6184, packetization modes 0 and 1. pion/rtp's is not used: it makes an IDR
// of fragments without a start, and fragments without an end grow for ever. Parameter sets are kept, whichever packet brings them, and put
// before every key frame that comes without.
type h264Depacketizer struct {
	sps     [32][]byte
	pps     map[int][]byte
	kept    int  // bytes in them
	changed bool // a sequence parameter set differs from what the last key frame had

	// the frame in work
	fragment      byte // type of the unit in fragments that is not at its end; 0: none
	slices        int
	idr, inter    bool
	bidirectional bool // a slice of it is
	referenced    bool // another frame may refer to it: nal_ref_idc is not 0
	headless      bool // its first slice is not the first of the picture
	firstPPS      int
	ownSPS        [32]bool
	ownPPS        map[int]bool
	damaged       error // a parameter set of it is not taken
}

// parse looks at one payload. Units that no decoder needs are let pass; what cannot be read is an error.
func (d *h264Depacketizer) parse(payload []byte) (packet, error) {
	p := packet{start: true, loose: true, maybe: true, data: payload}
	t := payload[0] & 0x1f
	switch {
	case payload[0]&0x80 != 0:
		return packet{}, errH264Payload
	case t == 0 || t > 29:
		return packet{drop: true, unknown: true}, nil // undefined: a receiver ignores it (§5.2)
	case t == h264STAPA:
		rest := payload[1:]
		for len(rest) > 0 {
			nal, next, err := nextSTAP(rest)
			if err != nil {
				return packet{}, err
			}
			p.note(nal)
			rest = next
		}
		return p, nil
	case t == h264FUA:
		if len(payload) < 3 || payload[1]&0xc0 == 0xc0 {
			return packet{}, errH264Payload
		}
		switch payload[1] & 0x1f {
		case h264hdr.TypeSlice, h264hdr.TypeIDR, h264hdr.TypeSEI:
		default:
			return packet{}, errH264Payload
		}
		p.start, p.maybe = payload[1]&0x80 != 0, payload[1]&0x1f != h264hdr.TypeSlice
		return p, nil
	case t > 23, t >= 2 && t <= 4: // interleaved modes; data partitions
		return packet{}, errH264Payload
	}
	p.note(payload)
	return p, nil
}

// note marks a packet with a sequence parameter set: with it a key frame begins; and one with an inter slice: with it none does.
func (p *packet) note(nal []byte) {
	if len(nal) == 0 {
		return
	}
	p.maybe = p.maybe && h264hdr.Type(nal) != h264hdr.TypeSlice
	if h264hdr.Type(nal) != h264hdr.TypeSPS {
		return
	}
	p.key = true
	if s, err := h264hdr.ParseSPS(nal); err == nil {
		p.width, p.height = uint16(s.Width), uint16(s.Height)
	}
}

// nextSTAP cuts one unit off (§5.7.1); it may be empty.
func nextSTAP(b []byte) (nal, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, errH264Payload
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; n > len(b) {
		return nil, nil, errH264Payload
	}
	if nal = b[:n:n]; n > 0 && (nal[0]&0x80 != 0 || nal[0]&0x1f > 23) {
		return nil, nil, errH264Payload
	}
	return nal, b[n:], nil
}

// units calls do for every whole unit of a packet.
func (p *packet) units(do func(nal []byte) error) error {
	switch t := p.data[0] & 0x1f; t {
	case h264FUA:
		return nil
	case h264STAPA:
		for rest := p.data[1:]; len(rest) > 0; {
			nal, next, err := nextSTAP(rest)
			if err != nil {
				return err
			}
			if len(nal) > 0 {
				if err := do(nal); err != nil {
					return err
				}
			}
			rest = next
		}
		return nil
	}
	return do(p.data)
}

// keep takes parameter sets out of any packet. Those that are not taken (another format, another size) are not kept.
func (d *h264Depacketizer) keep(p packet) {
	if len(p.data) == 0 || p.drop {
		return
	}
	_ = p.units(func(nal []byte) error {
		switch h264hdr.Type(nal) {
		case h264hdr.TypeSPS:
			if s, err := h264hdr.ParseSPS(nal); err == nil && !bytes.Equal(d.sps[s.ID], nal) && d.room(len(nal)) {
				d.kept += len(nal) - len(d.sps[s.ID])
				d.sps[s.ID], d.changed = bytes.Clone(nal), true
			}
		case h264hdr.TypePPS:
			if id, _, err := h264hdr.ParsePPS(nal); err == nil && !bytes.Equal(d.pps[id], nal) && d.room(len(nal)) {
				d.kept += len(nal) - len(d.pps[id])
				d.pps[id] = bytes.Clone(nal)
			}
		}
		return nil
	})
}

// told takes the parameter sets of an SDP (sprop-parameter-sets, RFC 6184 §8.1): Base64 with commas between. What cannot be read is left out.
func (d *h264Depacketizer) told(sprop string) {
	for _, text := range strings.Split(sprop, ",") {
		nal, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		if err == nil && len(nal) > 0 {
			d.keep(packet{data: nal})
		}
	}
}

// room forgets everything rather than to pass the bound.
func (d *h264Depacketizer) room(n int) bool {
	if d.pps == nil || d.kept+n > keptBytes {
		d.forget()
	}
	return n <= h264hdr.MaxSetBytes
}

func (d *h264Depacketizer) forget() {
	d.sps, d.pps, d.kept, d.changed = [32][]byte{}, make(map[int][]byte), 0, true
}

func (d *h264Depacketizer) begin() {
	d.fragment, d.slices, d.idr, d.inter, d.headless, d.firstPPS = 0, 0, false, false, false, 0
	d.referenced, d.bidirectional = false, false
	d.ownSPS, d.damaged = [32]bool{}, nil
	clear(d.ownPPS)
}

func (d *h264Depacketizer) add(dst []byte, p packet) ([]byte, error) {
	if p.data[0]&0x1f == h264FUA {
		return d.addFragment(dst, p.data)
	}
	if d.fragment != 0 {
		return dst, errH264Payload
	}
	err := p.units(func(nal []byte) (err error) {
		dst, err = d.addUnit(dst, nal)
		return err
	})
	return dst, err
}

// addFragment takes a part of a unit (§5.8). SEI in fragments is left out.
func (d *h264Depacketizer) addFragment(dst, b []byte) ([]byte, error) {
	start, end, t := b[1]&0x80 != 0, b[1]&0x40 != 0, b[1]&0x1f
	if start == (d.fragment != 0) || !start && d.fragment != t {
		return dst, errH264Payload
	}
	part := b[2:]
	if t != h264hdr.TypeSEI {
		if start {
			unit := [32]byte{b[0]&0xe0 | t}
			if err := d.slice(unit[:1+copy(unit[1:], part)]); err != nil {
				return dst, err
			}
			dst = append(dst, 0, 0, 0, 1, unit[0])
		}
		dst = append(dst, part...)
	}
	if d.fragment = t; end {
		d.fragment = 0
	}
	return dst, nil
}

// addUnit takes a whole unit; those that no decoder needs are left out.
func (d *h264Depacketizer) addUnit(dst, nal []byte) ([]byte, error) {
	switch h264hdr.Type(nal) {
	case h264hdr.TypeSlice, h264hdr.TypeIDR:
		if err := d.slice(nal); err != nil {
			return dst, err
		}
	case h264hdr.TypeSPS:
		s, err := h264hdr.ParseSPS(nal)
		if err != nil {
			d.damaged = err
			return dst, nil
		}
		d.ownSPS[s.ID] = true
	case h264hdr.TypePPS:
		id, _, err := h264hdr.ParsePPS(nal)
		if err != nil {
			d.damaged = err
			return dst, nil
		}
		if d.ownPPS == nil {
			d.ownPPS = make(map[int]bool)
		}
		d.ownPPS[id] = true
	default:
		return dst, nil
	}
	return append(append(dst, 0, 0, 0, 1), nal...), nil
}

// slice notes what the head of a slice says.
func (d *h264Depacketizer) slice(nal []byte) error {
	s, err := h264hdr.ParseSlice(nal)
	if err != nil {
		return err
	}
	if d.slices == 0 {
		d.headless, d.firstPPS = !s.First, s.PPS
	}
	d.bidirectional = d.bidirectional || s.Bidirectional
	d.slices++
	d.referenced = d.referenced || nal[0]&0x60 != 0
	if h264hdr.Type(nal) == h264hdr.TypeIDR {
		d.idr = true
	} else {
		d.inter = true
	}
	return nil
}

// finish gives a key frame the parameter sets it refers to. A frame is a key frame when all of it is IDR.
func (d *h264Depacketizer) finish(frame []byte) ([]byte, head, error) {
	switch {
	case d.fragment != 0:
		return frame, head{}, fmt.Errorf("%w: ends within a fragment", errH264Frame)
	case d.damaged != nil:
		return frame, head{}, d.damaged
	case d.slices == 0:
		return frame, head{}, errNoFrame
	case d.headless || d.idr && d.inter:
		return frame, head{}, fmt.Errorf("%w: its first slice is missing, or only some of it is IDR", errH264Frame)
	case d.bidirectional && !d.referenced:
		return frame, head{}, errLeftOut
	case d.bidirectional:
		return frame, head{}, fmt.Errorf("%w: B slices in a picture that others refer to", errH264Frame)
	case !d.idr && d.changed:
		return frame, head{}, fmt.Errorf("%w: other parameter sets, but no IDR", errH264Frame)
	case !d.idr:
		return frame, head{unreferenced: !d.referenced}, nil
	}
	pps := d.pps[d.firstPPS]
	if pps == nil {
		return frame, head{}, fmt.Errorf("%w: picture parameter set %d never came", errH264Frame, d.firstPPS)
	}
	_, id, err := h264hdr.ParsePPS(pps)
	if err == nil && d.sps[id] == nil {
		err = fmt.Errorf("%w: sequence parameter set %d never came", errH264Frame, id)
	}
	if err != nil {
		return frame, head{}, err
	}
	s, err := h264hdr.ParseSPS(d.sps[id])
	if err != nil {
		return frame, head{}, err
	}
	d.changed = false
	return d.complete(frame, id), head{key: true, width: s.Width, height: s.Height}, nil
}

// complete puts the sets that the frame does not bring itself before it: its sequence parameter set and all that belong to it.
func (d *h264Depacketizer) complete(frame []byte, sps int) []byte {
	var lead []byte
	if !d.ownSPS[sps] {
		lead = append(append(lead, 0, 0, 0, 1), d.sps[sps]...)
	}
	for id, set := range d.pps {
		if _, of, err := h264hdr.ParsePPS(set); err == nil && of == sps && !d.ownPPS[id] {
			lead = append(append(lead, 0, 0, 0, 1), set...)
		}
	}
	if len(lead) == 0 {
		return frame
	}
	n := len(frame)
	frame = append(frame, lead...)
	copy(frame[len(lead):], frame[:n])
	copy(frame, lead)
	return frame
}
