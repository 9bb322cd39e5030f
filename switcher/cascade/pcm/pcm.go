// Package pcm is the small change of sound that engines need, bytes, WAV headers and other rates of PCM16 mono; it knows no codec and no clock.
package pcm

import "encoding/binary"

// Append writes samples as little-endian bytes behind dst.
func Append(dst []byte, samples []int16) []byte {
	for _, s := range samples {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(s))
	}
	return dst
}

// Samples reads little-endian bytes; an odd last byte is left out.
func Samples(data []byte) []int16 {
	out := make([]int16, len(data)/2)
	for i := range out {
		out[i] = int16(binary.LittleEndian.Uint16(data[2*i:]))
	}
	return out
}

// Mono mixes interleaved channels down to one; a last incomplete set of channels is left out.
func Mono(samples []int16, channels int) []int16 {
	if channels <= 1 {
		return samples
	}
	out := make([]int16, len(samples)/channels)
	for i := range out {
		sum := 0
		for _, s := range samples[i*channels : (i+1)*channels] {
			sum += int(s)
		}
		out[i] = int16(sum / channels)
	}
	return out
}
