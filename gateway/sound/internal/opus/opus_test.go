package opus

import (
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// sine is n samples of a tone at half scale, from sample `from` on.
func sine(hz float64, rate, from, n int) []int16 {
	pcm := make([]int16, n)
	for i := range pcm {
		pcm[i] = int16(16384 * math.Sin(2*math.Pi*hz*float64(from+i)/float64(rate)))
	}
	return pcm
}

func rms(pcm []int16) float64 {
	var sum float64
	for _, s := range pcm {
		sum += float64(s) * float64(s)
	}
	return math.Sqrt(sum / float64(max(len(pcm), 1)))
}

// likeness is the highest normalised correlation of want in got at any shift up to maxShift.
func likeness(want, got []int16, maxShift int) float64 {
	best := 0.0
	for shift := 0; shift <= maxShift && shift+len(want) <= len(got); shift++ {
		var ab, aa, bb float64
		for i, w := range want {
			a, b := float64(w), float64(got[shift+i])
			ab, aa, bb = ab+a*b, aa+a*a, bb+b*b
		}
		best = max(best, ab/math.Sqrt(aa*bb+1))
	}
	return best
}

func newEncoder(t testing.TB, cfg EncoderConfig) *Encoder {
	t.Helper()
	e, err := NewEncoder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func newDecoder(t testing.TB, rate int) *Decoder {
	t.Helper()
	d, err := NewDecoder(rate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// encode codes frames of 20 ms.
func encode(t testing.TB, e *Encoder, pcm []int16) [][]byte {
	t.Helper()
	n := e.Rate() / 50
	var packets [][]byte
	for ; len(pcm) >= n; pcm = pcm[n:] {
		b := make([]byte, 1500)
		size, err := e.Encode(pcm[:n], b)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, b[:size])
	}
	return packets
}

// Every rate in comes out at every rate: as long, and the same tone.
func TestEveryRateToEveryRate(t *testing.T) {
	for _, in := range Rates {
		packets := encode(t, newEncoder(t, EncoderConfig{Rate: in}), sine(440, in, 0, in))
		for _, out := range Rates {
			d := newDecoder(t, out)
			var got []int16
			pcm := make([]int16, MaxSamples)
			for _, p := range packets {
				if n, err := Samples(p, out); err != nil || n != out/50 {
					t.Fatalf("%d→%d: a packet of %d samples, %v", in, out, n, err)
				}
				n, err := d.Decode(p, pcm)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, pcm[:n]...)
			}
			if len(got) != out {
				t.Errorf("%d→%d: %d samples of a second", in, out, len(got))
			}
			if l := likeness(sine(440, out, 0, out/2), got[out/4:], out/100); l < 0.98 {
				t.Errorf("%d→%d: likeness %.3f of the tone", in, out, l)
			}
		}
	}
}

// A lost packet is filled: from what the next one repeats of it better than by concealment, and both better than by silence.
func TestLossIsFilled(t *testing.T) {
	const rate, n = 16000, 320
	speech := sine(300, rate, 0, rate)
	for i := range speech { // a tone that changes, so that guessing is hard
		speech[i] = int16(12000 * math.Sin(2*math.Pi*(200*float64(i)/rate+300*math.Pow(float64(i)/rate, 2))))
	}
	packets := encode(t, newEncoder(t, EncoderConfig{Rate: rate, Bitrate: 24000, FEC: true, ExpectedLoss: 30}), speech)
	whole := decodeAll(t, packets, nil)
	const lost = 25
	if !HasFEC(packets[lost+1]) {
		t.Fatal("the packet after the lost one repeats nothing of it")
	}
	fec := decodeAll(t, packets, func(d *Decoder, i int, pcm []int16) error {
		if i == lost {
			return d.DecodeFEC(packets[lost+1], pcm)
		}
		return errNotLost
	})
	plc := decodeAll(t, packets, func(d *Decoder, i int, pcm []int16) error {
		if i == lost {
			return d.Conceal(pcm)
		}
		return errNotLost
	})
	at := func(pcm []int16) []int16 { return pcm[lost*n : (lost+1)*n] }
	goodFEC, goodPLC := likeness(at(whole), at(fec), 0), likeness(at(whole), at(plc), 0)
	t.Logf("likeness to the lost packet: FEC %.3f, concealed %.3f", goodFEC, goodPLC)
	if goodFEC < 0.9 || rms(at(plc)) < rms(at(whole))/4 {
		t.Errorf("FEC %.3f (want 0.9), concealed loudness %.0f of %.0f", goodFEC, rms(at(plc)), rms(at(whole)))
	}
}

var errNotLost = errors.New("not lost")

func decodeAll(t *testing.T, packets [][]byte, lost func(d *Decoder, i int, pcm []int16) error) []int16 {
	t.Helper()
	d := newDecoder(t, 16000)
	var all []int16
	for i, p := range packets {
		pcm := make([]int16, 320)
		err := errNotLost
		if lost != nil {
			err = lost(d, i, pcm)
		}
		if errors.Is(err, errNotLost) {
			_, err = d.Decode(p, pcm)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pcm...)
	}
	return all
}

// Concealment goes on for as long as it is asked and fades.
func TestConcealmentFades(t *testing.T) {
	d := newDecoder(t, 24000)
	pcm := make([]int16, MaxSamples)
	for _, p := range encode(t, newEncoder(t, EncoderConfig{Rate: 24000}), sine(440, 24000, 0, 12000)) {
		if _, err := d.Decode(p, pcm); err != nil {
			t.Fatal(err)
		}
	}
	first := make([]int16, 480)
	if err := d.Conceal(first); err != nil {
		t.Fatal(err)
	}
	last := make([]int16, 2880)
	for range 3 {
		if err := d.Conceal(last); err != nil {
			t.Fatal(err)
		}
	}
	if rms(first) < 3000 || rms(last) > rms(first)/10 {
		t.Errorf("loudness %.0f at first, %.0f after 380 ms", rms(first), rms(last))
	}
}

func TestDTXMakesSilenceSmall(t *testing.T) {
	e := newEncoder(t, EncoderConfig{Rate: 16000, DTX: true})
	small := 0
	for _, p := range encode(t, e, make([]int16, 16000*2)) {
		if len(p) <= 2 {
			small++
		}
	}
	if small < 50 {
		t.Errorf("%d of 100 packets of silence need not be sent", small)
	}
}

// Long packets are taken: 60 ms frames, and 120 ms of code 3 framing.
func TestLongPackets(t *testing.T) {
	e := newEncoder(t, EncoderConfig{Rate: 48000})
	b := make([]byte, 1500)
	n, err := e.Encode(sine(440, 48000, 0, 2880), b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Samples(b[:n], 48000); got != 2880 || err != nil {
		t.Errorf("%d samples, %v", got, err)
	}
	if got, err := newDecoder(t, 48000).Decode(b[:n], make([]int16, MaxSamples)); got != 2880 || err != nil {
		t.Errorf("%d samples decoded, %v", got, err)
	}
	six := append([]byte{b[0]&^7&^(31<<3) | 9<<3 | 3, 6}, make([]byte, 6)...) // SILK, 20 ms, six frames of one byte
	if got, err := Samples(six, 48000); got != MaxSamples || err != nil {
		t.Errorf("%d samples in six frames, %v", got, err)
	}
	six[1] = 7
	if got, err := Samples(six[:9-1], 48000); err == nil {
		t.Errorf("140 ms taken as %d samples", got)
	}
}

// HasFEC against the only thing that knows: with FEC a decoder that never heard the packet before gives its sound.
func TestHasFECIsTrue(t *testing.T) {
	tone := sine(300, 16000, 0, 16000)
	for i := range tone {
		if i/1600%2 == 0 {
			tone[i] = 0
		}
	}
	for _, cfg := range []EncoderConfig{
		{Rate: 16000, Bitrate: 24000, FEC: true, ExpectedLoss: 25},
		{Rate: 16000, Bitrate: 24000},
		{Rate: 48000, Bitrate: 40000, FEC: true, ExpectedLoss: 25},
	} {
		with := 0
		for _, p := range encode(t, newEncoder(t, cfg), tone) {
			d, pcm := newDecoder(t, 16000), make([]int16, 320)
			if err := d.DecodeFEC(p, pcm); err != nil {
				t.Fatal(err)
			}
			if loud := rms(pcm) > 200; loud != HasFEC(p) && loud {
				t.Errorf("%+v: HasFEC %v, but loudness %.0f came of it", cfg, HasFEC(p), rms(pcm))
			}
			if HasFEC(p) {
				with++
			}
		}
		if cfg.FEC != (with > 10) {
			t.Errorf("%+v: %d packets with FEC", cfg, with)
		}
	}
}

func TestErrorsSayWhatIsAllowed(t *testing.T) {
	d, e := newDecoder(t, 16000), newEncoder(t, EncoderConfig{Rate: 16000})
	good := encode(t, e, make([]int16, 320))[0]
	for _, c := range []struct {
		what  string
		err   error
		kind  error
		words string
	}{
		{"rate", second(NewDecoder(44100)), ErrConfig, "44100 Hz, must be 8000, 12000"},
		{"bitrate", second(NewEncoder(EncoderConfig{Rate: 8000, Bitrate: 1})), ErrConfig, "must be 6000 to 128000"},
		{"loss", second(NewEncoder(EncoderConfig{Rate: 8000, ExpectedLoss: 101})), ErrConfig, "must be 0 to 100"},
		{"complexity", second(NewEncoder(EncoderConfig{Rate: 8000, Complexity: 11})), ErrConfig, "must be 1 to 10"},
		{"empty packet", second(d.Decode(nil, make([]int16, 320))), ErrRefused, "0 bytes, must be 1 to 7680"},
		{"long packet", second(d.Decode(make([]byte, 7681), make([]int16, 320))), ErrRefused, "7681 bytes"},
		{"framing", second(d.Decode([]byte{3}, make([]int16, 320))), ErrRefused, "framing"},
		{"room", second(d.Decode(good, make([]int16, 319))), ErrBuffer, "room for 319 samples, the packet has 320"},
		{"gap", d.Conceal(make([]int16, 41)), ErrBuffer, "multiple of 40 (2.5 ms) up to 1920"},
		{"no gap", d.DecodeFEC(good, nil), ErrBuffer, "0 samples"},
		{"frame", second(e.Encode(make([]int16, 321), make([]byte, 1500))), ErrBuffer, "20 ms are 320"},
		{"small room", second(e.Encode(make([]int16, 320), make([]byte, 2))), ErrBuffer, "1500 is always enough"},
	} {
		if !errors.Is(c.err, c.kind) || !strings.Contains(c.err.Error(), c.words) {
			t.Errorf("%s: got %v, want %v with %q", c.what, c.err, c.kind, c.words)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestClosedTwiceAndUsedAfterwards(t *testing.T) {
	d, e := newDecoder(t, 8000), newEncoder(t, EncoderConfig{Rate: 8000})
	for range 2 {
		if err := errors.Join(d.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
	pcm := make([]int16, 160)
	for what, err := range map[string]error{
		"decode": second(d.Decode([]byte{0}, pcm)), "fec": d.DecodeFEC([]byte{0}, pcm), "conceal": d.Conceal(pcm), "reset": d.Reset(),
		"encode": second(e.Encode(pcm, make([]byte, 100))), "loss": e.SetExpectedLoss(1), "bitrate": e.SetBitrate(20000), "encoder reset": e.Reset(),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s on a closed one: %v", what, err)
		}
	}
}

// Coders are C memory: what Close did not free would stand here.
func TestClosedCodersHoldNoMemory(t *testing.T) {
	churn := func(n int) {
		for range n {
			d, err := NewDecoder(48000)
			if err != nil {
				t.Fatal(err)
			}
			e, err := NewEncoder(EncoderConfig{Rate: 48000})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.Close(), e.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	churn(100)
	before := resident(t)
	churn(3000) // some 150 MB of coders
	if grown := resident(t) - before; grown > 30<<20 {
		t.Errorf("%d MB more after 3000 pairs", grown>>20)
	}
}

// resident is the process' memory in bytes.
func resident(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// After a reset what comes is as from a new one.
func TestResetIsAFreshStart(t *testing.T) {
	e := newEncoder(t, EncoderConfig{Rate: 16000})
	tone := sine(440, 16000, 0, 3200)
	first := encode(t, e, tone)
	if err := e.Reset(); err != nil {
		t.Fatal(err)
	}
	for i, p := range encode(t, e, tone) {
		if string(p) != string(first[i]) {
			t.Fatalf("packet %d differs after a reset", i)
		}
	}
	if err := errors.Join(e.SetExpectedLoss(10), e.SetBitrate(12000)); err != nil {
		t.Error(err)
	}
	d := newDecoder(t, 16000)
	a, b := make([]int16, 320), make([]int16, 320)
	if _, err := d.Decode(first[0], a); err != nil {
		t.Fatal(err)
	}
	if err := d.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(first[0], b); err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("sample %d differs after a reset", i)
		}
	}
}

func TestNoAllocationPerPacket(t *testing.T) {
	e, d := newEncoder(t, EncoderConfig{Rate: 24000, FEC: true, ExpectedLoss: 10}), newDecoder(t, 24000)
	in, out, b := sine(440, 24000, 0, 480), make([]int16, MaxSamples), make([]byte, 1500)
	if n := testing.AllocsPerRun(100, func() {
		size, err := e.Encode(in, b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Decode(b[:size], out); err != nil {
			t.Fatal(err)
		}
		if err := d.Conceal(out[:480]); err != nil {
			t.Fatal(err)
		}
		if err := d.DecodeFEC(b[:size], out[:480]); err != nil {
			t.Fatal(err)
		}
		HasFEC(b[:size])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
