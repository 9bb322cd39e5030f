package depdesc

import (
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
)

// Of Chromium 156, mode L3T3 of a 640×360 camera, which has two layers in space: the first packet of a key frame, and others.
const chromiumKey = "810001800514853abfaaa18f04304302a02a006001001b934515e082704608c0c787004321651111543276809f8059813f80b380"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func structure(t testing.TB) *Structure {
	t.Helper()
	f, err := Parse(unhex(t, chromiumKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	return f.Structure
}

func TestChromiumsDescriptors(t *testing.T) {
	f, err := Parse(unhex(t, chromiumKey), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := f.Structure; s == nil || s.Spatial != 2 || s.Sizes != [4][2]int{{320, 180}, {640, 360}} || len(s.templates) != 10 || s.targets != 6 || s.chains != 2 {
		t.Errorf("structure %+v", s)
	}
	if !f.Start || f.End || f.Number != 1 || f.Spatial != 0 || f.Temporal != 0 || len(f.Diffs()) != 0 {
		t.Errorf("frame %+v", f)
	}
	for _, c := range []struct {
		hex  string
		want Frame
		refs []uint16
	}{
		{"410001", Frame{End: true, Number: 1}, nil},
		{"c60002", Frame{Start: true, End: true, Number: 2, Spatial: 1}, []uint16{1}},
	} {
		f, err := Parse(unhex(t, c.hex), structure(t))
		refs := append([]uint16(nil), f.Diffs()...)
		f.diffs, f.n = [16]uint16{}, 0
		if err != nil || f != c.want || !reflect.DeepEqual(refs, c.refs) {
			t.Errorf("%s: %+v refers to %v, %v; want %+v and %v", c.hex, f, refs, err, c.want, c.refs)
		}
	}
}

func TestDescriptorsThatCannotBeRead(t *testing.T) {
	whole := unhex(t, chromiumKey)
	for n := range len(whole) - 1 {
		if f, err := Parse(whole[:n], nil); err == nil {
			t.Errorf("%d bytes of it pass: %+v", n, f)
		}
	}
	for name, c := range map[string]struct {
		hex  string
		with *Structure
		want error
	}{
		"no structure":         {"c10002", nil, ErrTemplate},
		"no such template":     {"ff0002", structure(t), ErrTemplate},
		"layers without end":   {"80000180000000000000000000000000000000000000000000", nil, ErrStructure},
		"17 references":        {"c10002" + "17" + "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", structure(t), ErrStructure},
		"five layers in space": {"800001" + "80" + "0002aa80", nil, ErrStructure},
	} {
		if _, err := Parse(unhex(t, c.hex), c.with); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(unhex(f, chromiumKey))
	f.Add(unhex(f, "c60002"))
	s := structure(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, with := range []*Structure{nil, s} {
			d, err := Parse(b, with)
			if err == nil && (d.Spatial >= maxSpatial || d.Temporal >= 8 || len(d.Diffs()) > 16) {
				t.Fatalf("%+v", d)
			}
			if err == nil && d.Structure != nil && (len(d.Structure.templates) > maxTemplates || d.Structure.Spatial > maxSpatial) {
				t.Fatalf("%+v", d.Structure)
			}
		}
	})
}
