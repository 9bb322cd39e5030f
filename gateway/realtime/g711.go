package realtime

import "errors"

// G.711 (ITU-T), 8 bits a sample.

var errG711 = errors.New("audio must be base64 of G.711 bytes")

const (
	ulawBias = 0x84
	ulawMost = 32635
)

func toULaw(s int16) byte {
	v, sign := int(s), 0
	if v < 0 {
		v, sign = -v, 0x80
	}
	v = min(v, ulawMost) + ulawBias
	exponent := 7
	for mask := 0x4000; v&mask == 0 && exponent > 0; mask >>= 1 {
		exponent--
	}
	return ^byte(sign | exponent<<4 | v>>(exponent+3)&0x0f)
}

func fromULaw(b byte) int16 {
	b = ^b
	v := (int(b&0x0f)<<3+ulawBias)<<(b>>4&7) - ulawBias
	if b&0x80 != 0 {
		v = -v
	}
	return int16(v)
}

func toALaw(s int16) byte {
	v, sign := int(s), 0x80
	if v < 0 {
		v, sign = -v-1, 0
	}
	exponent := 7
	for mask := 0x4000; v&mask == 0 && exponent > 0; mask >>= 1 {
		exponent--
	}
	shift := 4 // the lowest two segments have the same step
	if exponent > 0 {
		shift = exponent + 3
	}
	return byte(sign|exponent<<4|v>>shift&0x0f) ^ 0x55
}

func fromALaw(b byte) int16 {
	b ^= 0x55
	v := int(b&0x0f)<<4 + 8
	if e := b >> 4 & 7; e > 0 {
		v = (v + 0x100) << (e - 1)
	}
	if b&0x80 == 0 {
		v = -v
	}
	return int16(v)
}
