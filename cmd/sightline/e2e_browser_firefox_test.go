package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// TestE2EBrowserFirefox: the other browser does the main job too, through the same page.
func TestE2EBrowserFirefox(t *testing.T) {
	s := serve(t)
	p := firefox(t)
	p.open(s, "firefox")
	agent := s.attach("firefox", "watcher", 5)
	p.watchRequests()
	p.startCamera()
	images := agent.awaitImages(30*time.Second, "images reach the agent", 5, nil)
	different := false
	for _, i := range images {
		rgb := decode(t, i)
		different = different || !bytes.Equal(rgb, decode(t, images[0]))
		if latency := i.ReceivedAt.Sub(i.CapturedAt.Time); latency > time.Second || latency < 0 {
			t.Errorf("image %d came %v after its capture, want below 1 s", i.Seq, latency)
		}
	}
	if !different {
		t.Errorf("%d images of a moving picture are the same", len(images))
	}
	if source := agent.awaitSource(5*time.Second, "the camera lives", "camera", "live"); source.Codec != "VP8" {
		t.Errorf("Firefox sends %s, want VP8", source.Codec)
	}
	p.await(10*time.Second, "the page shows what the agent sees", `sightline.lastImage?.width === 1024 && sightline.lastImage.height === 1024`, pageState)
	sameColour(t, p)
	p.awaitText(10*time.Second, "the link's figures", "path", "VP8 · 1280×720 · ")

	p.picture("firefox")

	p.click("attach-image")
	p.await(10*time.Second, "the attached image's thumbnail loads",
		`document.querySelector("[data-testid=log] article[data-role=user] figure img")?.naturalWidth === 1024`, `document.querySelector("[data-testid=log]").innerHTML`)
	p.typeInto("message", "hello from Firefox")
	p.click("send")
	p.awaitText(10*time.Second, "the message is in the conversation", "log", "hello from Firefox")

	p.eval(localTrack + `.enabled = false`)
	agent.awaitSource(15*time.Second, "agents are told that the picture is black", "camera", "black")
	p.awaitText(10*time.Second, "the page says so", "notices", "camera is black")

	p.click("stop")
	p.await(5*time.Second, "the call was ended by DELETE", `asked.some((a) => /^DELETE \/whip\/.* 200$/.test(a))`, `asked`)
	agent.awaitSource(3*time.Second, "agents are told of the end", "camera", "ended")
}

// sameColour holds the middle of the agent's image against the middle of the camera's own picture in the page: Firefox's fake camera is
// one slowly changing colour.
func sameColour(t *testing.T, p *page) {
	t.Helper()
	p.await(10*time.Second, "the agent's image has the camera's colour", `(() => {
		const c = document.createElement("canvas"); c.width = c.height = 8;
		const g = c.getContext("2d"), middle = (what) => { g.drawImage(what, 0, 0, 8, 8); return g.getImageData(4, 6, 1, 1).data; };
		const camera = middle(document.querySelector("#local-video")), seen = middle(document.querySelector("#agent-image"));
		window.colours = [Array.from(camera), Array.from(seen)];
		return [0, 1, 2].every((i) => Math.abs(camera[i] - seen[i]) <= 40) && Math.max(...seen.slice(0, 3)) > 40;
	})()`, `colours`)
	t.Logf("camera and image: %s", p.eval(`colours`))
}

// firefoxPrefs make a fake camera that asks nobody, let ICE use loopback, and keep Firefox from calling home.
const firefoxPrefs = `user_pref("media.navigator.streams.fake", true);
user_pref("media.navigator.permission.disabled", true);
user_pref("permissions.default.camera", 1);
user_pref("permissions.default.microphone", 1);
user_pref("media.peerconnection.ice.loopback", true);
user_pref("media.peerconnection.ice.obfuscate_host_addresses", false);
user_pref("media.autoplay.default", 0);
user_pref("media.gmp-manager.updateEnabled", false);
user_pref("network.manage-offline-status", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("network.dns.disablePrefetch", true);
user_pref("app.normandy.enabled", false);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.safebrowsing.downloads.remote.enabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.startup.page", 0);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("dom.push.connection.enabled", false);
user_pref("extensions.update.enabled", false);
user_pref("services.settings.server", "data:,");
user_pref("toolkit.telemetry.server", "data:,");
`

// firefox starts Firefox with a profile of its own and drives it by WebDriver BiDi (https://w3c.github.io/webdriver-bidi/), the few commands
// that a page needs, straight over a WebSocket.
func firefox(t *testing.T) *page {
	t.Helper()
	profile := t.TempDir()
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(firefoxPrefs), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(tool(t, "firefox-esr"), "--headless", "--no-remote", "--remote-debugging-port=0", "--width=1280", "--height=1024", "--profile", profile, "about:blank")
	command.Env = append(os.Environ(), "HOME="+profile, "MOZ_DISABLE_CONTENT_SANDBOX=1")
	address, exited := launch(t, command)
	b := dialBiDi(t, address+"/session")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = b.call(ctx, "browser.close", map[string]any{}, nil) // launch's cleanup makes sure
		b.close()
		select {
		case <-exited:
		case <-ctx.Done():
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	if err := b.begin(ctx); err != nil {
		t.Fatalf("start firefox: %v", err)
	}
	return &page{t: t, run: b.evaluate, point: b.point, press: b.press, load: b.load, shot: b.shot}
}

// launch starts the browser and waits for the address it prints. It is killed, should it live at the test's end.
func launch(t *testing.T, command *exec.Cmd) (address string, exited <-chan struct{}) {
	t.Helper()
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	said, found, gone := &lockedBuffer{}, make(chan string, 1), make(chan struct{})
	go func() {
		defer close(gone)
		lines := bufio.NewScanner(io.TeeReader(output, said))
		for lines.Scan() {
			if _, after, ok := strings.Cut(lines.Text(), "WebDriver BiDi listening on "); ok {
				found <- after
			}
		}
		_ = command.Wait() // killed is an end as well
	}()
	t.Cleanup(func() { _ = command.Process.Kill(); <-gone })
	select {
	case address = <-found:
	case <-gone:
		t.Fatalf("firefox ended at once: %s", said.tail(2<<10))
	case <-time.After(60 * time.Second):
		t.Fatalf("firefox tells no WebDriver BiDi address within 60 s: %s", said.tail(2<<10))
	}
	return address, gone
}

// bidi is one WebDriver BiDi connection.
type bidi struct {
	ws      *websocket.Conn
	tab     string // browsing context
	done    chan struct{}
	writing sync.Mutex

	mu      sync.Mutex
	last    int
	waiting map[int]chan bidiAnswer
}

type bidiAnswer struct {
	ID      int             `json:"id"`
	Type    string          `json:"type"` // success, error or event
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
	Message string          `json:"message"`
}

func dialBiDi(t *testing.T, url string) *bidi {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	ws, _, err := (&websocket.Dialer{}).DialContext(ctx, url, nil)
	if err != nil {
		t.Fatalf("connect to firefox at %s: %v", url, err)
	}
	b := &bidi{ws: ws, done: make(chan struct{}), waiting: map[int]chan bidiAnswer{}}
	go b.read()
	return b
}

func (b *bidi) read() {
	defer close(b.done)
	for {
		var answer bidiAnswer
		if b.ws.ReadJSON(&answer) != nil {
			return
		}
		b.mu.Lock()
		if wait := b.waiting[answer.ID]; wait != nil && answer.Type != "event" {
			wait <- answer
			delete(b.waiting, answer.ID)
		}
		b.mu.Unlock()
	}
}

func (b *bidi) close() {
	b.ws.Close()
	<-b.done
}

// call sends a command and decodes its result into result, unless that is nil.
func (b *bidi) call(ctx context.Context, method string, params map[string]any, result any) error {
	wait := make(chan bidiAnswer, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.waiting[id] = wait
	b.mu.Unlock()
	b.writing.Lock()
	err := b.ws.WriteJSON(map[string]any{"id": id, "method": method, "params": params})
	b.writing.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case answer := <-wait:
		if answer.Type == "error" {
			return fmt.Errorf("%s: %s: %s", method, answer.Error, answer.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(answer.Result, result)
	case <-b.done:
		return fmt.Errorf("%s: firefox closed the connection", method)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// begin makes the session and takes the tab that is there.
func (b *bidi) begin(ctx context.Context) error {
	if err := b.call(ctx, "session.new", map[string]any{"capabilities": map[string]any{}}, nil); err != nil {
		return err
	}
	var tree struct {
		Contexts []struct {
			Context string `json:"context"`
		} `json:"contexts"`
	}
	if err := b.call(ctx, "browsingContext.getTree", map[string]any{}, &tree); err != nil {
		return err
	}
	if len(tree.Contexts) == 0 {
		return errors.New("firefox has no tab")
	}
	b.tab = tree.Contexts[0].Context
	return b.call(ctx, "browsingContext.setViewport", map[string]any{"context": b.tab, "viewport": map[string]int{"width": 1280, "height": 800}}, nil)
}

func (b *bidi) load(ctx context.Context, url string) error {
	return b.call(ctx, "browsingContext.navigate", map[string]any{"context": b.tab, "url": url, "wait": "complete"}, nil)
}

func (b *bidi) shot(ctx context.Context) ([]byte, error) {
	var got struct {
		Data []byte `json:"data"` // base64, as encoding/json reads []byte
	}
	err := b.call(ctx, "browsingContext.captureScreenshot", map[string]any{"context": b.tab}, &got)
	return got.Data, err
}

func (b *bidi) evaluate(ctx context.Context, expression string) (string, error) {
	var got struct {
		Type   string `json:"type"`
		Result struct {
			Value string `json:"value"`
		} `json:"result"`
		ExceptionDetails struct {
			Text string `json:"text"`
		} `json:"exceptionDetails"`
	}
	err := b.call(ctx, "script.evaluate", map[string]any{"expression": asJSON(expression), "target": map[string]string{"context": b.tab}, "awaitPromise": true}, &got)
	if err == nil && got.Type != "success" {
		err = errors.New(got.ExceptionDetails.Text)
	}
	return got.Result.Value, err
}

// point moves a mouse over the element and clicks.
func (b *bidi) point(ctx context.Context, selector string) error {
	at, err := b.evaluate(ctx, `(() => {
		const e = document.querySelector(`+quote(selector)+`);
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const r = e.getBoundingClientRect();
		if (r.width === 0 || r.height === 0) throw new Error("not shown");
		return { x: Math.round(r.x + r.width / 2), y: Math.round(r.y + r.height / 2) };
	})()`)
	if err != nil {
		return err
	}
	var xy struct{ X, Y int }
	if err := json.Unmarshal([]byte(at), &xy); err != nil {
		return err
	}
	return b.act(ctx, map[string]any{"type": "pointer", "id": "mouse"}, []map[string]any{
		{"type": "pointerMove", "x": xy.X, "y": xy.Y}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}})
}

func (b *bidi) press(ctx context.Context, text string) error {
	var keys []map[string]any
	for _, r := range text {
		keys = append(keys, map[string]any{"type": "keyDown", "value": string(r)}, map[string]any{"type": "keyUp", "value": string(r)})
	}
	return b.act(ctx, map[string]any{"type": "key", "id": "keyboard"}, keys)
}

func (b *bidi) act(ctx context.Context, device map[string]any, actions []map[string]any) error {
	device["actions"] = actions
	return b.call(ctx, "input.performActions", map[string]any{"context": b.tab, "actions": []any{device}}, nil)
}
