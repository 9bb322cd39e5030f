package pcm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const wavHeaderBytes = 44

// WAV is a whole RIFF file of PCM16 mono.
func WAV(rate int, samples []int16) []byte {
	n := 2 * len(samples)
	b := make([]byte, 0, wavHeaderBytes+n)
	le := binary.LittleEndian
	b = append(b, "RIFF"...)
	b = le.AppendUint32(b, uint32(wavHeaderBytes-8+n))
	b = append(b, "WAVEfmt "...)
	b = le.AppendUint32(b, 16)
	b = le.AppendUint16(b, 1) // PCM
	b = le.AppendUint16(b, 1) // channels
	b = le.AppendUint32(b, uint32(rate))
	b = le.AppendUint32(b, uint32(2*rate)) // bytes a second
	b = le.AppendUint16(b, 2)              // bytes of all channels' samples
	b = le.AppendUint16(b, 16)             // bits
	b = append(b, "data"...)
	b = le.AppendUint32(b, uint32(n))
	return Append(b, samples)
}

// Format is what a WAV header says.
type Format struct {
	Rate, Channels int
	Bytes          int64 // of sound, 0: not said, as by who streams
}

// maxChunkBytes bounds what is skipped before the sound: lists of titles and the like.
const maxChunkBytes = 1 << 20

// ReadHeader reads a RIFF header up to where the samples begin. The size of the file is not believed, and the size of
// its sound only when it can be one: who streams writes 0 or 0xFFFFFFFF there. It takes PCM16 only, of 8,000 to 48,000 Hz and one or two channels.
func ReadHeader(r io.Reader) (Format, error) {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Format{}, fmt.Errorf("wav: %w", err)
	}
	if string(head[:4]) != "RIFF" || string(head[8:]) != "WAVE" {
		return Format{}, errors.New("wav: not a RIFF file of sound")
	}
	var f Format
	for {
		var chunk [8]byte
		if _, err := io.ReadFull(r, chunk[:]); err != nil {
			return Format{}, fmt.Errorf("wav: %w", err)
		}
		size := binary.LittleEndian.Uint32(chunk[4:])
		switch name := string(chunk[:4]); {
		case name == "data" && f.Rate == 0:
			return Format{}, errors.New("wav: sound without a format before it")
		case name == "data":
			if size < 0x7FFFFFFF-maxChunkBytes {
				f.Bytes = int64(size)
			}
			return f, nil
		case size > maxChunkBytes:
			return Format{}, fmt.Errorf("wav: a %q of %d bytes before the sound, at most %d are skipped", name, size, maxChunkBytes)
		case name == "fmt ":
			body := make([]byte, size+size%2)
			if _, err := io.ReadFull(r, body); err != nil {
				return Format{}, fmt.Errorf("wav: %w", err)
			}
			var err error
			if f, err = parseFormat(body); err != nil {
				return Format{}, err
			}
		default:
			if _, err := io.CopyN(io.Discard, r, int64(size+size%2)); err != nil {
				return Format{}, fmt.Errorf("wav: %w", err)
			}
		}
	}
}

const (
	kindPCM        = 1
	kindExtensible = 0xFFFE
)

func parseFormat(b []byte) (Format, error) {
	if len(b) < 16 {
		return Format{}, errors.New("wav: the format is cut off")
	}
	le := binary.LittleEndian
	kind, channels, rate, bits := le.Uint16(b), int(le.Uint16(b[2:])), int(le.Uint32(b[4:])), le.Uint16(b[14:])
	if kind != kindPCM && kind != kindExtensible || bits != 16 {
		return Format{}, fmt.Errorf("wav: kind %d of %d bits: only PCM of 16 bits is taken", kind, bits)
	}
	if rate < 8000 || rate > 48000 || channels < 1 || channels > 2 {
		return Format{}, fmt.Errorf("wav: %d Hz and %d channels: 8000 to 48000 Hz and one or two channels are taken", rate, channels)
	}
	return Format{Rate: rate, Channels: channels}, nil
}
