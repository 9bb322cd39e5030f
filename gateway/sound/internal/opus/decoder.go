package opus

// #include "coder.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Decoder turns the packets of one stream into PCM16 mono. It belongs to one goroutine at a time.
type Decoder struct {
	c    *C.OpusDecoder
	rate int
}

// NewDecoder makes a decoder that gives samples at rate, one of Rates, whatever rate and channels were coded. It owns C memory until
// Close.
func NewDecoder(rate int) (*Decoder, error) {
	if err := checkRate(rate); err != nil {
		return nil, err
	}
	var code C.int
	c := C.slopus_decoder_new(C.int32_t(rate), &code)
	if c == nil {
		return nil, codecError(code)
	}
	return &Decoder{c: c, rate: rate}, nil
}

// Rate is that of the samples, in Hz.
func (d *Decoder) Rate() int { return d.rate }

// Decode decodes the packet that follows the last one into pcm, which must have room for it (Samples; MaxSamples is always enough at
// any rate), and says how many samples it gave. After an error the decoder goes on with the next packet.
func (d *Decoder) Decode(packet []byte, pcm []int16) (int, error) {
	if d.c == nil {
		return 0, ErrClosed
	}
	n, err := samples(packet, d.rate)
	if err != nil {
		return 0, err
	}
	if len(pcm) < n {
		return 0, fmt.Errorf("%w: room for %d samples, the packet has %d", ErrBuffer, len(pcm), n)
	}
	return d.decode(packet, pcm[:n], 0)
}

// DecodeFEC fills pcm with the sound just before the packet next, which was lost, from what next repeats of it; where next does not
// (HasFEC), with concealment. Then next itself is to be decoded. len(pcm) is what is missing: a multiple of 2.5 ms up to 120 ms; what is
// longer than one packet of next's kind is concealed first.
func (d *Decoder) DecodeFEC(next []byte, pcm []int16) error {
	if d.c == nil {
		return ErrClosed
	}
	if _, err := samples(next, d.rate); err != nil {
		return err
	}
	if err := d.checkGap(len(pcm)); err != nil {
		return err
	}
	_, err := d.decode(next, pcm, 1)
	return err
}

// Conceal fills pcm with what plausibly follows the last packet; it fades out over some 100 ms. len(pcm) is a multiple of 2.5 ms up to
// 120 ms.
func (d *Decoder) Conceal(pcm []int16) error {
	if d.c == nil {
		return ErrClosed
	}
	if err := d.checkGap(len(pcm)); err != nil {
		return err
	}
	_, err := d.decode(nil, pcm, 0)
	return err
}

func (d *Decoder) checkGap(n int) error {
	step := d.rate / grain
	if n == 0 || n%step != 0 || n > d.rate/1000*maxConcealed {
		return fmt.Errorf("%w: %d samples of a gap, must be a multiple of %d (2.5 ms) up to %d (%d ms)", ErrBuffer, n, step, d.rate/1000*maxConcealed, maxConcealed)
	}
	return nil
}

func (d *Decoder) decode(packet []byte, pcm []int16, fec C.int) (int, error) {
	var data *C.uint8_t
	if len(packet) > 0 {
		data = (*C.uint8_t)(unsafe.Pointer(&packet[0]))
	}
	n := C.slopus_decode(d.c, data, C.int32_t(len(packet)), (*C.int16_t)(unsafe.Pointer(&pcm[0])), C.int(len(pcm)), fec)
	if n < 0 {
		return 0, codecError(n)
	}
	return int(n), nil
}

// Reset forgets what was decoded, as for the first packet of another stream.
func (d *Decoder) Reset() error {
	if d.c == nil {
		return ErrClosed
	}
	if code := C.slopus_decoder_reset(d.c); code != 0 {
		return codecError(code)
	}
	return nil
}

// Close frees the decoder. Closing again does nothing.
func (d *Decoder) Close() error {
	if d.c != nil {
		C.opus_decoder_destroy(d.c)
		d.c = nil
	}
	return nil
}
