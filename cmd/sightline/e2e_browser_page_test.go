package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// page is the console page in a real browser, driven as a person drives it: by the pointer and the keyboard; scripts only look.
type page struct {
	t *testing.T
	// run evaluates a JavaScript expression, waits for it if it is a promise, and gives it as JSON text.
	run func(ctx context.Context, expression string) (string, error)
	// point clicks into the middle of the element of a CSS selector; press types text into the element that has the focus.
	point func(ctx context.Context, selector string) error
	press func(ctx context.Context, text string) error
	load  func(ctx context.Context, url string) error
	shot  func(ctx context.Context) ([]byte, error) // PNG
}

// stepTimeout bounds one command to a browser on a busy machine.
const stepTimeout = 20 * time.Second

// open goes to the console of a session and waits until it is attached.
func (p *page) open(s *served, session string) {
	p.t.Helper()
	p.navigate(s.URL + "/?session=" + session)
	p.await(15*time.Second, "the page attaches to its session", `sightline.state.agent === "attached" && sightline.session === `+quote(session), pageState)
}

func (p *page) navigate(url string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), stepTimeout)
	defer cancel()
	if err := p.load(ctx, url); err != nil {
		p.t.Fatalf("open %s: %v", url, err)
	}
	p.await(15*time.Second, "the page's script runs", `typeof window.sightline === "object"`, `document.title`)
}

// startCamera presses the button and waits for the call.
func (p *page) startCamera() {
	p.t.Helper()
	p.click("start-camera")
	p.await(20*time.Second, "the call is up", `sightline.state.publisher === "live"`, pageState)
}

// pageState is what a failure says of the page.
const pageState = `[sightline.state, ...["notices", "path", "publish-state", "image-said"].map((id) => document.querySelector("[data-testid=" + id + "]").innerText)]`

// click clicks the element of a data-testid, which must be there to be seen.
func (p *page) click(testid string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), stepTimeout)
	defer cancel()
	if err := p.point(ctx, byTestID(testid)); err != nil {
		p.t.Fatalf("click %s: %v; the page: %s", testid, err, p.eval(pageState))
	}
}

// typeInto clicks the element and types.
func (p *page) typeInto(testid, text string) {
	p.t.Helper()
	p.click(testid)
	p.typeText(text)
}

// typeText types into what has the focus.
func (p *page) typeText(text string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), stepTimeout)
	defer cancel()
	if err := p.press(ctx, text); err != nil {
		p.t.Fatalf("type %q: %v", text, err)
	}
}

// eval gives an expression's value as JSON text.
func (p *page) eval(expression string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), stepTimeout)
	defer cancel()
	text, err := p.run(ctx, expression)
	if err != nil {
		p.t.Fatalf("in the page, %s: %v", expression, err)
	}
	return text
}

// get evaluates an expression into a Go value.
func get[T any](p *page, expression string) T {
	p.t.Helper()
	var v T
	if text := p.eval(expression); json.Unmarshal([]byte(text), &v) != nil {
		p.t.Fatalf("in the page, %s gave %s, want a %T", expression, text, v)
	}
	return v
}

// text is what the element of a data-testid shows.
func (p *page) text(testid string) string {
	p.t.Helper()
	return get[string](p, fmt.Sprintf(`document.querySelector(%s).innerText`, quote(byTestID(testid))))
}

// await waits until an expression is true; instead is evaluated for the message when it never is.
func (p *page) await(within time.Duration, why, expression, instead string) {
	p.t.Helper()
	await(p.t, within, why, func() (bool, string) {
		if p.eval(`Boolean(`+expression+`)`) == "true" {
			return true, ""
		}
		return false, p.eval(instead)
	})
}

func (p *page) awaitText(within time.Duration, why, testid, part string) {
	p.t.Helper()
	await(p.t, within, why, func() (bool, string) {
		text := p.text(testid)
		return strings.Contains(text, part), fmt.Sprintf("%s shows %q, want %q in it; the page: %s", testid, text, part, p.eval(pageState))
	})
}

// picture writes what the page looks like now as name.png into the test's artifacts (go test -artifacts), and demands that nothing
// runs out of it sideways.
func (p *page) picture(name string) {
	p.t.Helper()
	if wide := get[[2]int](p, `[document.documentElement.scrollWidth, innerWidth]`); wide[0] > wide[1] {
		p.t.Errorf("the page is %d pixels wide in a window of %d", wide[0], wide[1])
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), stepTimeout)
	defer cancel()
	data, err := p.shot(ctx)
	if err != nil {
		p.t.Fatalf("picture of the page: %v", err)
	}
	config, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil || config.Width != 1280 || config.Height != 800 {
		p.t.Errorf("the picture of the page is %d×%d (%v), want 1280×800", config.Width, config.Height, err)
	}
	file := filepath.Join(p.t.ArtifactDir(), name+".png")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.t.Logf("picture of the page: %s", file)
}

func byTestID(id string) string { return `[data-testid="` + id + `"]` }

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// asJSON makes an expression one that gives a promise of its value as JSON text.
func asJSON(expression string) string {
	return `(async () => JSON.stringify((await (` + expression + `)) ?? null))()`
}

// fakeCamera is Chromium's camera played from a file (.y4m or .mjpeg, in a loop), with the permission given.
func fakeCamera(file string) map[string]any {
	return map[string]any{"use-fake-ui-for-media-stream": true, "use-fake-device-for-media-stream": true, "use-file-for-fake-video-capture": file}
}

// chromium starts a browser of its own with these flags besides the common ones and opens an empty page. What the page does not catch
// fails the test.
func chromium(t *testing.T, flags map[string]any) *page {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(tool(t, "chromium")), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1280, 800), chromedp.Flag("headless", "new"), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("autoplay-policy", "no-user-gesture-required"),
		// Without it a machine that has only loopback never ends its ICE gathering.
		chromedp.Flag("allow-loopback-in-peer-connection", true))
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		options = append(options, chromedp.Flag(name, flags[name]))
	}
	base, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(base)
	t.Cleanup(func() { stop(); stopAllocator() })
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800)); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	watchConsole(t, ctx)
	limited := func(limit context.Context, do func(ctx context.Context) error) error {
		deadline, _ := limit.Deadline()
		ctx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		return do(ctx)
	}
	return &page{t: t,
		run: func(limit context.Context, expression string) (text string, err error) {
			err = limited(limit, func(ctx context.Context) error {
				text, err = chromedp.Run(ctx, chromedp.Evaluate[string](asJSON(expression), chromedp.EvalAwaitPromise))
				return err
			})
			return text, err
		},
		point: func(limit context.Context, selector string) error {
			return limited(limit, func(ctx context.Context) error { return chromedp.Do(ctx, chromedp.Click(chromedp.CSS(selector))) })
		},
		press: func(limit context.Context, text string) error {
			return limited(limit, func(ctx context.Context) error { return chromedp.Do(ctx, chromedp.KeyEvent(text)) })
		},
		load: func(limit context.Context, url string) error {
			return limited(limit, func(ctx context.Context) error { return chromedp.Do(ctx, chromedp.Navigate(url)) })
		},
		shot: func(limit context.Context) (png []byte, err error) {
			err = limited(limit, func(ctx context.Context) error {
				png, err = chromedp.Run(ctx, chromedp.CaptureScreenshot())
				return err
			})
			return png, err
		},
	}
}

// watchConsole fails the test on an exception that the page does not catch and on a breach of its content security policy.
func watchConsole(t *testing.T, ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	messages, done := chromedp.Console(ctx), make(chan struct{})
	go func() {
		defer close(done)
		for m, err := range messages {
			switch {
			case err != nil && !errors.Is(err, context.Canceled):
				t.Errorf("the page's console: %v", err)
			case err == nil && (m.IsException() || strings.Contains(m.Text, "Content Security Policy")):
				t.Errorf("in the page: %s (%s:%d)", m, m.URL, m.Line+1)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}
