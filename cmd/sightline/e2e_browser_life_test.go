package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	chatctx "sightline/context"

	"sightline/cmd/internal/agentclient"
)

// makeCamera is faceClip as a camera file, where no test asks what is in the picture.
func makeCamera(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "camera.y4m")
	ffmpeg(t, "-i", faceClip, "-pix_fmt", "yuv420p", name)
	return name
}

// watchRequests keeps what the page asks the server for from now on, as "METHOD path status".
func (p *page) watchRequests() {
	p.t.Helper()
	p.eval(`(() => {
		const asked = window.asked = [], real = window.fetch;
		window.fetch = async (path, options) => {
			const answer = await real(path, options);
			asked.push([options?.method ?? "GET", new URL(path, location.href).pathname, answer.status].join(" "));
			return answer;
		};
	})()`)
}

// faster chooses five images a second on the page, as a keyboard user does.
func (p *page) faster() {
	p.t.Helper()
	p.eval(`document.querySelector("[data-testid=image-fps]").focus()`)
	p.typeText("5")
	p.await(5*time.Second, "five images a second are chosen", `document.querySelector("[data-testid=image-fps]").value === "5"`, `document.querySelector("[data-testid=image-fps]").value`)
	p.await(10*time.Second, "five images a second come", `Number(document.querySelector("[data-testid=fig-rate]").innerText) > 3`, pageState)
}

// TestE2EBrowserConversation: the page's buttons, with the real sightline-agent as the other side of the conversation.
func TestE2EBrowserConversation(t *testing.T) {
	s := serve(t)
	p := chromium(t, fakeCamera(makeCamera(t)))
	p.open(s, "demo")
	said := s.startAgent("demo", "--agent-id", "answerer")
	agent := s.attach("demo", "watcher", 0)
	p.awaitText(10*time.Second, "the page lists the agent", "agents", "answerer")
	p.startCamera()
	p.await(20*time.Second, "an image on the page", `sightline.lastImage`, pageState)
	p.faster()

	received := get[int](p, `sightline.imagesReceived`)
	p.click("ask-image")
	p.awaitText(10*time.Second, "the answer to an image request", "image-said", " of camera, ")
	if now := get[int](p, `sightline.imagesReceived`); now <= received {
		t.Errorf("%d images on the page after one was asked for, %d before", now, received)
	}
	if seq := get[uint64](p, `sightline.seq`); seq != 0 {
		t.Errorf("an image that was only asked for is in the conversation: it is at entry %d", seq)
	}

	p.click("attach-image")
	p.await(10*time.Second, "the attached image is in the conversation and its thumbnail loads",
		`(() => { const i = document.querySelector("[data-testid=log] article[data-role=user] figure img"); return i && i.complete && i.naturalWidth === 1024 && i.naturalHeight === 1024; })()`,
		`document.querySelector("[data-testid=log]").innerHTML`)
	attachedImageIsStored(t, s, agent)

	const question = "What do you see?"
	const awkward = "<b>not bold</b> & “quotes” – 日本語"
	p.typeInto("message", question)
	p.click("send")
	p.await(10*time.Second, "the message is on the page", articleWith("user", question), `document.querySelector("[data-testid=log]").innerText`)
	answer := agent.awaitAnswer(15*time.Second, "sightline-agent answers the typed message", question)
	if !strings.Contains(answer, "1024×1024") || !strings.Contains(answer, "camera") {
		t.Errorf("sightline-agent was asked what it sees and said %q", answer)
	}
	p.await(10*time.Second, "the answer is on the page", articleWith("assistant", answer), `document.querySelector("[data-testid=log]").innerText`)
	p.await(15*time.Second, "a history of images and the first figures of the link", `sightline.imagesReceived >= 20 && /bit\/s · round trip/.test(document.querySelector("[data-testid=path]").innerText)`, pageState)
	p.picture("console")
	if field := get[string](p, `document.querySelector("[data-testid=message]").value`); field != "" {
		t.Errorf("the message field still holds %q after the message was taken", field)
	}
	if !strings.Contains(said.String(), "image camera #") {
		t.Errorf("sightline-agent tells of no image:\n%s", said.tail(2<<10))
	}

	p.typeInto("message", awkward)
	p.click("send")
	p.await(10*time.Second, "a message is on the page as it was typed", articleWith("user", awkward), `document.querySelector("[data-testid=log]").innerText`)

	// A reload gives the same conversation, and the page is the same participant.
	seq := get[uint64](p, `sightline.seq`)
	id := get[string](p, `sightline.agentId`)
	p.open(s, "demo")
	p.await(10*time.Second, "the conversation is there after a reload", fmt.Sprintf(`sightline.seq >= %d && document.querySelectorAll("[data-testid=log] article").length >= 3`, seq), `[sightline.seq, document.querySelector("[data-testid=log]").innerText]`)
	if again := get[string](p, `sightline.agentId`); again != id {
		t.Errorf("after a reload the page is %s, it was %s", again, id)
	}
}

// articleWith is whether the conversation on the page has a message of that role with exactly that text.
func articleWith(role, text string) string {
	return `[...document.querySelectorAll("[data-testid=log] article[data-role=` + role + `] .text")].some((n) => n.textContent === ` + quote(text) + `)`
}

// awaitAnswer waits for the agent's answer to a message that the user typed.
func (w *witness) awaitAnswer(within time.Duration, why, question string) (answer string) {
	w.t.Helper()
	await(w.t, within, why, func() (bool, string) {
		_, entries, _ := w.seen()
		asked, all := "", ""
		for _, e := range entries {
			m, ok := e.Item.(*chatctx.Message)
			if !ok {
				continue
			}
			all += fmt.Sprintf("%d %s %s: %s\n", e.Seq, e.OpID, m.Role, m.Content.Text())
			if m.Role == chatctx.RoleUser && m.Content.Text() == question {
				asked = m.ID
			}
			if m.Role == chatctx.RoleAssistant && asked != "" && e.OpID == "answer-to-"+asked {
				answer = m.Content.Text()
			}
		}
		return answer != "", "the conversation is:\n" + all
	})
	return answer
}

// attachedImageIsStored demands that the first entry is an image of the camera, named by the hash of bytes that the gateway serves.
func attachedImageIsStored(t *testing.T, s *served, agent *witness) {
	t.Helper()
	var parts []chatctx.ImageContent
	await(t, 5*time.Second, "the agent is told of the attached image", func() (bool, string) {
		_, entries, _ := agent.seen()
		for _, e := range entries {
			if m, ok := e.Item.(*chatctx.Message); ok && m.Role == chatctx.RoleUser {
				parts = m.Content.Images()
			}
		}
		return len(parts) == 1, fmt.Sprintf("entries %v", entries)
	})
	image := parts[0]
	hash, stored := strings.CutPrefix(image.URL, chatctx.BlobPrefix)
	if !stored || image.Source != "camera" || image.Width != side || image.Height != side || image.CapturedAt.IsZero() {
		t.Fatalf("the attached image is %+v", image)
	}
	status, header, data := s.call("GET", "/v1/sessions/demo/blobs/"+hash, "", "")
	if status != http.StatusOK || header.Get("Content-Type") != "image/jpeg" {
		t.Fatalf("the attached image's bytes: %d %s", status, header.Get("Content-Type"))
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != hash {
		t.Errorf("the bytes of blob %s have another hash, %x", hash, sum)
	}
	decodeJPEG(t, data)
}

// TestE2EBrowserStopAndReload: a stopped call is ended by DELETE and gone at once; a page that is reloaded in mid-call can call again at once.
func TestE2EBrowserStopAndReload(t *testing.T) {
	s := serve(t)
	p := chromium(t, fakeCamera(makeCamera(t)))
	p.open(s, "life")
	agent := s.attach("life", "watcher", 2)
	p.watchRequests()
	p.startCamera()
	agent.awaitImages(20*time.Second, "images of the first call", 1, nil)
	p.click("stop")
	p.await(5*time.Second, "the call was ended by DELETE", `asked.some((a) => /^DELETE \/whip\/.* 200$/.test(a))`, `asked`)
	agent.awaitSource(3*time.Second, "agents are told of the end, sooner than a timeout could", "camera", "ended")
	if state := s.session("life"); state.Publisher != nil {
		t.Errorf("after DELETE the session still has a publisher: %s", *state.Publisher)
	}
	p.awaitText(5*time.Second, "the page says that there is no call", "link-state", "no call")
	if get[bool](p, `Boolean(document.querySelector("[data-testid=local-video]").srcObject)`) {
		t.Error("the page still holds the camera after Stop")
	}

	p.startCamera()
	agent.awaitSource(10*time.Second, "the same source lives again", "camera", "live")
	agent.forget()
	agent.awaitImages(10*time.Second, "images of the second call", 1, nil)

	// Reload in mid-call: the session's place is free again for the page's next call.
	p.open(s, "life")
	p.startCamera()
	agent.awaitSource(10*time.Second, "the source lives after the reload", "camera", "live")
	agent.forget()
	agent.awaitImages(10*time.Second, "images after the reload", 1, nil)
	if text := p.text("notices"); text != "" {
		t.Errorf("a call after a reload shows a notice: %s", text)
	}
}

// TestE2EBrowserServerRestart: the server goes, the page says so; it is back on the same port, and page, camera and agent go on in the
// same session by themselves. The store is in memory: the conversation is empty then, and the page does not pretend otherwise.
func TestE2EBrowserServerRestart(t *testing.T) {
	s := serve(t)
	p := chromium(t, fakeCamera(makeCamera(t)))
	p.open(s, "restart")
	agent := s.attach("restart", "watcher", 2)
	p.startCamera()
	agent.awaitImages(20*time.Second, "images before the restart", 1, nil)
	p.typeInto("message", "before the restart")
	p.click("send")
	p.awaitText(10*time.Second, "the message is in the conversation", "log", "before the restart")
	agent.leave()

	s.stop()
	p.awaitText(15*time.Second, "the page says that the server is gone", "notices", "The server does not answer")
	p.awaitText(15*time.Second, "the page says what it does about it", "notices", "keeps trying")
	p.awaitText(15*time.Second, "the page shows where the way is broken", "gateway-state", "no answer")

	p.picture("server-gone")
	again := serve(t, "--listen", "127.0.0.1:"+s.Port)
	p.await(30*time.Second, "page and camera are back by themselves", `sightline.state.agent === "attached" && sightline.state.publisher === "live"`, pageState)
	after := again.attach("restart", "watcher", 2)
	after.awaitImages(20*time.Second, "images after the restart", 1, func(i agentclient.Image) bool { return i.Source == "camera" })
	p.await(10*time.Second, "the notices are gone", `document.querySelector("[data-testid=notices]").innerText === ""`, pageState)
	if now := get[string](p, `sightline.session`); now != "restart" {
		t.Errorf("after the restart the page is in session %q", now)
	}
	if items := get[int](p, `sightline.items.length`); items != 0 || strings.Contains(p.text("log"), "before the restart") {
		t.Errorf("the new server knows no conversation, the page shows %d items: %s", items, p.text("log"))
	}
	p.typeInto("message", "after the restart")
	p.click("send")
	p.awaitText(10*time.Second, "the conversation goes on", "log", "after the restart")
}
