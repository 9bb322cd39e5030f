package sound

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"sightline/gateway/sound/vad"
)

// jfk is real speech, 16 kHz. Its phrases, by ear and waveform: "And so my fellow Americans – ask not – what your country
// can do for you – ask what you can do for your country".
var jfkPhrases = [][2]time.Duration{
	{330 * time.Millisecond, 2250 * time.Millisecond},
	{3290 * time.Millisecond, 4400 * time.Millisecond},
	{5360 * time.Millisecond, 7660 * time.Millisecond},
	{8170 * time.Millisecond, 10500 * time.Millisecond},
}

func readWAV(tb testing.TB, name string) []int16 {
	tb.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	at := bytes.Index(b, []byte("data"))
	if at < 0 {
		tb.Fatalf("%s has no sound", name)
	}
	b = b[at+8:]
	pcm := make([]int16, len(b)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(b[2*i:]))
	}
	return pcm
}

// jfk ends before the next word of the speech begins.
func jfk(tb testing.TB) []int16 {
	return readWAV(tb, "testdata/speech/jfk.wav")[:samples(10800*time.Millisecond)]
}

func samples(d time.Duration) int { return int(d * vad.Rate / time.Second) }

// heard is an event, and when it was told.
type heard struct {
	Speech
	told time.Time
}

func (h heard) at() time.Duration   { return h.At.Sub(dawn) }
func (h heard) when() time.Duration { return h.told.Sub(dawn) }

// hear gives sound to a Listener by 20 ms, as an Ingress does.
func hear(tb testing.TB, p TurnPolicy, pcm []int16) []heard {
	tb.Helper()
	model, err := vad.Load()
	if err != nil {
		tb.Fatal(err)
	}
	l := NewListener(model, p)
	var all []heard
	for i := 0; i+320 <= len(pcm); i += 320 {
		at := dawn.Add(time.Duration(i) * time.Second / vad.Rate)
		for _, e := range l.Hear(pcm[i:i+320], at) {
			all = append(all, heard{e, at.Add(FrameTime)})
		}
	}
	return all
}

// mix adds b to a; what is too loud is cut.
func mix(a, b []int16) []int16 {
	sum := make([]int16, len(a))
	for i := range a {
		sum[i] = int16(max(min(int(a[i])+int(b[i%len(b)]), math.MaxInt16), math.MinInt16))
	}
	return sum
}

func silence(d time.Duration) []int16 { return make([]int16, samples(d)) }

// noise is pink-ish noise with an RMS in dBFS: white noise through a leaky integrator, and some of it as it is.
func noise(d time.Duration, rms float64) []int16 {
	random := rand.New(rand.NewPCG(3, 4))
	x := make([]float64, samples(d))
	low := 0.0
	for i := range x {
		white := random.NormFloat64()
		low = 0.97*low + white
		x[i] = 0.3*white + 0.2*low
	}
	return scaled(x, rms)
}

// music is a bass, chords and a beat at 120 a minute.
func music(d time.Duration, rms float64) []int16 {
	random := rand.New(rand.NewPCG(5, 6))
	x := make([]float64, samples(d))
	chords := [][]float64{{220, 277.2, 329.6}, {196, 246.9, 293.7}, {174.6, 220, 261.6}, {164.8, 207.7, 246.9}}
	for i := range x {
		t := float64(i) / vad.Rate
		beat := math.Mod(t, 0.5)
		chord := chords[int(t)%len(chords)]
		for _, f := range chord {
			for h := 1.0; h <= 4; h++ {
				x[i] += math.Sin(2*math.Pi*f*h*t) / h * math.Exp(-1.5*math.Mod(t, 1))
			}
		}
		x[i] += 1.5*math.Sin(2*math.Pi*chord[0]/2*t) + 2*math.Exp(-40*beat)*random.NormFloat64()
	}
	return scaled(x, rms)
}

// clicks are keys being struck: short bursts, six a second.
func clicks(d time.Duration) []int16 {
	random := rand.New(rand.NewPCG(7, 8))
	pcm := make([]int16, samples(d))
	for start := 0; start+800 < len(pcm); start += 1600 + random.IntN(2400) {
		for i := range 400 {
			pcm[start+i] = int16(random.NormFloat64() * 6000 * math.Exp(-float64(i)/60))
		}
	}
	return pcm
}

func scaled(x []float64, rms float64) []int16 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	gain := 32768 * math.Pow(10, rms/20) / math.Sqrt(sum/float64(len(x)))
	pcm := make([]int16, len(x))
	for i, v := range x {
		pcm[i] = int16(max(min(v*gain, math.MaxInt16), math.MinInt16))
	}
	return pcm
}

func TestListenerHearsPhrases(t *testing.T) {
	speech := append(jfk(t), silence(time.Second)...)
	for name, pcm := range map[string][]int16{
		"clean":                 speech,
		"in noise, 15 dB below": mix(speech, noise(2*time.Second, -37)),
		"over soft music":       mix(speech, music(4*time.Second, -40)),
		"soft":                  mixdown(speech, 8),
	} {
		t.Run(name, func(t *testing.T) {
			events := hear(t, TurnPolicy{}, pcm)
			for _, phrase := range jfkPhrases {
				start, ok := startOf(events, phrase)
				if !ok {
					t.Errorf("the phrase at %v was not heard: %+v", phrase[0], events)
					continue
				}
				if early := phrase[0] - start.at(); early < 0 || early > 450*time.Millisecond {
					t.Errorf("the phrase at %v is said to begin at %v", phrase[0], start.at())
				}
				t.Logf("phrase at %v: told %v later, from %v before on", phrase[0], start.when()-phrase[0], phrase[0]-start.at())
				if late := start.when() - phrase[0]; late > 200*time.Millisecond {
					t.Errorf("the phrase at %v was told of %v later", phrase[0], late)
				}
			}
			last := events[len(events)-1]
			if end := jfkPhrases[3][1]; !last.Final || (last.at()-end).Abs() > 250*time.Millisecond {
				t.Errorf("at last %+v at %v, want a final about %v", last, last.at(), end)
			}
		})
	}
}

// startOf finds the start that belongs to a phrase: told from a little before it to its middle.
func startOf(events []heard, phrase [2]time.Duration) (heard, bool) {
	for _, e := range events {
		if e.Started && e.when() > phrase[0]-150*time.Millisecond && e.when() < (phrase[0]+phrase[1])/2 {
			return e, true
		}
	}
	return heard{}, false
}

func mixdown(pcm []int16, by int16) []int16 {
	soft := make([]int16, len(pcm))
	for i, v := range pcm {
		soft[i] = v / by
	}
	return soft
}

func TestListenerHearsNoSpeechInOtherSounds(t *testing.T) {
	tone := make([]float64, samples(3*time.Second))
	for i := range tone {
		tone[i] = math.Sin(2 * math.Pi * 440 * float64(i) / vad.Rate)
	}
	for name, pcm := range map[string][]int16{
		"silence":    silence(5 * time.Second),
		"soft noise": noise(5*time.Second, -50),
		"loud noise": noise(5*time.Second, -20),
		"music":      music(5*time.Second, -20),
		"clicks":     clicks(5 * time.Second),
		"a tone":     scaled(tone, -15),
		"noise that comes and goes": append(append(append(silence(2*time.Second), noise(3*time.Second, -25)...),
			silence(2*time.Second)...), noise(3*time.Second, -25)...),
	} {
		if events := hear(t, TurnPolicy{}, pcm); len(events) != 0 {
			t.Errorf("%s: %+v at %v", name, events[0], events[0].when())
		}
	}
}

// Two utterances with a pause: one turn when the pause is short, two when it is long.
func TestListenerTellsPausesFromEndsOfTurns(t *testing.T) {
	clip := jfk(t)
	first, second := clip[:samples(2400*time.Millisecond)], clip[samples(8*time.Second):samples(10600*time.Millisecond)]
	for pause, finals := range map[time.Duration]int{150 * time.Millisecond: 1, time.Second: 2} {
		pcm := append(append(append(append([]int16(nil), first...), silence(pause)...), second...), silence(time.Second)...)
		got := 0
		for _, e := range hear(t, TurnPolicy{}, pcm) {
			if e.Final {
				got++
			}
		}
		if got != finals {
			t.Errorf("a pause of %v: %d turns, want %d", pause, got, finals)
		}
	}
}

// How long after the sound of it began speech is told of, at every place of the onset within a frame: barge-in waits for it.
func TestListenerOnsetDelay(t *testing.T) {
	clip := jfk(t)
	var delays []time.Duration
	for _, phrase := range jfkPhrases {
		from, to := samples(phrase[0]-100*time.Millisecond), samples(phrase[0]+500*time.Millisecond)
		for shift := 0; shift < 640; shift += 160 {
			pcm := append(make([]int16, samples(time.Second)+shift), clip[from:to]...)
			start := time.Second + 100*time.Millisecond + time.Duration(shift)*time.Second/vad.Rate
			events := hear(t, TurnPolicy{}, append(pcm, silence(time.Second)...))
			if len(events) == 0 || !events[0].Started {
				t.Fatalf("the phrase at %v was not heard", phrase[0])
			}
			delays = append(delays, events[0].when()-start)
		}
	}
	var sum, most time.Duration
	for _, d := range delays {
		sum, most = sum+d, max(most, d)
	}
	mean := sum / time.Duration(len(delays))
	t.Logf("told %v after the onset in the mean, %v at most", mean, most)
	if mean > 64*time.Millisecond || most > 100*time.Millisecond {
		t.Errorf("told %v after the onset in the mean, %v at most", mean, most)
	}
}

// After a second of silence the Listener hears as one that has heard nothing.
func TestListenerForgetsOverSilence(t *testing.T) {
	model, err := vad.Load()
	if err != nil {
		t.Fatal(err)
	}
	clip := jfk(t)[:75*vad.FrameSamples]
	used, fresh := NewListener(model, TurnPolicy{}), NewListener(model, TurnPolicy{})
	used.Hear(clip, dawn)
	used.Hear(make([]int16, 40*vad.FrameSamples), dawn.Add(3*time.Second))
	for i := 0; i+vad.FrameSamples <= len(clip); i += vad.FrameSamples {
		frame := clip[i : i+vad.FrameSamples]
		used.Hear(frame, dawn.Add(10*time.Second))
		fresh.Hear(frame, dawn.Add(10*time.Second))
		if used.Likely() != fresh.Likely() {
			t.Fatalf("window %d: %v, without what was before %v", i/vad.FrameSamples, used.Likely(), fresh.Likely())
		}
	}
}

func TestListenerAllocatesNothing(t *testing.T) {
	model, err := vad.Load()
	if err != nil {
		t.Fatal(err)
	}
	l, pcm, i := NewListener(model, TurnPolicy{}), jfk(t), 0
	if n := testing.AllocsPerRun(400, func() {
		l.Hear(pcm[i:i+320], dawn)
		i += 320
	}); n > 0 {
		t.Errorf("%v allocations for 20 ms", n)
	}
}

func BenchmarkListener(b *testing.B) {
	model, err := vad.Load()
	if err != nil {
		b.Fatal(err)
	}
	l, pcm, i := NewListener(model, TurnPolicy{}), jfk(b), 0
	b.ReportAllocs()
	for b.Loop() {
		if i+320 > len(pcm) {
			i = 0
		}
		l.Hear(pcm[i:i+320], dawn)
		i += 320
	}
}
