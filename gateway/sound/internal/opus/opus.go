// Package opus codes and decodes mono voice with libopus: one C call and no Go allocation per packet. It orders nothing and keeps no
// clock; which packet is missing, and for how long, is its caller's business.
package opus

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo pkg-config: opus
#cgo noescape slopus_encode
#cgo nocallback slopus_encode
#cgo noescape slopus_decode
#cgo nocallback slopus_decode
#cgo noescape slopus_samples
#cgo nocallback slopus_samples
#include "coder.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Bounds of packets.
const (
	MaxPacketBytes = 7680           // six frames of 20 ms with RFC 6716's 1275 bytes each, and their framing
	MaxMillis      = 120            // RFC 6716 §3.2.5: no packet is longer
	MaxSamples     = MaxMillis * 48 // of a packet at 48 kHz; at rate r: r/1000*MaxMillis
	ClockRate      = 48000          // Hz of Opus' RTP clock, whatever rate is coded (RFC 7587 §4.1)
	maxConcealed   = MaxMillis      // ms that one call conceals
	grain          = 400            // frames of concealment are multiples of 2.5 ms: rate/grain samples
)

// What calls answer when they fail; each comes wrapped with what was wrong and what is allowed.
var (
	ErrClosed  = errors.New("opus: closed")
	ErrConfig  = errors.New("opus: setting")
	ErrRefused = errors.New("opus: packet refused before decoding") // no Opus packet by its framing, too long, or empty
	ErrBuffer  = errors.New("opus: buffer")                         // the caller's slice has the wrong length
	ErrCodec   = errors.New("opus: libopus refuses")                // its own words follow
)

// Rates are those libopus takes and gives, in Hz, ascending.
var Rates = [...]int{8000, 12000, 16000, 24000, 48000}

// IsRate says whether libopus codes at this rate itself.
func IsRate(hz int) bool {
	for _, r := range Rates {
		if r == hz {
			return true
		}
	}
	return false
}

func checkRate(hz int) error {
	if !IsRate(hz) {
		return fmt.Errorf("%w: rate %d Hz, must be 8000, 12000, 16000, 24000 or 48000", ErrConfig, hz)
	}
	return nil
}

func codecError(code C.int) error {
	return fmt.Errorf("%w: %s", ErrCodec, C.GoString(C.opus_strerror(code)))
}

// Samples gives the length of a packet in samples at rate, which is one of Rates, by its headers alone: at most 120 ms.
func Samples(packet []byte, rate int) (int, error) {
	if err := checkRate(rate); err != nil {
		return 0, err
	}
	return samples(packet, rate)
}

// samples also is what keeps from libopus what it must not see.
func samples(packet []byte, rate int) (int, error) {
	if len(packet) == 0 || len(packet) > MaxPacketBytes {
		return 0, fmt.Errorf("%w: %d bytes, must be 1 to %d", ErrRefused, len(packet), MaxPacketBytes)
	}
	n := int(C.slopus_samples((*C.uint8_t)(unsafe.Pointer(&packet[0])), C.int32_t(len(packet)), C.int32_t(rate)))
	if n <= 0 || n > rate/1000*MaxMillis {
		return 0, fmt.Errorf("%w: its framing is broken or says more than %d ms (RFC 6716 §3.4)", ErrRefused, MaxMillis)
	}
	return n, nil
}

// Channels is how many channels a packet was coded with, 1 or 2; 0 for an empty one. The Decoder mixes down.
func Channels(packet []byte) int {
	if len(packet) == 0 {
		return 0
	}
	return 1 + int(packet[0]>>2&1) // RFC 6716 §3.1
}

// HasFEC says whether a packet carries the one before it again (in-band FEC), so that DecodeFEC is better than Conceal.
func HasFEC(packet []byte) bool {
	if len(packet) < 2 || packet[0] >= 16<<3 { // CELT-only packets have none
		return false
	}
	first, ok := firstByte(packet)
	if !ok {
		return false
	}
	// RFC 6716 §4.2.3: per channel one VAD bit for each SILK frame of 20 ms, then the LBRR bit.
	silk := uint(1)
	if config := packet[0] >> 3; config < 12 {
		silk = max(uint(config&3), 1) // 10, 20, 40, 60 ms
	}
	fec := first >> (7 - silk) & 1
	if Channels(packet) == 2 {
		fec |= first >> (6 - 2*silk) & 1
	}
	return fec != 0
}

// firstByte is the first byte of the first frame, behind the framing of RFC 6716 §3.2.
func firstByte(p []byte) (byte, bool) {
	at := 1
	switch p[0] & 3 {
	case 2:
		at++
		if len(p) > 1 && p[1] >= 252 {
			at++
		}
	case 3:
		if len(p) < 2 {
			return 0, false
		}
		vbr, padded, frames := p[1]&0x80 != 0, p[1]&0x40 != 0, int(p[1]&0x3f)
		at++
		for padded {
			if at >= len(p) {
				return 0, false
			}
			padded = p[at] == 255
			at++
		}
		for i := 1; vbr && i < frames; i++ {
			if at >= len(p) {
				return 0, false
			}
			if p[at] >= 252 {
				at++
			}
			at++
		}
	}
	if at >= len(p) {
		return 0, false
	}
	return p[at], true
}
