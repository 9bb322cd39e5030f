package vad

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

func load(tb testing.TB) *Model {
	tb.Helper()
	m, err := Load()
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// speech gives the frames of the clip that the golden likelihoods are of.
func speech(tb testing.TB) [][FrameSamples]int16 {
	tb.Helper()
	b, err := os.ReadFile("../testdata/speech/jfk.wav")
	if err != nil {
		tb.Fatal(err)
	}
	at := bytes.Index(b, []byte("data"))
	b = b[at+8:]
	frames := make([][FrameSamples]int16, len(b)/2/FrameSamples)
	for i := range frames {
		for k := range frames[i] {
			frames[i][k] = int16(binary.LittleEndian.Uint16(b[2*(i*FrameSamples+k):]))
		}
	}
	return frames
}

func golden(tb testing.TB) []float64 {
	tb.Helper()
	f, err := os.Open("testdata/jfk.golden")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	var values []float64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		v, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			tb.Fatal(err)
		}
		values = append(values, v)
	}
	return values
}

func TestJudgesAsTheReferenceDoes(t *testing.T) {
	frames, want := speech(t), golden(t)
	if len(frames) != len(want) || len(want) < 300 {
		t.Fatalf("%d frames, %d golden likelihoods", len(frames), len(want))
	}
	d := load(t).Detector()
	for round := range 2 {
		for i := range frames {
			if got := float64(d.Judge(&frames[i])); math.Abs(got-want[i]) > 2e-5 {
				t.Fatalf("round %d, frame %d: %.6f, onnxruntime says %.6f", round, i, got, want[i])
			}
		}
		d.Reset()
	}
}

// A glance at what Judge is about to be given says the same, and changes nothing.
func TestGlanceSeesWhatJudgeSees(t *testing.T) {
	frames, want := speech(t), golden(t)
	d := load(t).Detector()
	var recent [GlanceContext + FrameSamples]int16
	for i := range frames {
		copy(recent[:], recent[FrameSamples:])
		copy(recent[GlanceContext:], frames[i][:])
		if got := float64(d.Glance(&recent)); math.Abs(got-want[i]) > 2e-5 {
			t.Fatalf("a glance at frame %d: %.6f, want %.6f", i, got, want[i])
		}
		if got := float64(d.Judge(&frames[i])); math.Abs(got-want[i]) > 2e-5 {
			t.Fatalf("frame %d after a glance: %.6f, want %.6f", i, got, want[i])
		}
	}
}

func TestJudgeAllocatesNothing(t *testing.T) {
	frames := speech(t)
	d := load(t).Detector()
	var recent [GlanceContext + FrameSamples]int16
	if n := testing.AllocsPerRun(20, func() { d.Judge(&frames[40]); d.Glance(&recent) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestExtremesStayLikelihoods(t *testing.T) {
	d := load(t).Detector()
	var frame [FrameSamples]int16
	for i := range 50 {
		for k := range frame {
			frame[k] = []int16{math.MaxInt16, math.MinInt16, 0, 1}[(i+k/(1+i%9))%4]
		}
		if got := d.Judge(&frame); !(got >= 0 && got <= 1) {
			t.Fatalf("frame %d: %v", i, got)
		}
	}
}

func TestBrokenWeightsAreAnError(t *testing.T) {
	for name, file := range map[string][]byte{
		"empty":   nil,
		"cut off": weights[:len(weights)/2],
		"text":    []byte("these are no weights"),
		"renamed": bytes.ReplaceAll(weights, []byte("model.encoder.2"), []byte("model.encoder.9")),
	} {
		if _, err := build(file); err == nil || !strings.HasPrefix(err.Error(), "vad: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	frames := speech(b)
	d := load(b).Detector()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		d.Judge(&frames[i%len(frames)])
		i++
	}
}
