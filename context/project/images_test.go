package project_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	chatctx "sightline/context"
	"sightline/context/project"
)

func shows(id, source, url string) *chatctx.Message {
	return &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.Content{chatctx.ImageContent{URL: url, Detail: "auto", Source: source}}}
}

func TestRule6NewestImagesOfEachSourceStay(t *testing.T) {
	items := chatctx.Items{shows("c1", "camera", blobURL("jpeg")), shows("s1", "screen", blobURL("png")), shows("c2", "camera", blobURL("jpeg")), shows("c3", "camera", blobURL("jpeg"))}
	losses := wantChat(t, project.Options{KeepImages: 2, Images: blobs}, `
		user: ⟦image from "camera": left out, newer ones follow⟧
		user: ⟦image from "screen"⟧<image>
		user: ⟦image from "camera"⟧<image>
		user: ⟦image from "camera"⟧<image>`, items...)
	wantLoss(t, losses, project.LostImage, "c1")
	wantChat(t, project.Options{KeepImages: -1, Images: func(string) (string, []byte, error) {
		t.Error("an image that is not shown was looked up")
		return "", nil, errors.New("none")
	}}, `
		user: ⟦image from "camera": not shown⟧
		user: ⟦image from "screen": not shown⟧
		user: ⟦image from "camera": not shown⟧
		user: ⟦image from "camera": not shown⟧`, items...)
	var five chatctx.Items
	for i := range 5 {
		five = append(five, shows(fmt.Sprint("m", i), "", blobURL("jpeg")))
	}
	looked := 0
	project.OpenAIChat(five, project.Options{Images: func(sha string) (string, []byte, error) { looked++; return blobs(sha) }})
	if looked != 4 {
		t.Errorf("looked up %d images, want the 4 that stay", looked)
	}
}

// TestRule6ProvidersImageRules: what each takes of the same images, held against Validate and the schema.
func TestRule6ProvidersImageRules(t *testing.T) {
	url := func(mime, sample string) string { return dataURL(mime, samples()[sample]) }
	for _, c := range []struct {
		name, url string
		shown     string // formats that show it, of o(penai) r(esponses) t(realtime) a(nthropic) g(emini)
		loss      string // reported when shown
	}{
		{"png blob", blobURL("png"), "ortag", ""},
		{"jpeg said to be png", url("image/png", "jpeg"), "ortag", project.ChangedImage},
		{"gif", url("image/gif", "gif"), "ora", ""},
		{"https", "https://example.com/a.png", "ora", ""},
		{"http", "http://example.com/a.png", "", ""},
		{"9000 pixels wide", blobURL("wide"), "ortg", ""},
		{"more than 5 MiB of base64", blobURL("heavy"), "ortg", ""},
		{"a web page", blobURL("junk"), "", ""},
		{"a web page said to be jpeg", url("image/jpeg", "junk"), "", ""},
		{"not there", blobURL("none"), "", ""},
		{"no bytes", "data:image/png;base64,", "", ""},
		{"no comma", "data:image/png", "", ""},
		{"base64 without padding", strings.TrimRight(url("image/png", "padded"), "="), "ortag", ""},
		{"base64 with line breaks", "data:image/png;base64,\r\n" + strings.TrimPrefix(url("image/png", "png"), "data:image/png;base64,"), "ortag", ""},
		{"parameters", strings.Replace(url("image/png", "png"), ";base64", ";name=x;base64", 1), "ortag", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			everyFormat(t, func(t *testing.T, p projection) {
				key := map[project.Format]string{"openai": "o", "responses": "r", "realtime": "t", "anthropic": "a", "gemini": "g"}[p.format]
				out, losses := p.make(chatctx.Items{shows("m", "", c.url)}, project.Options{Images: blobs})
				mustPass(t, p, out)
				mustFit(t, p, out)
				data := string(marshal(t, out))
				shown := !strings.Contains(data, "⟦image: not")
				if shown != strings.Contains(c.shown, key) {
					t.Errorf("shown: %v; %.300s", shown, data)
				}
				if !shown {
					wantLoss(t, losses, project.LostImage, "m")
				} else if c.loss != "" {
					wantLoss(t, losses, c.loss, "m")
				}
			})
		})
	}
}

func TestRule6AnthropicManyImages(t *testing.T) {
	items := func(n int) (items chatctx.Items) {
		for i := range n {
			items = append(items, shows(fmt.Sprint("m", i), "", blobURL(map[bool]string{true: "large", false: "png"}[i == n-1])))
		}
		return items
	}
	for n, shown := range map[int]int{20: 20, 21: 20, 130: 99} {
		out, _ := project.Anthropic(items(n), project.Options{KeepImages: 1000, Images: blobs})
		mustPass(t, projection{format: project.FormatAnthropic}, out)
		got := 0
		for _, b := range out.Messages[0].Content {
			if b.Type == "image" {
				got++
			}
		}
		if got != shown {
			t.Errorf("%d images, the last of 2,100 pixels: %d shown, want %d", n, got, shown)
		}
	}
}

func TestRule6Downscale(t *testing.T) {
	type ask struct {
		mime                 string
		maxSide, maxBytes, n int
	}
	var asked []ask
	shrink := func(mime string, data []byte, maxSide, maxBytes int) ([]byte, error) {
		asked = append(asked, ask{mime, maxSide, maxBytes, len(data)})
		return samples()["jpeg"], nil
	}
	for _, sample := range []string{"wide", "large", "heavy"} {
		asked = nil
		out, losses := project.Anthropic(chatctx.Items{shows("m", "", blobURL(sample))}, project.Options{Images: blobs, Downscale: shrink})
		if len(asked) != 1 || asked[0].maxSide != 1568 || asked[0].maxBytes > 5<<20/4*3 || asked[0].n != len(samples()[sample]) {
			t.Errorf("%s: asked %+v", sample, asked)
		}
		if source := out.Messages[0].Content[0].Source; source == nil || source.MediaType != "image/jpeg" {
			t.Errorf("%s: %+v", sample, out.Messages[0].Content)
		}
		wantLoss(t, losses, project.ChangedImage, "m")
		mustPass(t, projection{format: project.FormatAnthropic}, out)
	}
	// GIF becomes what the realtime API takes.
	c, _ := project.OpenAIRealtime(chatctx.Items{shows("m", "", dataURL("image/gif", samples()["gif"]))}, project.Options{Downscale: shrink})
	if part := c.Items[0].Content[0]; !strings.HasPrefix(part.ImageURL, "data:image/jpeg;base64,") {
		t.Errorf("%+v", part)
	}
	// An answer that is no better, or none, leaves a line of text; an image that was merely large stays.
	for _, bad := range []func(string, []byte, int, int) ([]byte, error){
		func(string, []byte, int, int) ([]byte, error) { return nil, errors.New("out of memory") },
		func(_ string, data []byte, _, _ int) ([]byte, error) { return data, nil },
	} {
		o := project.Options{Images: blobs, Downscale: bad}
		out, losses := project.Anthropic(chatctx.Items{shows("m", "", blobURL("wide"))}, o)
		if out.Messages[0].Content[0].Type != "text" {
			t.Errorf("%+v", out.Messages[0].Content)
		}
		wantLoss(t, losses, project.LostImage, "m")
		if out, _ := project.Anthropic(chatctx.Items{shows("m", "", blobURL("large"))}, o); out.Messages[0].Content[0].Type != "image" {
			t.Error("an image that the provider takes was left out because it could not be made smaller")
		}
	}
}

func TestRule6ABoundOfImageBytes(t *testing.T) {
	items := chatctx.Items{shows("m1", "", blobURL("heavy")), shows("m2", "", blobURL("heavy")), shows("m3", "", blobURL("heavy"))}
	g, losses := project.Gemini(items, project.Options{Images: blobs}) // 7 MB of base64 each, 18 MiB in all
	if shown := strings.Count(string(marshal(t, g)), `"inlineData"`); shown != 2 {
		t.Errorf("%d shown, want the newest 2", shown)
	}
	wantLoss(t, losses, project.LostImage, "m1")
	_, losses = project.Gemini(chatctx.Items{shows("m", "", blobURL("png"))}, project.Options{Images: blobs, MaxImageBytes: 20})
	wantLoss(t, losses, project.LostImage, "m")
}

func TestImagesThatAreNotTheCallersAreMarked(t *testing.T) {
	m := &chatctx.Message{ID: "a", Role: chatctx.RoleAssistant, Content: chatctx.Content{chatctx.Text{Text: "look"}, chatctx.ImageContent{URL: blobURL("png"), Detail: "auto"}}}
	s := &chatctx.Message{ID: "s", Role: chatctx.RoleSystem, Content: chatctx.Content{chatctx.Text{Text: "the menu"}, chatctx.ImageContent{URL: blobURL("png"), Detail: "low"}}}
	losses := wantChat(t, project.Options{Images: blobs}, `
		system: the menu
		user: ⟦image that came with instructions, not sent by the caller⟧<image>
		user: hi
		assistant: look
		user: ⟦image that the assistant showed, not sent by the caller⟧<image>`, s, user("u", "hi"), m)
	wantLoss(t, losses, project.ChangedMoved, "a")
	wantLoss(t, losses, project.ChangedMoved, "s")
}

func TestRealtimeLiveFramesAreLow(t *testing.T) {
	for source, want := range map[string]string{"camera": "low", "": "auto"} {
		c, _ := project.OpenAIRealtime(chatctx.Items{shows("m", source, blobURL("jpeg"))}, project.Options{Images: blobs})
		parts := c.Items[0].Content
		if got := parts[len(parts)-1].Detail; got != want {
			t.Errorf("source %q: detail %q, want %q", source, got, want)
		}
	}
}

// TestRule6ImagesOfAHandoffReachTheReceiver: the image of the turn in which one agent passes the call on is shown to the next.
func TestRule6ImagesOfAHandoffReachTheReceiver(t *testing.T) {
	m := &chatctx.Message{ID: "u", Role: chatctx.RoleUser, Content: chatctx.Content{chatctx.Text{Text: "which part is broken?"}, chatctx.ImageContent{URL: blobURL("jpeg"), Detail: "auto"}}}
	items := chatctx.Items{m, &chatctx.AgentHandoff{ID: "h", FromAgent: "intake", ToAgent: "parts", Reason: "a broken part"}}
	everyFormat(t, func(t *testing.T, p projection) {
		out, _ := p.make(items, project.Options{Images: blobs, ForAgent: "parts"})
		data := string(marshal(t, out))
		if encoded := strings.TrimPrefix(dataURL("", samples()["jpeg"]), "data:;base64,"); !strings.Contains(data, encoded[:40]) || !strings.Contains(data, "taken over") {
			t.Errorf("%.500s", data)
		}
	})
}

// imageBytesOf gives how many bytes f allocates, the least of some runs: others may allocate meanwhile.
func imageBytesOf(f func()) uint64 {
	least := ^uint64(0)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// TestRule6ImageBytesAreEncodedOnceAndNeverCopied: a stored image costs its base64 and nothing else; one that is a data: URL already
// costs nothing.
func TestRule6ImageBytesAreEncodedOnceAndNeverCopied(t *testing.T) {
	const size = 3 << 20
	data := heavyJPEG(size)
	stored := project.Options{Images: func(string) (string, []byte, error) { return "image/jpeg", data, nil }}
	inline := dataURL("image/jpeg", data)
	const slack = 100 << 10
	for _, p := range projections() {
		if got, limit := imageBytesOf(func() { p.make(chatctx.Items{shows("m", "", blobURL("any"))}, stored) }), uint64(len(inline)+slack); got > limit {
			t.Errorf("%s, stored: %d bytes allocated for %d of base64", p.format, got, len(inline))
		}
		if got := imageBytesOf(func() { p.make(chatctx.Items{shows("m", "", inline)}, project.Options{}) }); got > slack {
			t.Errorf("%s, data: URL: %d bytes allocated", p.format, got)
		}
	}
}

func TestLossesAreJSON(t *testing.T) {
	data, err := json.Marshal(project.Loss{Kind: project.LostImage, ItemID: "m"})
	if err != nil || string(data) != `{"kind":"dropped_image","item_id":"m"}` {
		t.Errorf("%s %v", data, err)
	}
}
