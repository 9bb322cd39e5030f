package frames

import (
	"errors"
	"fmt"
)

// packet is one RTP payload taken apart. Its data is part of the payload.
type packet struct {
	start bool // a frame starts here; loose: may start here, unless one is in work
	loose bool // the codec marks no starts: a frame starts where the last one ended
	key   bool // of a start: what came before is not needed. Of a loose one only finish tells whether it really is a key frame
	maybe bool // of a loose start: it may be one of a key frame, if nothing is missing before it
	drop  bool // nothing of it is wanted: an upper layer, or a kind of payload not known

	unknown      bool // counted as malformed, though it does no harm
	hasPictureID bool
	pictureID    uint16
	pictureMask  uint16 // 0x7f or 0x7fff: where pictureID wraps

	temporal temporal // of a start

	layered    bool // of one of several layers in space, and what follows is known
	sid        uint8
	begins     bool   // its layer's frame starts here
	end        bool   // and ends here
	sizes      []byte // of all layers: width and height, 16 bits each
	dependency []byte // dependency descriptor
	numbered   bool   // it could be read
	number     uint16 // of the frame, by it

	width, height uint16 // pixels, where the packet says them and they are in bounds
	head          byte   // the depacketizer's own
	data          []byte
}

// head is what a whole frame says of itself. Width and height are those of a key frame.
type head struct {
	key           bool
	width, height int
	unreferenced  bool
}

// depacketizer knows one codec's RTP payloads. parse looks at one packet alone, in whatever order they come; the others are called in order
// of the stream: keep for every packet, used or not; begin, add … add, finish for each frame in work.
type depacketizer interface {
	parse(payload []byte) (packet, error)
	keep(p packet)                                     // what later frames need: parameter sets
	begin()                                            // a frame starts
	add(dst []byte, p packet) ([]byte, error)          // appends to the frame; an error: it cannot be whole
	finish(frame []byte) (out []byte, h head, e error) // checks it; errNoFrame: it was none, errLeftOut: it cannot be decoded; both do no harm
}

var (
	errNoFrame = errors.New("no picture in it")
	errLeftOut = errors.New("picture that no decoder here gets right and that no other refers to") // openh264 fails at B slices
)

func newDepacketizer(c Codec) (depacketizer, error) {
	switch c {
	case CodecVP8:
		return vp8Depacketizer{}, nil
	case CodecVP9:
		return &vp9Depacketizer{}, nil
	case CodecH264:
		return &h264Depacketizer{}, nil
	case CodecAV1:
		return &av1Depacketizer{}, nil
	}
	return nil, fmt.Errorf("codec %q: must be %s, %s, %s or %s", c, CodecVP8, CodecVP9, CodecH264, CodecAV1)
}

// stateless is a codec whose packets need nothing but to be put one behind the other.
type stateless struct{}

func (stateless) keep(packet) {}
func (stateless) begin()      {}
func (stateless) add(dst []byte, p packet) ([]byte, error) {
	return append(dst, p.data...), nil
}
