package tokens

import (
	"fmt"
	"testing"

	chatctx "sightline/context"
)

// BenchmarkTallyPerEntry: the cost of an entry does not grow with the history.
func BenchmarkTallyPerEntry(b *testing.B) {
	for _, history := range []int{0, 1_000, 100_000} {
		b.Run(fmt.Sprint("history=", history), func(b *testing.B) {
			tally := NewTally(Heuristic())
			item := func(i int) chatctx.Item {
				return &chatctx.Message{ID: fmt.Sprint("m", i), Role: chatctx.RoleUser, Content: chatctx.TextContent("Could you look at my order once more, please?")}
			}
			for i := range history {
				if err := tally.Apply(chatctx.Entry{Seq: uint64(i + 1), Op: chatctx.OpAppend, Item: item(i)}); err != nil {
					b.Fatal(err)
				}
			}
			next := item(history)
			b.ReportAllocs()
			for b.Loop() { // an append and its removal, so that the history stays as long as it is
				for _, e := range []chatctx.Entry{{Op: chatctx.OpAppend, Item: next}, {Op: chatctx.OpRemove, ItemID: next.ItemID()}} {
					e.Seq = tally.Seq() + 1
					if err := tally.Apply(e); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkText(b *testing.B) {
	exact, err := Exact("gpt-4o")
	if err != nil {
		b.Fatal(err)
	}
	text := samples(b)["English"][0]
	for _, c := range []Counter{Plain(), Heuristic(), exact} {
		b.Run(c.Name(), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				c.Text(text)
			}
		})
	}
}

func BenchmarkLoadVocabulary(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustLoad(b, o200k)
	}
}
