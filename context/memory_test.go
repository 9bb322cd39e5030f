package chatctx

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// TestMemoryOfAConversation: a log with its store holds 1,000 messages and 20 images in at most 1.3 times the bytes themselves.
func TestMemoryOfAConversation(t *testing.T) {
	images, texts := make([][]byte, 20), make([]string, 1000)
	size := 0
	rng := rand.New(rand.NewChaCha8([32]byte{}))
	for i := range images {
		images[i] = append(pngBytes(t, 640, 360), make([]byte, 150<<10)...) // about what a 1024×1024 JPEG has
		for k := range 1000 {
			images[i][len(images[i])-1-k] = byte(rng.Uint32())
		}
		size += len(images[i])
	}
	for i := range texts {
		texts[i] = fmt.Sprint(i, strings.Repeat(" how far is it to the station", 4))
		size += len(texts[i])
	}
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	log := mustOpen(t, NewMemStore())
	for i, text := range texts {
		id := fmt.Sprint("id", i)
		content := TextContent(strings.Clone(text))
		if i%50 == 0 {
			url, info, err := log.PutImage(t.Context(), bytes.Clone(images[i/50]))
			if err != nil {
				t.Fatal(err)
			}
			content = append(content, ImageContent{URL: url, Detail: "auto", Source: "camera", Width: info.Width, Height: info.Height})
		}
		mustAppend(t, log, Op{ID: "op" + id, Kind: OpAppend, Item: &Message{ID: id, Role: RoleUser, Content: content}})
	}
	used := heap() - before
	if ratio := float64(used) / float64(size); ratio > 1.3 {
		t.Errorf("%d bytes take %d, %.2f times as many; at most 1.3 is wanted", size, used, ratio)
	} else {
		t.Logf("%d bytes take %d, %.2f times as many", size, used, ratio)
	}
	runtime.KeepAlive(log)
	runtime.KeepAlive(images)
	runtime.KeepAlive(texts)
}
