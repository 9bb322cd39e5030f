package importer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	chatctx "sightline/context"
)

// TestFoldIsTheLogs: entries of a log come to the items, and their order, that the log itself folds them to.
func TestFoldIsTheLogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		store := chatctx.NewMemStore()
		log, err := chatctx.OpenLog(ctx, chatctx.LogConfig{Session: "s", Store: store})
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		var ids []string
		some := func(label string) string { return rapid.SampledFrom(ids).Draw(t, label) }
		for i := range rapid.IntRange(1, 30).Draw(t, "ops") {
			id := fmt.Sprint("i", i)
			op := chatctx.Op{ID: id, Kind: chatctx.OpAppend, Item: &chatctx.Message{ID: id, Role: chatctx.RoleUser, Content: chatctx.TextContent("said in " + id)}}
			kind := "append"
			if len(ids) > 0 {
				kind = rapid.SampledFrom([]string{"append", "insert", "summary", "update", "remove"}).Draw(t, "kind")
			}
			switch kind {
			case "insert":
				op.After = some("after")
			case "summary": // stands where what it sums up stood
				op.After = some("after")
				op.Item, op.Remove = &chatctx.Summary{ID: id, Text: "t", Covers: [2]uint64{1, 1}}, []string{op.After}
			case "update":
				changed := chatctx.TextContent("changed in " + id)
				op = chatctx.Op{ID: id, Kind: chatctx.OpUpdate, ItemID: some("item"), Changes: chatctx.Changes{Content: &changed}}
			case "remove":
				op = chatctx.Op{ID: id, Kind: chatctx.OpRemove, ItemID: some("item")}
			}
			if _, err := log.Append(ctx, chatctx.Origin{Author: "a", At: time.UnixMilli(1)}, op); err != nil {
				continue // a summary's text cannot be updated
			}
			ids = nil
			for _, item := range log.Chat().Items() {
				ids = append(ids, item.ItemID())
			}
		}
		var dump bytes.Buffer
		entries, err := store.Read(ctx, "s", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if err := json.NewEncoder(&dump).Encode(e); err != nil {
				t.Fatal(err)
			}
		}
		items, report, err := Read(Bytes(dump.Bytes()), Options{})
		if err != nil || report.Format != Items || len(report.Notes) > 0 {
			t.Fatal(err, report)
		}
		if got, want := mustJSON(t, items), mustJSON(t, append(chatctx.Items{}, log.Chat().Items()...)); got != want {
			t.Fatalf("read\n%s\nfolded\n%s", got, want)
		}
	})
}

func mustJSON(t *rapid.T, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestFoldOfATail: what is put after an item from before the first entry comes first.
func TestFoldOfATail(t *testing.T) {
	const tail = `{"seq":8,"op":"append","item":{"type":"message","id":"b","role":"user","content":"b"}}
{"seq":9,"op":"append","after_item_id":"old","item":{"type":"message","id":"a","role":"user","content":"a"}}
{"seq":10,"op":"append","item":{"type":"message","id":"c","role":"user","content":"c"}}`
	items, report, err := Read(Bytes([]byte(tail)), Options{})
	if err != nil || len(items) != 3 || items[0].ItemID() != "a" || items[2].ItemID() != "c" {
		t.Fatal(items, err)
	}
	if len(report.Notes) != 1 || report.Notes[0].Kind != NoteEarlier || report.Notes[0].Field != "after_item_id" {
		t.Errorf("notes: %+v", report.Notes)
	}
}
