package opus

// #include "coder.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Defaults of an EncoderConfig. FEC takes its bits from the sound, and libopus 1.3 makes none below complexity 2. Five clips of
// speech at 16 and 24 kHz, 32 kbit/s, nothing lost (PESQ, time of a packet): with FEC 3.90 to 4.23 at complexity 3, 4.12 to 4.30 at 5
// (about 165 µs); without FEC 4.21 to 4.46 at 2 (about 95 µs), 4.36 to 4.50 at 10 (about 255 µs).
const (
	DefaultBitrate       = 32000
	DefaultComplexity    = 2 // of 10
	DefaultComplexityFEC = 5
)

// EncoderConfig says how voice is coded.
type EncoderConfig struct {
	Rate         int  // Hz of the samples, one of Rates
	Bitrate      int  // bits/s, 6000 to 128000; 0: DefaultBitrate
	Complexity   int  // 1 to 10, without FEC at 1; 0: DefaultComplexity, or DefaultComplexityFEC while there is FEC
	DTX          bool // silence makes packets of at most 2 bytes, which need not be sent
	FEC          bool // packets repeat the one before, as far as ExpectedLoss makes it worth while
	ExpectedLoss int  // percent of packets, 0 to 100
}

func (c EncoderConfig) withDefaults() (EncoderConfig, error) {
	if c.Bitrate == 0 {
		c.Bitrate = DefaultBitrate
	}
	if c.Complexity == 0 {
		c.Complexity = complexity(c.FEC, c.ExpectedLoss)
	}
	if c.Complexity < 1 || c.Complexity > 10 {
		return c, fmt.Errorf("%w: complexity %d, must be 1 to 10", ErrConfig, c.Complexity)
	}
	if err := checkBitrate(c.Bitrate); err != nil {
		return c, err
	}
	if err := checkLoss(c.ExpectedLoss); err != nil {
		return c, err
	}
	return c, checkRate(c.Rate)
}

// complexity is the default one.
func complexity(fec bool, expectedLoss int) int {
	if fec && expectedLoss > 0 {
		return DefaultComplexityFEC
	}
	return DefaultComplexity
}

func checkBitrate(bits int) error {
	if bits < 6000 || bits > 128000 {
		return fmt.Errorf("%w: %d bits/s, must be 6000 to 128000", ErrConfig, bits)
	}
	return nil
}

func checkLoss(percent int) error {
	if percent < 0 || percent > 100 {
		return fmt.Errorf("%w: expected loss of %d percent, must be 0 to 100", ErrConfig, percent)
	}
	return nil
}

// Encoder turns PCM16 mono into the packets of one stream, tuned for voice. It belongs to one goroutine at a time.
type Encoder struct {
	c         *C.OpusEncoder
	rate      int
	lookahead int
	fec       bool
	adapts    bool // complexity is the default one
}

// NewEncoder makes an encoder. It owns C memory until Close.
func NewEncoder(cfg EncoderConfig) (*Encoder, error) {
	adapts := cfg.Complexity == 0
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	var code C.int
	c := C.slopus_encoder_new(C.int32_t(cfg.Rate), &C.slopus_settings{
		bitrate: C.int32_t(cfg.Bitrate), complexity: C.int32_t(cfg.Complexity),
		dtx: flag(cfg.DTX), fec: flag(cfg.FEC), loss: C.int32_t(cfg.ExpectedLoss),
	}, &code)
	if c == nil {
		return nil, codecError(code)
	}
	return &Encoder{c: c, rate: cfg.Rate, lookahead: int(C.slopus_encoder_lookahead(c)), fec: cfg.FEC, adapts: adapts}, nil
}

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

// Rate is that of the samples, in Hz.
func (e *Encoder) Rate() int { return e.rate }

// Lookahead is by how many samples the decoded sound lags behind the samples given: so many zeros push the last sound out.
func (e *Encoder) Lookahead() int { return e.lookahead }

// Encode codes one frame of 2.5, 5, 10, 20, 40 or 60 ms into packet and says how many bytes it took. Room for 1500 is always enough;
// with less, quality goes down to fit. With DTX, a packet of at most 2 bytes need not be sent.
func (e *Encoder) Encode(pcm []int16, packet []byte) (int, error) {
	if e.c == nil {
		return 0, ErrClosed
	}
	step := e.rate / grain
	switch len(pcm) {
	case step, 2 * step, 4 * step, 8 * step, 16 * step, 24 * step:
	default:
		return 0, fmt.Errorf("%w: %d samples, must be 2.5, 5, 10, 20, 40 or 60 ms: 20 ms are %d", ErrBuffer, len(pcm), 8*step)
	}
	if len(packet) < 3 {
		return 0, fmt.Errorf("%w: room for %d bytes of a packet, 1500 is always enough", ErrBuffer, len(packet))
	}
	n := C.slopus_encode(e.c, (*C.int16_t)(unsafe.Pointer(&pcm[0])), C.int(len(pcm)), (*C.uint8_t)(unsafe.Pointer(&packet[0])), C.int32_t(len(packet)))
	if n < 0 {
		return 0, codecError(n)
	}
	return int(n), nil
}

// SetExpectedLoss changes how much the packets protect each other, in percent of packets that are lost: at 0 there is no FEC.
func (e *Encoder) SetExpectedLoss(percent int) error {
	if e.c == nil {
		return ErrClosed
	}
	if err := checkLoss(percent); err != nil {
		return err
	}
	if code := C.slopus_encoder_loss(e.c, C.int32_t(percent)); code != 0 {
		return codecError(code)
	}
	if e.adapts {
		if code := C.slopus_encoder_complexity(e.c, C.int32_t(complexity(e.fec, percent))); code != 0 {
			return codecError(code)
		}
	}
	return nil
}

// SetBitrate changes the bitrate, in bits/s.
func (e *Encoder) SetBitrate(bits int) error {
	if e.c == nil {
		return ErrClosed
	}
	if err := checkBitrate(bits); err != nil {
		return err
	}
	if code := C.slopus_encoder_bitrate(e.c, C.int32_t(bits)); code != 0 {
		return codecError(code)
	}
	return nil
}

// Reset forgets what was coded: what comes next is as the first of a stream. Settings stay.
func (e *Encoder) Reset() error {
	if e.c == nil {
		return ErrClosed
	}
	if code := C.slopus_encoder_reset(e.c); code != 0 {
		return codecError(code)
	}
	return nil
}

// Close frees the encoder. Closing again does nothing.
func (e *Encoder) Close() error {
	if e.c != nil {
		C.opus_encoder_destroy(e.c)
		e.c = nil
	}
	return nil
}
