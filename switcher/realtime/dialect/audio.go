package dialect

import (
	"encoding/base64"
	"errors"
	"math"
	"strconv"
)

// Rate is the Hz of audio/pcm.
const Rate = 24000

// Millis counts milliseconds. Read, it may be a fraction.
type Millis int64

// UnmarshalJSON reads a number; anything else counts as absent.
func (m *Millis) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(string(data), 64)
	if err == nil && !math.IsNaN(f) && math.Abs(f) < 1e15 {
		*m = Millis(f)
	}
	return nil
}

// ErrAudio says that a piece of sound is not base64 of PCM16.
var ErrAudio = errors.New("audio must be base64 of PCM16 little endian samples")

// AppendInput writes an input_audio_buffer.append of PCM16 behind dst. scratch is reused for the bytes; both are returned.
func AppendInput(dst, scratch []byte, pcm []int16) (event, bytes []byte) {
	scratch = appendBytes(scratch[:0], pcm)
	dst = append(dst, `{"type":"input_audio_buffer.append","audio":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, scratch)
	return append(dst, `"}`...), scratch
}

// EncodePCM gives PCM16 as base64 of little endian bytes.
func EncodePCM(pcm []int16) string {
	return base64.StdEncoding.EncodeToString(appendBytes(make([]byte, 0, 2*len(pcm)), pcm))
}

func appendBytes(b []byte, pcm []int16) []byte {
	for _, s := range pcm {
		b = append(b, byte(s), byte(uint16(s)>>8))
	}
	return b
}

// DecodePCM reads base64 of PCM16, with or without its padding.
func DecodePCM(audio string) ([]int16, error) {
	for len(audio) > 0 && audio[len(audio)-1] == '=' {
		audio = audio[:len(audio)-1]
	}
	b, err := base64.RawStdEncoding.DecodeString(audio)
	if err != nil || len(b)%2 != 0 {
		return nil, ErrAudio
	}
	pcm := make([]int16, len(b)/2)
	for i := range pcm {
		pcm[i] = int16(uint16(b[2*i]) | uint16(b[2*i+1])<<8)
	}
	return pcm, nil
}
