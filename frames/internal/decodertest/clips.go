package decodertest

import (
	"bytes"
	"embed"
	"testing"

	"sightline/frames/internal/h264hdr"
	"sightline/frames/ivf"
)

//go:embed testdata/*.ivf testdata/*.h264 testdata/*.md5
var clips embed.FS

// Frames are the frames of a clip in testdata: an IVF file, or the access units of an Annex B stream.
func Frames(t testing.TB, name string) [][]byte {
	t.Helper()
	b, err := clips.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.HasSuffix([]byte(name), []byte(".h264")) {
		return AccessUnits(b)
	}
	_, fs, err := ivf.ReadAll(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, f := range fs {
		out = append(out, f.Data)
	}
	return out
}

// AccessUnits cuts an Annex B stream whose pictures have one slice each, or several of which only one is the first.
func AccessUnits(b []byte) (units [][]byte) {
	var unit []byte
	closed := false // unit has its slices
	for nal, rest := h264hdr.NextNAL(b); nal != nil; nal, rest = h264hdr.NextNAL(rest) {
		slice := false
		if len(nal) > 0 {
			switch h264hdr.Type(nal) {
			case h264hdr.TypeSlice, h264hdr.TypeIDR:
				slice = true
			}
		}
		first := false
		if slice {
			s, _ := h264hdr.ParseSlice(nal)
			first = s.First
		}
		if closed && (!slice || first) {
			units, unit, closed = append(units, unit), nil, false
		}
		unit = append(append(unit, 0, 0, 0, 1), nal...)
		closed = closed || slice
	}
	if closed {
		units = append(units, unit)
	}
	return units
}
