package frames

import (
	"bytes"
	"testing"
)

var (
	vp9Key   = []byte{0x82, 0x49, 0x83, 0x42, 0x20, 0x27, 0xf0, 0x1d, 0xf0, 0x11, 0x22} // 640×480
	vp9Inter = []byte{0x86, 0x00, 0x40, 0x92, 0x80, 0x33, 0x44}
)

func joined(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// vp9Descriptors are valid ones of every shape, without the data behind them; all start a frame.
var vp9Descriptors = map[string][]byte{
	"no id":                       {0x0c},
	"7 bits":                      {0x8c, 0x05},
	"15 bits":                     {0x8c, 0x81, 0x05},
	"layers":                      {0xac, 0x05, 0x00, 0x07},
	"layers, flexible":            {0xbc, 0x05, 0x00},
	"two references":              {0xdc, 0x05, 0x03, 0x04},
	"three references":            {0xdc, 0x05, 0x03, 0x05, 0x06},
	"structure, one layer":        {0x8e, 0x05, 0x00},
	"structure, sizes":            {0x8e, 0x05, 0x30, 0x01, 0x40, 0x00, 0xf0, 0x02, 0x80, 0x01, 0xe0},
	"structure, group":            {0x8e, 0x05, 0x08, 0x02, 0x08, 0x01, 0x14, 0x02},
	"layers, structure and group": {0xae, 0x05, 0x00, 0x07, 0x18, 0x01, 0x40, 0x00, 0xf0, 0x01, 0x04, 0x01},
}

func TestVP9DescriptorsOfEveryShape(t *testing.T) {
	for name, d := range vp9Descriptors {
		t.Run(name, func(t *testing.T) {
			p, err := vp9Depacketizer{}.parse(joined(d, vp9Key))
			if err != nil || !p.start || !bytes.Equal(p.data, vp9Key) || p.hasPictureID != (d[0]&0x80 != 0) {
				t.Errorf("%+v, %v", p, err)
			}
			if wantKey := d[0]&0x40 == 0; p.key != wantKey || wantKey && (p.width != 640 || p.height != 480) {
				t.Errorf("key %v, %d×%d", p.key, p.width, p.height)
			}
			for n := 1; n <= len(d); n++ {
				if _, err := (vp9Depacketizer{}).parse(d[:n]); err == nil {
					t.Errorf("%d bytes of it pass", n)
				}
			}
		})
	}
	if _, err := (vp9Depacketizer{}).parse([]byte{0xdc, 5, 3, 3, 3, 3, 0x82}); err == nil {
		t.Error("four references pass")
	}
}

// A packet's references do not stay for the next one's: a thousand frames with two each.
func TestVP9ManyReferences(t *testing.T) {
	w := newWire(t, CodecVP9)
	w.frame(joined([]byte{0x9c, 0}, vp9Key))
	for i := range 1000 {
		w.frame(joined([]byte{0xdc, byte(i+1) & 0x7f, 0x03, 0x04}, vp9Inter))
	}
	if len(w.r.got) != 1001 {
		t.Errorf("%d frames came", len(w.r.got))
	}
	w.r.clean()
}

// Of a picture with three spatial layers the lowest comes out; what happens to the others does not matter, as long as their packets come.
func TestVP9UpperLayersAreDropped(t *testing.T) {
	w := newWire(t, CodecVP9)
	layer := func(id, sid byte, inter bool, data []byte) []byte {
		first := byte(0xac)
		if inter {
			first |= 0x40
		}
		return joined([]byte{first, id, sid << 1, 0}, data)
	}
	w.frame(layer(1, 0, false, vp9Key), layer(1, 1, false, vp9Inter), layer(1, 2, false, vp9Inter))
	w.frame(layer(2, 0, true, vp9Inter), layer(2, 1, true, vp9Inter), layer(2, 2, true, vp9Inter))
	w.frame(layer(3, 1, true, vp9Inter)) // a picture without its base is none
	w.frame(layer(4, 0, true, vp9Inter), layer(4, 1, true, vp9Inter))
	w.want(vp9Key, vp9Inter, vp9Inter)
	w.r.clean()
}

func TestVP9WhatIsNoKeyFrame(t *testing.T) {
	intra := []byte{0x84, 0x80, 0x49, 0x83, 0x42} // not shown, intra only
	for name, frame := range map[string][]byte{
		"P bit 0, but an inter frame": vp9Inter,
		"intra only":                  intra,
		"profile 2":                   joined([]byte{0x92}, vp9Key[1:]),
		"wrong sync code":             {0x82, 0x49, 0x83, 0x43, 0x20, 0x27, 0xf0, 0x1d, 0xf0},
		"65536×65536":                 {0x82, 0x49, 0x83, 0x42, 0x2f, 0xff, 0xff, 0xff, 0xff, 0xff},
		"key frame cut":               vp9Key[:6],
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, CodecVP9)
			w.frame(joined([]byte{0x0c}, frame))
			w.frame(joined([]byte{0x4c}, vp9Inter))
			w.want()
			if !w.r.a.needKey {
				t.Error("no key frame wanted")
			}
			w.frame(joined([]byte{0x0c}, vp9Key))
			w.want(vp9Key)
		})
	}
}

// A size in an inter frame is checked too, and that of every frame of a superframe.
func TestVP9SizesInsideTheStream(t *testing.T) {
	large := []byte{0x86, 0x00, 0x00, 0x00, 0x07, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff} // inter, no size from a reference
	for name, frame := range map[string][]byte{
		"inter frame": large,
		"superframe":  joined(vp9Inter, large, []byte{0xc1, byte(len(vp9Inter)), byte(len(large)), 0xc1}),
		"index over":  joined(vp9Inter, []byte{0xc1, 200, 200, 0xc1}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, CodecVP9)
			w.frame(joined([]byte{0x0c}, vp9Key))
			w.frame(joined([]byte{0x4c}, frame))
			w.want(vp9Key)
			if w.r.a.fdrops.Refused != 1 || !w.r.a.needKey {
				t.Errorf("%+v", w.r.a.fdrops)
			}
		})
	}
}
