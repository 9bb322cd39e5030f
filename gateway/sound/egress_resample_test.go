package sound

import (
	"math"
	"testing"
	"time"
)

// snr is how much of got is not the tone: the ratio of the tone's power to that of everything else, in dB.
func snr(hz float64, rate int, got []int16) float64 {
	// The least-squares fit of the tone.
	var ss, cc, sc, ys, yc float64
	for i, s := range got {
		sin, cos := math.Sincos(2 * math.Pi * hz * float64(i) / float64(rate))
		ss, cc, sc = ss+sin*sin, cc+cos*cos, sc+sin*cos
		ys, yc = ys+sin*float64(s), yc+cos*float64(s)
	}
	det := ss*cc - sc*sc
	a, b := (ys*cc-yc*sc)/det, (yc*ss-ys*sc)/det
	var signal, noise float64
	for i, s := range got {
		sin, cos := math.Sincos(2 * math.Pi * hz * float64(i) / float64(rate))
		want := a*sin + b*cos
		signal, noise = signal+want*want, noise+(float64(s)-want)*(float64(s)-want)
	}
	return 10 * math.Log10(signal/noise)
}

func TestResamplerKeepsTones(t *testing.T) {
	for _, c := range []struct {
		in, out int
		hz      float64
		least   float64 // dB
	}{
		{22050, 24000, 440, 75}, {22050, 24000, 3000, 75}, {22050, 24000, 8000, 70},
		{44100, 48000, 1000, 75}, {44100, 48000, 16000, 70}, {11025, 12000, 300, 75}, {11025, 12000, 4000, 70},
		{32000, 48000, 1000, 75}, {8025, 12000, 700, 70},
	} {
		r := newResampler(c.in, c.out)
		pcm := tone(c.hz, c.in, time.Second)
		var got []int16
		for i, n := 0, 0; i < len(pcm); i += n { // pieces of every length
			n = min(1+(i*7)%501, len(pcm)-i)
			got = r.push(pcm[i:i+n], got)
		}
		got = r.flush(got)
		if want := (len(pcm)*r.up + r.down - 1) / r.down; len(got) != want {
			t.Errorf("%d→%d: %d samples, want %d", c.in, c.out, len(got), want)
		}
		middle := got[c.out/10 : len(got)-c.out/10]
		if dB := snr(c.hz, c.out, middle); dB < c.least {
			t.Errorf("%d→%d: %.0f Hz at %.1f dB, want %.0f", c.in, c.out, c.hz, dB, c.least)
		} else {
			t.Logf("%d→%d: %.0f Hz at %.1f dB", c.in, c.out, c.hz, dB)
		}
		// In time with the input: the same tone made at the other rate has the same phase.
		straight := tone(c.hz, c.out, time.Second)
		var off float64
		for i := c.out / 10; i < c.out/2; i++ {
			off = max(off, math.Abs(float64(got[i])-float64(straight[i])))
		}
		if off > 120 { // 1 % of the amplitude
			t.Errorf("%d→%d: %.0f Hz is up to %.0f off its place", c.in, c.out, c.hz, off)
		}
		// And it begins anew after flush, the same whether it comes in one piece or many.
		for i, s := range r.flush(r.push(pcm, nil)) {
			if s != got[i] {
				t.Fatalf("%d→%d: sample %d differs in one piece", c.in, c.out, i)
			}
		}
	}
}

func TestResamplerKeepsImagesOut(t *testing.T) {
	r := newResampler(22050, 24000)
	got := r.flush(r.push(tone(11500, 22050, time.Second), nil)) // beyond what 22.05 kHz holds: comes in as 10550 Hz
	if loud := loudness(got[2400:21600]); loud > 9000 {
		t.Errorf("loudness %.0f", loud)
	}
	got = r.flush(r.push(tone(8000, 22050, time.Second), nil))
	if image := strengthAt(22050-8000, 24000, got[2400:21600]); image > 5 {
		t.Errorf("an image of strength %.1f", image)
	}
}

func strengthAt(hz float64, rate int, pcm []int16) float64 {
	return strength(hz*48000/float64(rate), pcm)
}

func TestResamplerAllocatesNothing(t *testing.T) {
	r := newResampler(44100, 48000)
	pcm, out := tone(440, 44100, 20*ms), make([]int16, 0, 2000)
	r.push(pcm, out)
	if n := testing.AllocsPerRun(100, func() { r.push(pcm, out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkResample20ms(b *testing.B) {
	r := newResampler(44100, 48000)
	pcm, out := tone(440, 44100, 20*ms), make([]int16, 0, 2000)
	b.ReportAllocs()
	for b.Loop() {
		r.push(pcm, out)
	}
}
