package frames

import (
	"bytes"
	"testing"

	"sightline/frames/internal/av1hdr"
)

// OBUs as they go over RTP, without size fields.
var (
	av1Seq   = joined([]byte{0x08}, testSequence)
	av1Key   = []byte{0x30, 0x10, 1, 2, 3, 4, 5, 6}
	av1Inter = []byte{0x30, 0x30, 7, 8, 9}
)

func sized(obus ...[]byte) (out []byte) {
	for _, b := range obus {
		o, _, err := av1hdr.ParseOBU(b)
		if err != nil {
			panic(err)
		}
		out = av1hdr.AppendOBU(out, o)
	}
	return out
}

// aggregate is one payload: W=0, every element with its length.
func aggregate(flags byte, elements ...[]byte) []byte {
	b := []byte{flags}
	for _, e := range elements {
		b = append(append(b, byte(len(e))), e...)
	}
	return b
}

func TestAV1EveryWayToSendATemporalUnit(t *testing.T) {
	key, inter := sized(av1Seq, av1Key), sized(av1Inter)
	for name, payloads := range map[string][][]byte{
		"W=0":                      {aggregate(av1N, av1Seq, av1Key)},
		"W=2":                      {joined([]byte{av1N | 0x20, byte(len(av1Seq))}, av1Seq, av1Key)},
		"one OBU a packet":         {joined([]byte{av1N | 0x10}, av1Seq), joined([]byte{0x10}, av1Key)},
		"fragments":                {joined([]byte{av1N | av1Y | 0x20, byte(len(av1Seq))}, av1Seq, av1Key[:3]), joined([]byte{av1Z | av1Y | 0x10}, av1Key[3:5]), joined([]byte{av1Z | 0x10}, av1Key[5:])},
		"fragments, W=0":           {aggregate(av1N|av1Y, av1Seq, av1Key[:3]), aggregate(av1Z, av1Key[3:])},
		"with a delimiter":         {aggregate(0, []byte{0x10}, av1Seq, av1Key)},
		"OBUs with size fields":    {aggregate(av1N, sized(av1Seq), sized(av1Key))},
		"metadata between":         {aggregate(av1N, av1Seq, []byte{0x28, 1, 2}, av1Key)},
		"an upper layer behind":    {aggregate(av1N, av1Seq, av1Key, []byte{0x34, 0x08, 0x10, 1})},
		"without the N bit":        {aggregate(0, av1Seq, av1Key)},
		"sequence header in two":   {joined([]byte{av1N | av1Y | 0x10}, av1Seq[:5]), joined([]byte{av1Z | 0x20, byte(len(av1Seq) - 5)}, av1Seq[5:], av1Key)},
		"padding OBU (reserved 9)": {aggregate(av1N, av1Seq, []byte{0x48, 0}, av1Key)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, CodecAV1)
			w.frame(payloads...)
			w.frame(aggregate(0, av1Inter))
			w.frame(payloads...)
			w.want(key, inter, key)
			w.r.clean()
		})
	}
}

func TestAV1WhatIsNoFrame(t *testing.T) {
	key := sized(av1Seq, av1Key)
	deep := bytes.Clone(testSequence)
	deep[0] |= 0x20 // profile 1
	for name, c := range map[string]struct {
		payload []byte
		breaks  bool
	}{
		"no element":                    {[]byte{0x10}, true},
		"length over the end":           {[]byte{0x00, 9, 0x30, 0x30}, true},
		"an empty element":              {[]byte{0x00, 0, 2, 0x30, 0x30}, true},
		"fewer elements than W":         {[]byte{0x30, 2, 0x30, 0x30}, true},
		"a continuation of nothing":     {joined([]byte{av1Z | 0x10}, av1Inter), true},
		"a start that goes on nowhere":  {joined([]byte{av1Y | 0x10}, av1Inter), true},
		"Z and N":                       {joined([]byte{av1Z | av1N | 0x10}, av1Inter), true},
		"forbidden bit":                 {joined([]byte{0x10, 0xb0}, av1Inter), true},
		"another sequence, no key":      {aggregate(0, joined([]byte{0x08}, deep), av1Inter), true},
		"delimiter alone":               {aggregate(0, []byte{0x10}), false},
		"sequence header alone":         {aggregate(0, av1Seq), false},
		"upper layer alone":             {aggregate(0, []byte{0x34, 0x08, 0x30, 1}), false},
		"size field over the OBU's end": {aggregate(0, []byte{0x32, 9, 0x30}), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, CodecAV1)
			w.frame(aggregate(av1N, av1Seq, av1Key))
			w.frame(c.payload)
			w.frame(aggregate(0, av1Inter))
			w.frame(aggregate(av1N, av1Seq, av1Key))
			if c.breaks {
				w.want(key, key)
			} else {
				w.want(key, sized(av1Inter), key)
			}
		})
	}
}

func TestAV1NeedsItsSequenceHeader(t *testing.T) {
	hidden := []byte{0x30, 0x00, 1, 2} // a key frame that is not shown
	w := newWire(t, CodecAV1)
	w.frame(aggregate(0, av1Key))
	w.frame(aggregate(0, av1Inter))
	w.frame(aggregate(av1N, av1Seq, hidden))
	w.want()
	w.frame(aggregate(av1N, av1Seq, av1Key))
	w.want(sized(av1Seq, av1Key))
}

func TestAV1FragmentsAreBounded(t *testing.T) {
	w := newWire(t, CodecAV1)
	w.frame(aggregate(av1N, av1Seq, av1Key))
	part := make([]byte, 60000)
	part[0] = 0x30
	w.frame(joined([]byte{av1Y | 0x10}, part))
	w.ts -= 3000
	for range frameBytes/60000 + 2 {
		w.rest(joined([]byte{av1Z | av1Y | 0x10}, part))
	}
	if d := w.r.a.depay.(*av1Depacketizer); len(d.open) > frameBytes {
		t.Fatalf("%d bytes of an OBU held", len(d.open))
	}
	w.frame(aggregate(av1N, av1Seq, av1Key))
	w.want(sized(av1Seq, av1Key), sized(av1Seq, av1Key))
}
