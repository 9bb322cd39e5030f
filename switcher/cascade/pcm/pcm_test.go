package pcm

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

func tone(rate int, hz, seconds float64) []int16 {
	out := make([]int16, int(seconds*float64(rate)))
	for i := range out {
		out[i] = int16(10000 * math.Sin(2*math.Pi*hz*float64(i)/float64(rate)))
	}
	return out
}

// power is the mean square of the middle, where no edge counts.
func power(s []int16) float64 {
	s = s[len(s)/4 : len(s)*3/4]
	sum := 0.0
	for _, v := range s {
		sum += float64(v) * float64(v)
	}
	return sum / float64(len(s))
}

func TestResamplerKeepsLengthAndSound(t *testing.T) {
	for _, rates := range [][2]int{{8000, 16000}, {16000, 24000}, {48000, 16000}, {24000, 16000}, {44100, 16000}, {22050, 24000}, {16000, 8000}, {16000, 16000}} {
		in := tone(rates[0], 440, 1)
		r := NewResampler(rates[0], rates[1])
		var out []int16
		for piece := range slices.Chunk(in, 317) {
			out = append(out, r.Push(piece)...)
		}
		out = append(out, r.Flush()...)
		if len(out) != rates[1] {
			t.Errorf("%v: %d samples of one second", rates, len(out))
			continue
		}
		want := tone(rates[1], 440, 1)
		diff := make([]int16, len(out))
		for i := range diff {
			diff[i] = out[i] - want[i]
		}
		if db := 10 * math.Log10(power(want)/(power(diff)+1e-9)); db < 40 {
			t.Errorf("%v: %.1f dB between the tone and what differs, want 40", rates, db)
		}
	}
}

func TestResamplerTakesAwayWhatWouldFoldBack(t *testing.T) {
	r := NewResampler(48000, 16000)
	out := append(r.Push(tone(48000, 11000, 1)), r.Flush()...)
	if db := 10 * math.Log10(power(tone(48000, 11000, 1))/(power(out)+1e-9)); db < 40 {
		t.Errorf("a tone above the new band is only %.1f dB weaker", db)
	}
}

func TestWAVRoundTrip(t *testing.T) {
	samples := tone(16000, 300, 0.1)
	file := WAV(16000, samples)
	r := bytes.NewReader(file)
	f, err := ReadHeader(r)
	if err != nil || f != (Format{16000, 1, 3200}) {
		t.Fatalf("%+v, %v", f, err)
	}
	rest := make([]byte, r.Len())
	_, _ = r.Read(rest)
	if !slices.Equal(Samples(rest), samples) {
		t.Error("other samples came back")
	}
}

func TestReadHeader(t *testing.T) {
	good := WAV(24000, []int16{1, 2})
	edit := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	for name, c := range map[string]struct {
		file []byte
		says string // "" = taken
	}{
		"sizes unknown": {edit(func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[4:], 0xFFFFFFFF)
			binary.LittleEndian.PutUint32(b[40:], 0)
			return b
		}), ""},
		"a list before": {edit(func(b []byte) []byte {
			return slices.Concat(b[:36], []byte("LIST\x03\x00\x00\x00abc\x00"), b[36:])
		}), ""},
		"an endless list": {edit(func(b []byte) []byte { return slices.Concat(b[:36], []byte("LIST\xff\xff\xff\x7f"), b[36:]) }), "are skipped"},
		"float":           {edit(func(b []byte) []byte { b[20] = 3; return b }), "only PCM"},
		"8 bits":          {edit(func(b []byte) []byte { b[34] = 8; return b }), "only PCM"},
		"five channels":   {edit(func(b []byte) []byte { b[22] = 5; return b }), "5 channels"},
		"no format":       {slices.Concat(good[:12], good[36:]), "without a format"},
		"an mp3":          {[]byte("ID3\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00"), "not a RIFF"},
		"cut off":         {good[:30], "EOF"},
	} {
		_, err := ReadHeader(bytes.NewReader(c.file))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestMono(t *testing.T) {
	if got := Mono([]int16{100, 200, -100, -300, 7}, 2); !slices.Equal(got, []int16{150, -200}) {
		t.Errorf("%v", got)
	}
	if got := Samples(append(Append(nil, []int16{-2, 32767}), 1)); !slices.Equal(got, []int16{-2, 32767}) {
		t.Errorf("%v", got)
	}
}
