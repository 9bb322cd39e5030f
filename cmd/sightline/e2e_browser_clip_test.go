package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sightline/cmd/internal/agentclient"
)

// faceClip is three people at a webcam, 640×480, 90 frames with a hard cut at 66; its source and licence stand beside it.
const faceClip = "../../frames/testdata/face480_90.vp8.ivf"

// side of the images that agents get by default, pixels.
const side = 1024

// cameraClip is a real clip as a camera file, and what ffmpeg makes of its frames: the truth that images are held against.
type cameraClip struct {
	t      *testing.T
	Y4M    string
	truth  *os.File // RGB of each frame scaled to side×side, one after the other
	coarse [][]byte // brightness of each frame on a small grid, to find the few that are worth a full comparison
}

func makeCameraClip(t *testing.T, ivf string) *cameraClip {
	t.Helper()
	folder := t.TempDir()
	c := &cameraClip{t: t, Y4M: filepath.Join(folder, "camera.y4m")}
	ffmpeg(t, "-i", ivf, "-pix_fmt", "yuv420p", c.Y4M)
	truth, small := filepath.Join(folder, "truth.rgb"), filepath.Join(folder, "small.gray")
	ffmpeg(t, "-i", c.Y4M,
		"-vf", fmt.Sprintf("scale=%d:%d:in_range=tv:in_color_matrix=bt601", side, side), "-pix_fmt", "rgb24", "-f", "rawvideo", truth,
		"-vf", fmt.Sprintf("scale=%d:%d:flags=area:in_range=tv:out_range=pc", grid, grid), "-pix_fmt", "gray", "-f", "rawvideo", small)
	var err error
	if c.truth, err = os.Open(truth); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.truth.Close() })
	all, err := os.ReadFile(small)
	if err != nil {
		t.Fatal(err)
	}
	c.coarse = slices.Collect(slices.Chunk(all, grid*grid))
	if len(c.coarse) != 90 {
		t.Fatalf("ffmpeg made %d frames of %s, want 90", len(c.coarse), ivf)
	}
	return c
}

// frame is the RGB of frame i, 3·side·side bytes.
func (c *cameraClip) frame(i int) []byte {
	c.t.Helper()
	rgb := make([]byte, 3*side*side)
	if _, err := c.truth.ReadAt(rgb, int64(i)*int64(len(rgb))); err != nil {
		c.t.Fatal(err)
	}
	return rgb
}

// best is the frame that an image shows and the peak signal-to-noise ratio between the two over all R, G and B values, dB.
func (c *cameraClip) best(rgb []byte) (frame int, psnr float64) {
	c.t.Helper()
	seen := coarse(rgb)
	near := make([]int, len(c.coarse))
	for i := range near {
		near[i] = i
	}
	slices.SortFunc(near, func(a, b int) int { return distance(c.coarse[a], seen) - distance(c.coarse[b], seen) })
	for _, i := range near[:3] {
		if p := psnrOf(c.frame(i), rgb); p > psnr {
			frame, psnr = i, p
		}
	}
	return frame, psnr
}

func psnrOf(a, b []byte) float64 {
	var sum int
	for i := range a {
		d := int(a[i]) - int(b[i])
		sum += d * d
	}
	return 10 * math.Log10(255*255*float64(len(a))/max(float64(sum), 1))
}

// grid is the side of the coarse pictures, pixels.
const grid = 32

func coarse(rgb []byte) []byte {
	const cell = side / grid
	small := make([]byte, 0, grid*grid)
	for y := range grid {
		for x := range grid {
			sum := 0
			for dy := 0; dy < cell; dy += 4 {
				for dx := 0; dx < cell; dx += 4 {
					p := rgb[3*((y*cell+dy)*side+x*cell+dx):]
					sum += 299*int(p[0]) + 587*int(p[1]) + 114*int(p[2])
				}
			}
			small = append(small, byte(sum/(1000*cell*cell/16)))
		}
	}
	return small
}

func distance(a, b []byte) (sum int) {
	for i := range a {
		d := int(a[i]) - int(b[i])
		sum += d * d
	}
	return sum
}

// decode demands that an image is a whole JPEG of side×side that says of itself what it is, and gives its RGB.
func decode(t *testing.T, i agentclient.Image) []byte {
	t.Helper()
	if i.Width != side || i.Height != side || i.MIME != "image/jpeg" {
		t.Errorf("image %d says it is %s of %d×%d, want image/jpeg of %d×%d", i.Seq, i.MIME, i.Width, i.Height, side, side)
	}
	return decodeJPEG(t, i.Data)
}

func decodeJPEG(t *testing.T, data []byte) []byte {
	t.Helper()
	picture, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("an image of %d bytes is no JPEG: %v", len(data), err)
	}
	ycc, ok := picture.(*image.YCbCr)
	if !ok || ycc.Rect != image.Rect(0, 0, side, side) {
		t.Fatalf("the JPEG is a %T of %v, want YCbCr of %d×%d", picture, picture.Bounds(), side, side)
	}
	rgb := make([]byte, 0, 3*side*side)
	for y := range side {
		for x := range side {
			yo, co := ycc.YOffset(x, y), ycc.COffset(x, y)
			r, g, b := color.YCbCrToRGB(ycc.Y[yo], ycc.Cb[co], ycc.Cr[co])
			rgb = append(rgb, r, g, b)
		}
	}
	return rgb
}
