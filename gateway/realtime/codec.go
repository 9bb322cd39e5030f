package realtime

import (
	"encoding/base64"

	"sightline/switcher/cascade/pcm"
	"sightline/switcher/realtime/dialect"
)

// g711Rate is the Hz of audio/pcmu and audio/pcma.
const g711Rate = 8000

// decoder reads the client's sound, piece by piece, as PCM16 of dialect.Rate.
type decoder struct {
	format dialect.Format
	of     string // the format that up is for
	up     *pcm.Resampler
}

func (d *decoder) decode(audio string) ([]int16, error) {
	if d.format.Type == formatPCM {
		return dialect.DecodePCM(audio)
	}
	bytes, err := base64.StdEncoding.DecodeString(audio)
	if err != nil {
		return nil, errG711
	}
	expand := fromULaw
	if d.format.Type == "audio/pcma" {
		expand = fromALaw
	}
	samples := make([]int16, len(bytes))
	for i, b := range bytes {
		samples[i] = expand(b)
	}
	if d.of != d.format.Type {
		d.of, d.up = d.format.Type, pcm.NewResampler(g711Rate, dialect.Rate)
	}
	return d.up.Push(samples), nil
}

// encoder writes the sound of one message in the client's format.
type encoder struct {
	format dialect.Format
	from   int
	to     *pcm.Resampler
}

func (e *encoder) encode(rate int, samples []int16) string {
	if e.to == nil || e.from != rate {
		to := dialect.Rate
		if e.format.Type != formatPCM {
			to = g711Rate
		}
		e.from, e.to = rate, pcm.NewResampler(rate, to)
	}
	return e.write(e.to.Push(samples))
}

func (e *encoder) flush() string {
	if e.to == nil {
		return ""
	}
	return e.write(e.to.Flush())
}

func (e *encoder) write(samples []int16) string {
	if len(samples) == 0 {
		return ""
	}
	if e.format.Type == formatPCM {
		return dialect.EncodePCM(samples)
	}
	compress := toULaw
	if e.format.Type == "audio/pcma" {
		compress = toALaw
	}
	bytes := make([]byte, len(samples))
	for i, s := range samples {
		bytes[i] = compress(s)
	}
	return base64.StdEncoding.EncodeToString(bytes)
}
