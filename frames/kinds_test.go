package frames

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"

	"sightline/frames/internal/decodertest"
	"sightline/frames/internal/h264hdr"
	"sightline/frames/ivf"
)

// readKind gives the frames of a clip in testdata/kinds.
func readKind(t *testing.T, c Codec, name string) (frames [][]byte) {
	t.Helper()
	b, err := os.ReadFile("testdata/kinds/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if c == CodecH264 {
		return decodertest.AccessUnits(b)
	}
	_, fs, err := ivf.ReadAll(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		frames = append(frames, f.Data)
	}
	return frames
}

// sums are those of the pictures that FFmpeg makes of h264-bframes.h264, in order of display.
const sums = `
4e809487c5f2a5257a8d13372174d790
fcf5a6df29fbb64cb518c34955c66c77
c81d84968dda08258f3b129ca440c2de
c9e75f9d64862f60f2a0dd2103e40b56
31201e91d1c818bfdbc893f38f5cdafd
ade05336e504ed6e24f3365b568c2656
04a591f9bc396d5469418906a6cd9b96
ba505edb9162a893e1013c60d5d90689
c05a2ec993effcbaa696777c56e955ee
eb4e64cb11a26cf56d091534b2f042bf
a28ed394525d3eab2af37821ac2af073
184e4e59ba379855e260e38642c73aec
`

// sumOf is FFmpeg's sum of a picture.
func sumOf(p *Picture) string {
	h := md5.New()
	cw, ch := p.ChromaSize()
	for y := range p.Height {
		h.Write(p.Y[y*p.YStride:][:p.Width])
	}
	for _, plane := range [][]byte{p.U, p.V} {
		for y := range ch {
			h.Write(plane[y*p.CStride:][:cw])
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// TestKindsThatCallsDoNotHave: every frame of them is refused before a decoder sees it, or decodes; the next call's stream then decodes.
func TestKindsThatCallsDoNotHave(t *testing.T) {
	for _, c := range []struct {
		name    string
		codec   Codec
		decodes int // of 12 or 4
		refused uint64
		broken  bool // what is refused leaves no chain
	}{
		{"h264-bframes.h264", CodecH264, 5, 7, false}, // I and P: B is left out, and nothing refers to it
		{"h264-bpyramid.h264", CodecH264, 0, 0, true}, // B that others refer to
		{"h264-interlaced.h264", CodecH264, 0, 4, true},
		{"h264-gray.h264", CodecH264, 0, 1, true},
		{"av1-gray.ivf", CodecAV1, 0, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pay rtp.Payloader = &codecs.H264Payloader{}
			good := decodertest.Frames(t, "h264-160x120.h264")[:3]
			if c.codec == CodecAV1 {
				pay, good = &codecs.AV1Payloader{}, decodertest.Frames(t, "av1-160x120.ivf")[:3]
			}
			a := asleep(c.codec)
			a.wake()
			dec, err := newDecoder(c.codec)
			if err != nil {
				t.Fatal(err)
			}
			defer dec.Close()
			s, decoded := &rtp.Header{Version: 2}, 0
			send := func(frames [][]byte, ours bool) {
				for _, data := range frames {
					parts := pay.Payload(400, data)
					for i, part := range parts {
						s.Marker = i == len(parts)-1
						for _, f := range a.push(&rtp.Packet{Header: *s, Payload: part}, t0.Add(time.Duration(s.Timestamp)*time.Second/videoClock)) {
							pic, err := dec.Decode(f.data)
							if err != nil {
								t.Errorf("frame %d: %v", decoded, err)
							}
							if c.name == "h264-bframes.h264" && ours && !strings.Contains(sums, sumOf(&pic)) {
								t.Errorf("frame %d is no picture of the clip", decoded)
							}
							decoded++
						}
						s.SequenceNumber++
					}
					s.Timestamp += 3000
				}
			}
			send(readKind(t, c.codec, c.name), true)
			d := a.fdrops
			if c.name != "h264-bpyramid.h264" && (decoded != c.decodes || d.Refused != c.refused) || d.Refused == 0 || a.needKey != c.broken {
				t.Errorf("%d decoded, %+v, need key %v", decoded, d, a.needKey)
			}
			decoded = 0
			if send(good, false); decoded != 3 || a.needKey {
				t.Errorf("%d of 3 sound frames behind it decoded", decoded)
			}
		})
	}
}

// TestH264ParameterSetsOfTheSDPAlone: a sender that tells them nowhere else is shown, whatever else its SDP says.
func TestH264ParameterSetsOfTheSDPAlone(t *testing.T) {
	sets, bare := []string{"!", ""}, [][]byte{}
	for i, unit := range decodertest.Frames(t, "h264-160x120.h264")[:3] {
		var rest []byte
		for nal, more := h264hdr.NextNAL(unit); nal != nil; nal, more = h264hdr.NextNAL(more) {
			switch h264hdr.Type(nal) {
			case h264hdr.TypeSPS, h264hdr.TypePPS:
				if i == 0 {
					sets = append(sets, base64.StdEncoding.EncodeToString(nal))
				}
			default:
				rest = append(append(rest, 0, 0, 0, 1), nal...)
			}
		}
		bare = append(bare, rest)
	}
	if len(sets) != 4 {
		t.Fatalf("parameter sets %v", sets)
	}
	for sprop, want := range map[string]int{
		sets[0] + "," + sets[1] + "," + sets[2] + ", " + sets[3]: 3,
		sets[3] + "," + sets[2]:                                  3,
		sets[2]:                                                  0, // the other is missing
		"":                                                       0,
	} {
		track, err := NewTrack(TrackConfig{Codec: CodecH264, ParameterSets: sprop, Policy: PolicyFull})
		if err != nil {
			t.Fatal(err)
		}
		track.asm.wake()
		dec, err := newDecoder(CodecH264)
		if err != nil {
			t.Fatal(err)
		}
		decoded, seq := 0, uint16(0)
		for n, unit := range append(bare[1:2:2], bare...) { // an IDR without its sets begins a frame where the last one has ended
			parts := (&codecs.H264Payloader{}).Payload(400, unit)
			for i, part := range parts {
				p := &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: seq, Timestamp: uint32(3000 * n), Marker: i == len(parts)-1}, Payload: part}
				seq++
				for _, f := range track.asm.push(p, t0) {
					if pic, err := dec.Decode(f.data); err != nil || pic.Width != 160 {
						t.Errorf("%q: %d wide, %v", sprop, pic.Width, err)
					}
					decoded++
				}
			}
		}
		if decoded != want {
			t.Errorf("%q: %d pictures, want %d", sprop, decoded, want)
		}
		dec.Close()
	}
}
