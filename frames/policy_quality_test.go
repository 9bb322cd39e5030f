package frames

import (
	"flag"
	"fmt"
	"image"
	"image/draw"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/image/font"
	"golang.org/x/image/font/inconsolata"
	"golang.org/x/image/math/fixed"

	"sightline/frames/internal/bench/vp8enc"
	"sightline/frames/internal/stilljpeg"
	"sightline/frames/internal/vpx"
	"sightline/frames/ivf"
)

var (
	qualityClips = flag.String("quality-clips", "", "comma-separated IVF files (VP8) for TestPolicyQuality beside the one of testdata; names that begin with scr are screens")
	qualityFPS   = flag.Float64("quality-fps", 0, "only this rate")
	qualityRates = flag.String("quality-rates", "700,1200,2500", "kb/s for them")
)

// quality is how images compare with what the camera saw, in luma.
type quality struct {
	psnr, ssim float64
}

// compared is one image under a policy beside what `full` makes of the same instant.
type compared struct{ policy, full quality }

// TestPolicyQuality: images of auto, whose sender is asked for key frames, against images of full, whose sender is not, at the same instants;
// each against the pictures that both encoders were given.
func TestPolicyQuality(t *testing.T) {
	clips := []string{filepath.Join("testdata", face480)}
	rates := []int{800}
	if *qualityClips != "" {
		clips, rates = strings.Split(*qualityClips, ","), nil
		for _, r := range strings.Split(*qualityRates, ",") {
			n := 0
			if _, err := fmt.Sscan(r, &n); err != nil {
				t.Fatal(err)
			}
			rates = append(rates, n)
		}
		fmt.Println("| clip | sender, kb/s | images/s | in effect at the end | key frames sent · in `full` | PSNR-Y of `full`, dB | `auto` − `full`, mean · worst | SSIM, mean | words read of the picture, of `full` · of `auto` |")
		fmt.Println("|---|---|---|---|---|---|---|---|---|")
	}
	for _, name := range clips {
		pics := picturesOf(t, name)
		screen := strings.HasPrefix(filepath.Base(name), "scr") // a convention of the bench
		for _, kbps := range rates {
			for _, fps := range []float64{1, 3} {
				if *qualityClips == "" && fps != 1 || *qualityFPS > 0 && fps != *qualityFPS {
					continue
				}
				label := strings.TrimSuffix(filepath.Base(name), ".vp8.ivf")
				t.Run(fmt.Sprintf("%s at %d kb/s, %v a second", label, kbps, fps), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { comparePolicies(t, label, pics, screen, kbps, fps) })
				})
			}
		}
	}
}

// picturesOf reads a clip, or makes one: screen-text is a page of small text that is being written.
func picturesOf(t *testing.T, name string) (pics []*Picture) {
	if name != "screen-text" {
		return loadPictures(t, name)
	}
	page := image.NewGray(image.Rect(0, 0, 1280, 720))
	draw.Draw(page, page.Rect, image.White, image.Point{}, draw.Src)
	write := func(text string, x, y int) {
		d := font.Drawer{Dst: page, Src: image.Black, Face: inconsolata.Regular8x16, Dot: fixed.P(x, y)}
		d.DrawString(text)
	}
	for i := range 160 {
		write(pageWords[i%len(pageWords)], 40+150*(i%8), 40+30*(i/8))
	}
	for n := range 90 {
		write(string(rune('a'+n%26)), 40+8*n, 690)
		p := NewPicture(1280, 720)
		for i, v := range page.Pix {
			p.Y[i] = byte(16 + int(v)*219/255)
		}
		for i := range p.U {
			p.U[i], p.V[i] = 128, 128
		}
		pics = append(pics, p)
	}
	return pics
}

var pageWords = strings.Fields("account battery cabinet delivery evening factory garden history invoice journey kitchen library machine network office picture " +
	"quality receipt station traffic umbrella village weather yesterday")

func loadPictures(t testing.TB, name string) (pics []*Picture) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, fs, err := ivf.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	dec, err := vpx.NewVP8()
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	for _, fr := range fs[:min(len(fs), 90)] {
		pic, err := dec.Decode(fr.Data)
		if err != nil {
			t.Fatal(err)
		}
		pics = append(pics, pic.Clone())
	}
	return pics
}

// comparePolicies sends some seconds of a clip.
func comparePolicies(t *testing.T, name string, pics []*Picture, screen bool, kbps int, fps float64) {
	r := newRig(t, func(c *TrackConfig) {
		if screen {
			c.Source = "screen"
		}
	})
	defer r.stop()
	s := newLiveSender(t, pics, kbps, screen, 1)
	r.onPLI = func() { s.pli.Store(true) }
	other, err := vp8enc.New(vp8enc.Config{Width: pics[0].Width, Height: pics[0].Height, Kbps: kbps, Screen: screen})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	dec, err := vpx.NewVP8()
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	sub := r.track.Subscribe(Want{FPS: fps, Options: ownSize})
	seconds := 12
	if *qualityClips == "" {
		seconds = 7
	}
	var all []compared
	var shown *Picture
	var last, lastFull []byte
	var shows *Picture
	recent := map[uint32][2]*Picture{} // by timestamp: given, and what full has
	fullKeys := 0
	for n := range seconds * 30 {
		given, ts := s.picture(n), s.ts
		f, err := other.Encode(given, n == 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Data) > 0 {
			pic, err := dec.Decode(f.Data)
			if err != nil {
				t.Fatal(err)
			}
			shown = pic.Clone()
		}
		if f.Key {
			fullKeys++
		}
		recent[ts] = [2]*Picture{given, shown}
		delete(recent, ts-3000*20)
		r.feed(s.frame()...)
		if img, _, ok := sub.Take(); ok {
			two, there := recent[img.RTPTimestamp]
			if !there {
				t.Fatalf("an image of timestamp %d, now %d", img.RTPTimestamp, ts)
			}
			full, err := Encode(two[1], &ownSize)
			if err != nil {
				t.Fatal(err)
			}
			if n > 90 { // the first seconds are each sender's start
				all = append(all, compared{measure(t, img.Data, two[0]), measure(t, full, two[0])})
				last, lastFull, shows = img.Data, full, two[0]
			}
		}
		time.Sleep(time.Second / 30)
	}
	st := r.track.Stats()
	var psnr, ssim, base float64
	worst := math.Inf(1)
	for _, c := range all {
		psnr += (c.policy.psnr - c.full.psnr) / float64(len(all))
		ssim += (c.policy.ssim - c.full.ssim) / float64(len(all))
		base += c.full.psnr / float64(len(all))
		worst = min(worst, c.policy.psnr-c.full.psnr)
		t.Logf("full %.2f dB, auto %+.2f", c.full.psnr, c.policy.psnr-c.full.psnr)
	}
	text := ""
	if *qualityClips != "" {
		if screen {
			truth, err := Encode(shows, &ownSize)
			if err != nil {
				t.Fatal(err)
			}
			readable := words(t, truth)
			text = fmt.Sprintf("%d: %d · %d", len(readable), common(readable, words(t, lastFull)), common(readable, words(t, last)))
		}
		fmt.Printf("| %s | %d | %g | `%s`, +%d: %s | %d · %d | %.1f | %+.2f · %+.2f | %+.4f | %s |\n", name, kbps, fps, st.InEffect, st.AfterKey, st.PolicyReason, s.keys, fullKeys,
			base, psnr, worst, ssim, text)
	}
	if len(all) < int(float64(seconds-4)*fps) {
		t.Errorf("%s at %d kb/s: %d images, want %v a second: %+v", name, kbps, len(all), fps, st)
	}
	if !screen && (psnr < -1 || ssim < -0.01 || worst < -3) {
		t.Errorf("%s at %d kb/s: mean %+.2f dB and %+.4f, worst %+.2f dB; allowed -1, -0.01 and -3", name, kbps, psnr, ssim, worst)
	}
	if screen && psnr < -1 && base+psnr < 42 {
		t.Errorf("%s at %d kb/s: mean %+.2f dB of %.1f; allowed -1, or 42 dB", name, kbps, psnr, base)
	}
}

// measure compares an image with the picture it is of.
func measure(t *testing.T, jpeg []byte, truth *Picture) quality {
	t.Helper()
	dec, _, err := stilljpeg.Decode(jpeg)
	if err != nil {
		t.Fatal(err)
	}
	y, ok := dec.(*image.YCbCr)
	if !ok || y.Rect.Dx() != truth.Width || y.Rect.Dy() != truth.Height {
		t.Fatalf("%T of %v, want %d×%d", dec, dec.Bounds(), truth.Width, truth.Height)
	}
	full := make([]byte, truth.Width*truth.Height)
	sum := 0.0
	for row := range truth.Height {
		for col := range truth.Width {
			want := min(max((float64(truth.Y[row*truth.YStride+col])-16)*255/219, 0), 255)
			full[row*truth.Width+col] = byte(want + 0.5)
			d := float64(y.Y[row*y.YStride+col]) - want
			sum += d * d
		}
	}
	return quality{10 * math.Log10(65025*float64(len(full))/max(sum, 1e-9)), ssim(y.Y, y.YStride, full, truth.Width, truth.Width, truth.Height)}
}

// ssim is the mean structural similarity over windows of 8×8, every 4 pixels.
func ssim(a []byte, astride int, b []byte, bstride, w, h int) float64 {
	const c1, c2 = 6.5025, 58.5225
	total, n := 0.0, 0
	for y := 0; y+8 <= h; y += 4 {
		for x := 0; x+8 <= w; x += 4 {
			var sa, sb, saa, sbb, sab int
			for i := range 8 {
				ra, rb := a[(y+i)*astride+x:][:8], b[(y+i)*bstride+x:][:8]
				for j := range 8 {
					p, q := int(ra[j]), int(rb[j])
					sa, sb, saa, sbb, sab = sa+p, sb+q, saa+p*p, sbb+q*q, sab+p*q
				}
			}
			ma, mb := float64(sa)/64, float64(sb)/64
			va, vb, cov := float64(saa)/64-ma*ma, float64(sbb)/64-mb*mb, float64(sab)/64-ma*mb
			total += (2*ma*mb + c1) * (2*cov + c2) / ((ma*ma + mb*mb + c1) * (va + vb + c2))
			n++
		}
	}
	return total / float64(n)
}

// words is what tesseract reads.
func words(t *testing.T, jpeg []byte) (found []string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "image.jpg")
	if err := os.WriteFile(name, jpeg, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tesseract", name, "-", "--psm", "11").Output()
	if err != nil {
		t.Fatalf("tesseract: %v", err)
	}
	for _, w := range strings.Fields(string(out)) {
		if len(w) >= 3 {
			found = append(found, w)
		}
	}
	slices.Sort(found)
	return found
}

// common counts words that are in both, each as often as it is in both.
func common(a, b []string) (n int) {
	rest := slices.Clone(b)
	for _, w := range a {
		if i := slices.Index(rest, w); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
			n++
		}
	}
	return n
}
