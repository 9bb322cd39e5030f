package opus

import "testing"

// FEC comes and goes within a stream, and the complexity with it: the sound goes on.
func TestFECComesAndGoes(t *testing.T) {
	e := newEncoder(t, EncoderConfig{Rate: 16000, FEC: true, ExpectedLoss: 10})
	d := newDecoder(t, 16000)
	tone := sine(300, 16000, 0, 16000*6)
	for i := range tone {
		if i/1600%2 == 0 {
			tone[i] = 0
		}
	}
	var got []int16
	for second := range 6 {
		percent := 10 * (second % 2)
		if err := e.SetExpectedLoss(percent); err != nil {
			t.Fatal(err)
		}
		with := 0
		for i, p := range encode(t, e, tone[16000*second:16000*(second+1)]) {
			if HasFEC(p) && i > 0 { // the first one repeats what was coded before
				with++
			}
			pcm := make([]int16, 320)
			if _, err := d.Decode(p, pcm); err != nil {
				t.Fatal(err)
			}
			got = append(got, pcm...)
		}
		if (with > 10) != (percent > 0) || with > 0 && percent == 0 {
			t.Errorf("second %d, %d %% expected to be lost: %d packets with FEC", second, percent, with)
		}
	}
	for at := 1600; at+3200+320 < len(got); at += 800 {
		if l := likeness(tone[at:at+3200], got[at:at+3200+320], 320); l < 0.95 {
			t.Errorf("likeness %.3f to the tone from sample %d on", l, at)
		}
	}
}

func TestComplexityIsThatOfTheSettings(t *testing.T) {
	for want, cfg := range map[int]EncoderConfig{
		DefaultComplexity:    {Rate: 16000, FEC: true},
		DefaultComplexityFEC: {Rate: 16000, FEC: true, ExpectedLoss: 1},
		7:                    {Rate: 16000, Complexity: 7},
	} {
		if got, err := cfg.withDefaults(); err != nil || got.Complexity != want {
			t.Errorf("%+v: %d, %v, want %d", cfg, got.Complexity, err, want)
		}
	}
}
