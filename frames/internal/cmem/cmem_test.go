package cmem

import (
	"os"
	"testing"

	"sightline/frames/internal/vpx"
	"sightline/frames/ivf"
)

func TestSeesADecoderThatIsNotClosed(t *testing.T) {
	f, err := os.Open("../../testdata/face480_90.vp8.ivf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, clip, err := ivf.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	before := InUse()
	d, err := vpx.NewVP8()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(clip[0].Data); err != nil {
		t.Fatal(err)
	}
	if grown := InUse() - before; grown < 2<<20 { // references of 640×480 pictures
		t.Errorf("a decoder with pictures of 640×480 takes %d bytes", grown)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if grown := InUse() - before; grown > 256<<10 {
		t.Errorf("%d bytes are left of a decoder that is closed", grown)
	}
}
