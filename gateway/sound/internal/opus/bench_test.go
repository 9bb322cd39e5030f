package opus

import "testing"

func BenchmarkEncode(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  EncoderConfig
	}{
		{"16k", EncoderConfig{Rate: 16000}}, {"24k", EncoderConfig{Rate: 24000}}, {"48k", EncoderConfig{Rate: 48000}},
		{"24k-fec", EncoderConfig{Rate: 24000, FEC: true, ExpectedLoss: 5}}, {"24k-complexity10", EncoderConfig{Rate: 24000, Complexity: 10}},
	} {
		b.Run(c.name, func(b *testing.B) {
			e, in, out := newEncoder(b, c.cfg), sine(300, c.cfg.Rate, 0, c.cfg.Rate/50), make([]byte, 1500)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Encode(in, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, rate := range []int{16000, 24000, 48000} {
		packets := encode(b, newEncoder(b, EncoderConfig{Rate: 48000}), sine(300, 48000, 0, 48000))
		b.Run(map[int]string{16000: "16k", 24000: "24k", 48000: "48k"}[rate], func(b *testing.B) {
			d, pcm, i := newDecoder(b, rate), make([]int16, MaxSamples), 0
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(packets[i%len(packets)], pcm); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
