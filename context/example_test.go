package chatctx_test

import (
	"context"
	"fmt"
	"time"

	chatctx "sightline/context"
)

// An agent appends, another follows, loses its connection and resumes where it was.
func Example() {
	ctx := context.Background()
	log, err := chatctx.OpenLog(ctx, chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "call-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	say := func(opID string, role chatctx.Role, text string) {
		ack, err := log.Append(ctx, chatctx.Origin{Author: "ann", At: time.Now()}, chatctx.Op{
			ID: opID, Kind: chatctx.OpAppend, Item: &chatctx.Message{ID: opID, Role: role, Content: chatctx.TextContent(text)},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: seq %d, duplicate %t\n", opID, ack.Seq, ack.Duplicate)
	}
	say("q1", chatctx.RoleUser, "What do you see?")
	say("a1", chatctx.RoleAssistant, "A red bicycle.")
	say("q1", chatctx.RoleUser, "What do you see?") // the answer was lost, so it is sent again

	replica := chatctx.New() // what the follower has applied
	follow := func(n int) {
		cursor, err := log.Follow(replica.Seq())
		if err != nil {
			fmt.Println(err)
			return
		}
		for range n {
			e, err := cursor.Next(ctx) // waits when there is nothing new
			if err != nil {
				fmt.Println(err)
				return
			}
			if err := replica.Apply(e); err != nil {
				fmt.Println(err)
				return
			}
			fmt.Printf("follower: %d %s %s\n", e.Seq, e.Op, e.Item.ItemID())
		}
	}
	follow(1) // and the connection breaks
	say("q2", chatctx.RoleUser, "Is anybody on it?")
	follow(2) // resumed: nothing is lost, nothing comes twice
	fmt.Print(chatctx.Transcript(replica.Items()))
	// Output:
	// q1: seq 1, duplicate false
	// a1: seq 2, duplicate false
	// q1: seq 1, duplicate true
	// follower: 1 append q1
	// q2: seq 3, duplicate false
	// follower: 2 append a1
	// follower: 3 append q2
	// user: What do you see?
	// assistant: A red bicycle.
	// user: Is anybody on it?
}

// Two agents change the same item: the one with the older view is told, and nothing of its change is applied.
func ExampleLog_Append_conflict() {
	ctx := context.Background()
	log, err := chatctx.OpenLog(ctx, chatctx.LogConfig{Store: chatctx.NewMemStore(), Session: "call-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	send := func(op chatctx.Op) {
		if _, err := log.Append(ctx, chatctx.Origin{Author: "ann", At: time.Now()}, op); err != nil {
			fmt.Println(err)
		}
	}
	edit := func(opID, text string, base uint64) {
		content := chatctx.TextContent(text)
		send(chatctx.Op{ID: opID, Kind: chatctx.OpUpdate, ItemID: "m", BaseSeq: base, Changes: chatctx.Changes{Content: &content}})
	}
	send(chatctx.Op{ID: "1", Kind: chatctx.OpAppend, Item: &chatctx.Message{ID: "m", Role: chatctx.RoleAssistant, Content: chatctx.TextContent("draft")}})
	edit("2", "ann's text", 1)
	edit("3", "bob's text", 1)
	fmt.Print(chatctx.Transcript(log.Snapshot().Items))
	// Output:
	// conflict: item m was changed by entry 2, after base_seq 1: read it and try again
	// assistant: ann's text
}
