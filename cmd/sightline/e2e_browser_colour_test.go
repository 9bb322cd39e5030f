package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sightline/cmd/internal/agentclient"
)

// Colours as a camera gives them, Y'CbCr of BT.601 in video range: the bars of 75 %, black and white at the ends of the range.
var bars = []struct {
	name      string
	y, cb, cr byte
}{
	{"white", 235, 128, 128}, {"yellow", 162, 44, 142}, {"cyan", 131, 156, 44}, {"green", 112, 72, 58},
	{"magenta", 84, 184, 198}, {"red", 65, 100, 212}, {"blue", 35, 212, 114}, {"black", 16, 128, 128},
	{"grey", 126, 128, 128}, {"skin", 160, 110, 150}, {"full red", 81, 90, 240}, {"full blue", 41, 240, 110},
}

// The bars are patches of 160×160 in a picture of 640×480, four in a row.
const (
	barsWidth, barsHeight = 640, 480
	patch                 = 160
)

// wantRGB is what BT.601's equations make of a colour in video range (ITU-R BT.601-7, 2.5.3).
func wantRGB(y, cb, cr byte) [3]float64 {
	luma := (float64(y) - 16) * 255 / 219
	b, r := (float64(cb)-128)*255/224, (float64(cr)-128)*255/224
	rgb := [3]float64{luma + 1.402*r, luma - 0.344136*b - 0.714136*r, luma + 1.772*b}
	for i, v := range rgb {
		rgb[i] = min(255, max(0, math.Round(v)))
	}
	return rgb
}

// makeBars writes the patches as a camera file.
func makeBars(t *testing.T) string {
	t.Helper()
	var frame bytes.Buffer
	plane := func(scale int, value func(i int) byte) {
		for y := range barsHeight / scale {
			for x := range barsWidth / scale {
				frame.WriteByte(value(y*scale/patch*(barsWidth/patch) + x*scale/patch))
			}
		}
	}
	plane(1, func(i int) byte { return bars[i].y })
	plane(2, func(i int) byte { return bars[i].cb })
	plane(2, func(i int) byte { return bars[i].cr })
	var file bytes.Buffer
	fmt.Fprintf(&file, "YUV4MPEG2 W%d H%d F30:1 Ip A1:1 C420jpeg\n", barsWidth, barsHeight)
	for range 10 {
		file.WriteString("FRAME\n")
		file.Write(frame.Bytes())
	}
	name := filepath.Join(t.TempDir(), "bars.y4m")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestE2EBrowserColours: black is 0, white 255, and every colour within 3 of what BT.601 says, after the camera, VP8 and JPEG.
func TestE2EBrowserColours(t *testing.T) {
	s := serve(t)
	p := chromium(t, fakeCamera(makeBars(t)))
	p.open(s, "colours")
	agent := s.attach("colours", "watcher", 5)
	p.startCamera()
	first := agent.awaitImages(20*time.Second, "images of the bars", 1, nil)[0]
	settled := first.CapturedAt.Add(2 * time.Second) // the first pictures of a call are coarse
	images := agent.awaitImages(20*time.Second, "images of a settled call", 3, func(i agentclient.Image) bool { return i.CapturedAt.After(settled) })
	if i := images[len(images)-1]; i.CaptureClock != "header" || i.CaptureErrorMS == nil {
		t.Errorf("when the picture was taken is known by %s, off by at most %v", i.CaptureClock, i.CaptureErrorMS)
	}
	for _, i := range images {
		rgb := decode(t, i)
		for n, bar := range bars {
			got, want := patchMean(rgb, n), wantRGB(bar.y, bar.cb, bar.cr)
			most, off := 3.0, 0.0
			if bar.name == "black" || bar.name == "white" {
				most = 0.5
			}
			for c := range got {
				off = max(off, math.Abs(got[c]-want[c]))
			}
			t.Logf("image %d: %s is %.2f, want %v", i.Seq, bar.name, got, want)
			if off > most {
				t.Errorf("image %d: %s is off by %.2f, want at most %v", i.Seq, bar.name, off, most)
			}
		}
	}
}

// patchMean is the mean R, G and B of the middle of patch n, away from its neighbours.
func patchMean(rgb []byte, n int) (mean [3]float64) {
	const across = barsWidth / patch
	const w, h = side / across, side * patch / barsHeight
	left, top := n%across*w, n/across*h
	count := 0
	for y := top + h/4; y < top+3*h/4; y++ {
		for x := left + w/4; x < left+3*w/4; x++ {
			for c := range mean {
				mean[c] += float64(rgb[3*(y*side+x)+c])
			}
			count++
		}
	}
	for c := range mean {
		mean[c] /= float64(count)
	}
	return mean
}
