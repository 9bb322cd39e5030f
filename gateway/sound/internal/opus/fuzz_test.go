package opus

import (
	"errors"
	"testing"
)

// FuzzDecode: whatever comes, the decoder gives as many samples as the headers say or an error, and lives on.
func FuzzDecode(f *testing.F) {
	for _, rate := range []int{8000, 48000} {
		for _, p := range encode(f, newEncoder(f, EncoderConfig{Rate: rate, FEC: true, ExpectedLoss: 30}), sine(300, rate, 0, rate/10)) {
			f.Add(p)
		}
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0x4b, 0x46, 255, 255, 0, 1, 2, 3})
	f.Add([]byte{4<<3 | 4 | 2, 252, 0, 1, 2, 3})
	good := encode(f, newEncoder(f, EncoderConfig{Rate: 16000}), sine(300, 16000, 0, 320))[0]
	decoders := make(map[int]*Decoder)
	for _, r := range Rates {
		decoders[r] = newDecoder(f, r)
	}
	pcm := make([]int16, MaxSamples)
	f.Fuzz(func(t *testing.T, packet []byte) {
		HasFEC(packet)
		for r, d := range decoders {
			want, err := Samples(packet, r)
			if ferr := d.DecodeFEC(packet, pcm[:r/50]); (ferr == nil) != (err == nil) && !errors.Is(ferr, ErrCodec) {
				t.Fatalf("FEC says %v, the headers %v", ferr, err)
			}
			n, derr := d.Decode(packet, pcm)
			if derr == nil && (n != want || err != nil) {
				t.Fatalf("%d samples at %d Hz, the headers say %d, %v", n, r, want, err)
			}
			if n, err := d.Decode(good, pcm); err != nil || n != r/50 {
				t.Fatalf("a sound packet afterwards: %d samples, %v", n, err)
			}
		}
	})
}
