package sound

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"

	"sightline/gateway/sound/internal/opus"
)

// frames collects what an Ingress gives.
type frames struct {
	pcm map[int][]int16
	at  map[int][]time.Time
}

func (f *frames) take(rate int, pcm []int16, at time.Time) {
	f.pcm[rate] = append(f.pcm[rate], pcm...)
	f.at[rate] = append(f.at[rate], at)
}

func newIngress(tb testing.TB, cfg IngressConfig) (*Ingress, *frames) {
	tb.Helper()
	got := &frames{pcm: map[int][]int16{}, at: map[int][]time.Time{}}
	cfg.PayloadType = 111
	if cfg.Frame == nil {
		cfg.Frame = got.take
	}
	in, err := NewIngress(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(in.close)
	return in, got
}

// coded is sound as RTP packets of 20 ms.
func coded(tb testing.TB, pcm []int16, rate int) []*rtp.Packet {
	tb.Helper()
	enc, err := opus.NewEncoder(opus.EncoderConfig{Rate: rate, FEC: true, ExpectedLoss: 15})
	if err != nil {
		tb.Fatal(err)
	}
	defer enc.Close()
	var packets []*rtp.Packet
	buf := make([]byte, 1500)
	for n, i := rate/50, 0; i+n <= len(pcm); i += n {
		size, err := enc.Encode(pcm[i:i+n], buf)
		if err != nil {
			tb.Fatal(err)
		}
		k := len(packets)
		packets = append(packets, &rtp.Packet{
			Header:  rtp.Header{Version: 2, PayloadType: 111, SSRC: 5, SequenceNumber: uint16(65000 + k), Timestamp: uint32(k * opusFrame)},
			Payload: slices.Clone(buf[:size]),
		})
	}
	return packets
}

// network carries packets that leave each 20 ms from dawn on; it gives nil for a lost one.
type network func(i int, p *rtp.Packet) (at time.Time, arrives bool)

// carry plays packets through an Ingress in made-up time, until d after dawn.
func carry(t *testing.T, in *Ingress, packets []*rtp.Packet, net network, d time.Duration) {
	t.Helper()
	var way []onTheWay
	for i, p := range packets {
		if at, ok := net(i, p); ok {
			way = append(way, onTheWay{p, at})
		}
	}
	slices.SortStableFunc(way, func(a, b onTheWay) int { return a.at.Compare(b.at) })
	for now := dawn; now.Before(dawn.Add(d)); now = now.Add(FrameTime) {
		for len(way) > 0 && !way[0].at.After(now) {
			in.Push(way[0].packet, way[0].at)
			way = way[1:]
		}
		if err := in.tick(now); err != nil {
			t.Fatal(err)
		}
	}
}

func leaving(i int) time.Time { return dawn.Add(time.Duration(i+1) * FrameTime) }

// envelope is the level of each millisecond.
func envelope(pcm []int16, rate int) []float64 {
	n := rate / 1000
	e := make([]float64, len(pcm)/n)
	for i := range e {
		for _, v := range pcm[i*n : (i+1)*n] {
			e[i] += math.Abs(float64(v))
		}
	}
	return e
}

// lagOf is by how many milliseconds b lags behind a around a's millisecond at, as their envelopes say; likeness 0 to 1.
func lagOf(a, b []float64, at, width, most int) (lag int, like float64) {
	for l := -most; l <= most; l++ {
		var ab, aa, bb float64
		for i := at - width; i < at+width; i++ {
			if i < 0 || i >= len(a) || i+l < 0 || i+l >= len(b) {
				continue
			}
			ab += a[i] * b[i+l]
			aa += a[i] * a[i]
			bb += b[i+l] * b[i+l]
		}
		if c := ab / (math.Sqrt(aa*bb) + 1); c > like {
			like, lag = c, l
		}
	}
	return lag, like
}

func TestIngressGivesTheSoundAtEveryRate(t *testing.T) {
	clip := jfk(t)
	in, got := newIngress(t, IngressConfig{Rates: []int{48000, 16000, 24000}})
	carry(t, in, coded(t, clip, 16000), func(i int, _ *rtp.Packet) (time.Time, bool) { return leaving(i), true }, 11*time.Second)
	want := envelope(clip, 16000)
	for _, rate := range []int{16000, 24000, 48000} {
		pcm := got.pcm[rate]
		if len(pcm) != 11*rate || len(got.at[rate]) != 550 {
			t.Fatalf("at %d Hz: %d samples in %d frames of 11 s", rate, len(pcm), len(got.at[rate]))
		}
		lag, like := lagOf(want, envelope(pcm, rate), 5000, 4800, 200)
		t.Logf("at %d Hz %d ms later, %.3f alike", rate, lag, like)
		// Sound leaves when its packet is full, is held for 30 ms, and libopus looks 6.5 ms ahead.
		if lag < 50 || lag > 60 || like < 0.95 {
			t.Errorf("at %d Hz the sound comes %d ms later and is %.3f alike", rate, lag, like)
		}
	}
	if c := in.Counts(); c.Lost+c.Dropped+c.Malformed != 0 || c.Packets != 540 || c.Shortened != 0 {
		t.Errorf("%+v", c)
	}
	for i, at := range got.at[16000][50:500] {
		now := dawn.Add(time.Duration(50+i) * FrameTime)
		if off := now.Sub(at) - 30*time.Millisecond; off.Abs() > time.Millisecond {
			t.Fatalf("frame %d: its sound came in %v before it is given, want 30 ms", i, now.Sub(at))
		}
	}
}

// 5 % lost, order mixed, up to 40 ms of jitter: the sound stays with the wall clock, is understood, and is never held long.
func TestIngressOverABadNetwork(t *testing.T) {
	clip := jfk(t)
	random := rand.New(rand.NewPCG(11, 12))
	in, got := newIngress(t, IngressConfig{Rates: []int{16000}})
	carry(t, in, coded(t, clip, 16000), func(i int, _ *rtp.Packet) (time.Time, bool) {
		return leaving(i).Add(time.Duration(random.IntN(40)) * time.Millisecond), random.IntN(20) != 0
	}, 11*time.Second)
	c := in.Counts()
	t.Logf("%+v", c)
	if c.Lost < 15 || c.Lost > 45 || c.Repaired < 100*time.Millisecond || c.Dropped != 0 {
		t.Errorf("%+v", c)
	}
	want, have := envelope(clip, 16000), envelope(got.pcm[16000], 16000)
	least, most := 1000, 0
	for _, phrase := range jfkPhrases {
		middle := int((phrase[0] + phrase[1]) / 2 / time.Millisecond)
		lag, like := lagOf(want, have, middle, 600, 250)
		least, most = min(least, lag), max(most, lag)
		if like < 0.85 {
			t.Errorf("about %d ms the sound is %.2f alike", middle, like)
		}
	}
	t.Logf("the sound comes %d to %d ms later", least, most)
	if most-least >= 20 || most > 120 {
		t.Errorf("the sound comes %d to %d ms later: it should stay with the clock within 20 ms", least, most)
	}
	events := hear(t, TurnPolicy{}, got.pcm[16000])
	for _, phrase := range jfkPhrases {
		if _, ok := startOf(events, [2]time.Duration{phrase[0] + 60*time.Millisecond, phrase[1] + 60*time.Millisecond}); !ok {
			t.Errorf("the phrase at %v is not heard any more", phrase[0])
		}
	}
}

// After an outage of 300 ms nothing is missing, and the delay is back within two seconds although somebody speaks.
func TestIngressGivesDelayBackWhileSomebodySpeaks(t *testing.T) {
	clip := jfk(t)
	in, got := newIngress(t, IngressConfig{Rates: []int{16000, 24000, 48000}})
	outage := dawn.Add(5600 * time.Millisecond)
	carry(t, in, coded(t, clip, 16000), func(i int, _ *rtp.Packet) (time.Time, bool) {
		if at := leaving(i); at.Before(outage) || at.After(outage.Add(300*time.Millisecond)) {
			return at, true
		}
		return outage.Add(300 * time.Millisecond), true
	}, 11*time.Second)
	c := in.Counts()
	if c.Dropped+c.Lost != 0 || c.Shortened < 200*time.Millisecond || c.Shortened > 400*time.Millisecond {
		t.Errorf("%+v", c)
	}
	want := envelope(clip, 16000)
	for rate, pcm := range got.pcm {
		have := envelope(pcm, rate)
		before, _ := lagOf(want, have, 3800, 700, 400)
		during, like := lagOf(want, have, 6100, 250, 500)
		after, _ := lagOf(want, have, 9500, 700, 400)
		t.Logf("%d Hz: %d ms late before, %d after the outage (%.2f alike), %d later", rate, before, during, like, after)
		if during < before+100 || after > before+60 {
			t.Errorf("%d Hz: %d ms late before, %d after the outage, %d later", rate, before, during, after)
		}
	}
	for i, at := range got.at[16000][1:] {
		if step := at.Sub(got.at[16000][i]); step < FrameTime-slewBack || step > FrameTime+slewOn {
			t.Fatalf("frame %d began %v after the one before", i+1, step)
		}
	}
}

// What is taken out of a voice is whole periods of it: no edge is heard.
func TestIngressTakesWholePeriodsOut(t *testing.T) {
	for _, pitch := range []float64{125, 180, 310} {
		pcm := make([]int16, 320)
		for i := range pcm {
			pcm[i] = int16(8000 * math.Sin(2*math.Pi*pitch*float64(i)/16000))
		}
		v := &voice{rate: 16000, pcm: pcm}
		in := &Ingress{voices: []*voice{v}, sound: soundBefore}
		lag := in.shorten(step{kind: stepPacket, ticks: opusFrame, excess: opusFrame}) / 3
		if periods := float64(lag) * pitch / 16000; math.Abs(periods-math.Round(periods)) > 0.03 {
			t.Errorf("%v Hz: %d samples are %.2f periods", pitch, lag, periods)
		}
		slope := 8000 * 2 * math.Pi * pitch / 16000
		for i := 1; i < len(pcm)-lag; i++ {
			if step := math.Abs(float64(pcm[i]) - float64(pcm[i-1])); step > 1.3*slope {
				t.Fatalf("%v Hz: a step of %.0f at %d, at most %.0f are in it", pitch, step, i, slope)
			}
		}
	}
}

// A sender with DTX sends nothing, or next to nothing, while it is still: the pauses keep their length.
func TestIngressHoldsWallTimeThroughDTX(t *testing.T) {
	clip := mix(jfk(t)[:16000*5], noise(time.Second, -62))
	clear(clip[16000*24/10 : 16000*31/10]) // the pause between the first two phrases, still
	enc, err := opus.NewEncoder(opus.EncoderConfig{Rate: 16000, DTX: true})
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	in, got := newIngress(t, IngressConfig{Rates: []int{16000}})
	var packets []*rtp.Packet
	var leaves []time.Time
	buf := make([]byte, 1500)
	for i := 0; (i+1)*320 <= len(clip); i++ {
		n, err := enc.Encode(clip[i*320:(i+1)*320], buf)
		if err != nil {
			t.Fatal(err)
		}
		if n > 2 {
			packets = append(packets, &rtp.Packet{
				Header:  rtp.Header{PayloadType: 111, SequenceNumber: uint16(len(packets)), Timestamp: uint32(i * opusFrame)},
				Payload: slices.Clone(buf[:n]),
			})
			leaves = append(leaves, leaving(i))
		}
	}
	if len(packets) > 245 {
		t.Fatalf("%d of 250 packets sent: no DTX", len(packets))
	}
	carry(t, in, packets, func(i int, _ *rtp.Packet) (time.Time, bool) { return leaves[i], true }, 5*time.Second)
	want, have := envelope(clip, 16000), envelope(got.pcm[16000], 16000)
	before, _ := lagOf(want, have, 1300, 900, 200)
	after, like := lagOf(want, have, 3900, 700, 200)
	if (before-after) > 10 || (after-before) > 10 || like < 0.9 {
		t.Errorf("%d ms late before the pause, %d after it (%.2f alike); %d packets, %+v", before, after, like, len(packets), in.Counts())
	}
	if c := in.Counts(); c.Lost != 0 {
		t.Errorf("%+v", c)
	}
}

func TestIngressChangesRatesOnTheWay(t *testing.T) {
	clip := jfk(t)[:16000*4]
	in, got := newIngress(t, IngressConfig{Rates: []int{16000}})
	packets := coded(t, clip, 16000)
	for i, p := range packets {
		in.Push(p, leaving(i))
		switch i {
		case 20:
			if err := in.SetRates(48000, 16000, 48000); err != nil {
				t.Fatal(err)
			}
		case 100:
			if err := in.SetRates(44100); err == nil {
				t.Fatal("44100 Hz accepted")
			}
			_ = in.SetRates(24000)
		case 150:
			_ = in.SetRates()
		}
		if err := in.tick(leaving(i)); err != nil {
			t.Fatal(err)
		}
	}
	if a, b, c := len(got.at[16000]), len(got.at[48000]), len(got.at[24000]); a != 100 || b != 80 || c != 50 {
		t.Errorf("%d frames at 16, %d at 48, %d at 24 kHz; want 100, 80, 50", a, b, c)
	}
	if !slices.Equal(got.at[16000][20:], got.at[48000]) {
		t.Error("the same sound has different times at different rates")
	}
	lag, like := lagOf(envelope(got.pcm[16000][20*320:], 16000), envelope(got.pcm[48000], 48000), 900, 600, 50)
	if lag != 0 || like < 0.97 {
		t.Errorf("at 48 kHz the sound is %d ms off, %.2f alike", lag, like)
	}
}

func TestIngressMakesMonoOfStereoAndLeavesOtherPayloadsAlone(t *testing.T) {
	in, got := newIngress(t, IngressConfig{Rates: []int{16000}})
	for i, p := range coded(t, jfk(t)[:32000], 16000) {
		p.Payload[0] |= 4 // says stereo: not this coder's, but a decoder must give mono whatever comes
		in.Push(p, leaving(i))
		in.Push(&rtp.Packet{Header: rtp.Header{PayloadType: 13, SequenceNumber: p.SequenceNumber + 1}, Payload: []byte{1}}, leaving(i))
		if err := in.tick(leaving(i)); err != nil {
			t.Fatal(err)
		}
	}
	if c := in.Counts(); len(got.pcm[16000]) != 32000 || c.Foreign != 100 || c.Lost != 0 {
		t.Errorf("%d samples, %+v", len(got.pcm[16000]), c)
	}
}

// G13: Run gives silence on the clock when nothing comes, and leaves nothing behind when it returns.
func TestG13IngressRunKeepsTimeWithoutPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		var last time.Time
		var in *Ingress
		var decoder *opus.Decoder
		in, _ = newIngress(t, IngressConfig{Rates: []int{16000}, Frame: func(_ int, pcm []int16, at time.Time) {
			if len(pcm) != 320 || levelOf(pcm).Peak != Floor {
				t.Error("no silence")
			}
			if n.Add(1) > 1 && at.Sub(last) != FrameTime {
				t.Errorf("%v after the frame before", at.Sub(last))
			}
			last, decoder = at, in.voices[0].decoder
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- in.Run(ctx) }()
		time.Sleep(10*time.Second + FrameTime/2)
		if got := n.Load(); got != 501 {
			t.Errorf("%d frames in 10 s", got)
		}
		cancel()
		if err := <-done; err != nil || in.voices != nil {
			t.Errorf("Run: %v; decoders left: %d", err, len(in.voices))
		}
		if err := decoder.Conceal(make([]int16, 320)); !errors.Is(err, opus.ErrClosed) {
			t.Errorf("the decoder is not closed: %v", err)
		}
	})
}

// A Run that was kept from running leaves frames out and says so, and its times are right at once.
func TestIngressRunThatCannotKeepUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		ctx, cancel := context.WithCancel(t.Context())
		in, _ := newIngress(t, IngressConfig{Rates: []int{16000}, Frame: func(_ int, _ []int16, at time.Time) {
			switch n++; n {
			case 5:
				time.Sleep(2 * time.Second)
			case 6:
				if off := time.Since(at); off > 100*time.Millisecond {
					t.Errorf("the first frame after a stop is said to be %v old", off)
				}
				cancel()
			}
		}})
		if err := in.Run(ctx); err != nil {
			t.Error(err)
		}
		if c := in.Counts(); c.Unread < 90 || c.Unread > 100 {
			t.Errorf("%d frames left out in 2 s", c.Unread)
		}
	})
}

func TestIngressConfig(t *testing.T) {
	give := func(int, []int16, time.Time) {}
	for name, cfg := range map[string]IngressConfig{
		"no Frame":        {},
		"a strange rate":  {Frame: give, Rates: []int{44100}},
		"delays reversed": {Frame: give, MinDelay: 90 * time.Millisecond, MaxDelay: 50 * time.Millisecond},
		"a long delay":    {Frame: give, MaxDelay: time.Second},
		"a negative one":  {Frame: give, MinDelay: -1},
	} {
		if _, err := NewIngress(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The audio path: at most one allocation for a packet, from Push to Frame.
func TestG12IngressAllocatesLessThanOncePerPacket(t *testing.T) {
	in, _ := newIngress(t, IngressConfig{Rates: []int{16000, 24000}, Frame: func(int, []int16, time.Time) {}})
	packets, i := coded(t, jfk(t), 16000), 0
	if n := testing.AllocsPerRun(400, func() {
		in.Push(packets[i], leaving(i))
		_ = in.tick(leaving(i))
		i++
	}); n > 1 {
		t.Errorf("%v allocations for a packet", n)
	}
}

func BenchmarkIngress(b *testing.B) {
	in, _ := newIngress(b, IngressConfig{Rates: []int{16000, 24000}, Frame: func(int, []int16, time.Time) {}})
	packets, i := coded(b, jfk(b), 16000), 0
	b.ReportAllocs()
	for b.Loop() {
		p := packets[i%len(packets)]
		p.SequenceNumber, p.Timestamp = uint16(i), uint32(i*opusFrame)
		in.Push(p, leaving(i))
		if err := in.tick(leaving(i)); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
