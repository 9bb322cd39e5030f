package realtime

import (
	"math"
	"testing"

	"sightline/switcher/realtime/dialect"
)

// TestG711 holds both laws against values of the recommendation, and every sample against its nearest step.
func TestG711(t *testing.T) {
	for _, k := range []struct {
		sample   int16
		ulaw, al byte
	}{{0, 0xff, 0xd5}, {32767, 0x80, 0xaa}, {-32768, 0x00, 0x2a}, {1000, 0xce, 0xfa}, {-1000, 0x4e, 0x7a}} {
		if u, a := toULaw(k.sample), toALaw(k.sample); u != k.ulaw || a != k.al {
			t.Errorf("%d: µ-law %#02x, A-law %#02x; want %#02x and %#02x", k.sample, u, a, k.ulaw, k.al)
		}
	}
	for s := math.MinInt16; s <= math.MaxInt16; s++ {
		for law, back := range map[string]int16{"µ": fromULaw(toULaw(int16(s))), "A": fromALaw(toALaw(int16(s)))} {
			if off := math.Abs(float64(s) - float64(back)); off > 16+math.Abs(float64(s))/16 {
				t.Fatalf("%s-law: %d comes back as %d", law, s, back)
			}
		}
	}
}

func TestSoundBothWays(t *testing.T) {
	for _, format := range []string{formatPCM, "audio/pcmu", "audio/pcma"} {
		sine := make([]int16, 16000)
		for i := range sine {
			sine[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/16000))
		}
		e := encoder{format: dialect.Format{Type: format}}
		d := decoder{format: dialect.Format{Type: format}}
		var back []int16
		for i := 0; i < len(sine); i += 320 {
			pcm, err := d.decode(e.encode(16000, sine[i:i+320]))
			if err != nil {
				t.Fatal(err)
			}
			back = append(back, pcm...)
		}
		if pcm, err := d.decode(e.flush()); err != nil {
			t.Fatal(err)
		} else {
			back = append(back, pcm...)
		}
		var power float64
		for _, s := range back[dialect.Rate/4 : dialect.Rate*3/4] {
			power += float64(s) * float64(s)
		}
		rms := math.Sqrt(power / float64(dialect.Rate/2))
		if n := len(back); n < dialect.Rate-400 || n > dialect.Rate+10 || math.Abs(rms-8000/math.Sqrt2) > 300 {
			t.Errorf("%s: %d samples of %d, %.0f rms of %.0f", format, n, dialect.Rate, rms, 8000/math.Sqrt2)
		}
	}
}
