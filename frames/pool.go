package frames

import (
	"slices"
	"sync"

	"sightline/frames/internal/jpegfast"
)

// pool lends decoders and encoders to tracks that need them for one key frame at a time: that resets a decoder, whichever stream it had
// before. It keeps no more than there can be at work at once, and none once no track is watched.
type pool struct {
	mu       sync.Mutex
	users    int // tracks that are watched
	decoders []spareDecoder
	encoders []*jpegfast.Encoder
}

type spareDecoder struct {
	decoder
	codec         Codec
	width, height int // of its last picture: it need not allocate another size
}

// join says that a track is watched, until leave.
func (p *pool) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
}

// leave frees everything with the last user.
func (p *pool) leave() error {
	p.mu.Lock()
	p.users--
	var ds []spareDecoder
	var es []*jpegfast.Encoder
	if p.users == 0 {
		ds, es = p.decoders, p.encoders
		p.decoders, p.encoders = nil, nil
	}
	p.mu.Unlock()
	var err error
	for _, d := range ds {
		err = firstOf(err, d.Close())
	}
	for _, e := range es {
		err = firstOf(err, e.Close())
	}
	return err
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// decoder lends one, of the same picture size if there is one; nil: there is none.
func (p *pool) decoder(c Codec, width, height int) decoder {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := -1
	for i, d := range p.decoders {
		if d.codec == c && (found < 0 || d.width == width && d.height == height) {
			found = i
		}
	}
	if found < 0 {
		return nil
	}
	d := p.decoders[found].decoder
	p.decoders = slices.Delete(p.decoders, found, found+1)
	return d
}

// takeDecoder takes one back; false: there are enough, and it is the caller's to close.
func (p *pool) takeDecoder(d decoder, c Codec, width, height, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, o := range p.decoders {
		if o.codec == c {
			n++
		}
	}
	if n >= most {
		return false
	}
	p.decoders = append(p.decoders, spareDecoder{d, c, width, height})
	return true
}

// encoder lends one; nil: there is none.
func (p *pool) encoder() *jpegfast.Encoder {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.encoders)
	if n == 0 {
		return nil
	}
	e := p.encoders[n-1]
	p.encoders = p.encoders[:n-1]
	return e
}

// takeEncoder is takeDecoder for encoders.
func (p *pool) takeEncoder(e *jpegfast.Encoder, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.encoders) >= most {
		return false
	}
	p.encoders = append(p.encoders, e)
	return true
}

// bytes is the C memory of what is not lent.
func (p *pool) bytes() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.decoders {
		n += d.Bytes()
	}
	for _, e := range p.encoders {
		n += e.Bytes()
	}
	return n
}
