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

// A conversation as the published API has it, and what the next agent is told.
func ExampleNewChatContext() {
	chat, err := chatctx.NewChatContext([]chatctx.ChatMessage{
		{Role: chatctx.RoleSystem, Content: "You answer for the shop."},
		{Role: chatctx.RoleUser, Content: "I dispute the charge on order 456."},
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	call := chatctx.FunctionCall{CallID: "c1", Name: "lookup_order", Arguments: `{"order":456}`}
	for range 2 { // a realtime model reports it twice
		if _, err := chat.RecordToolCall(call, chatctx.FunctionCallOutput{Output: "shipped"}); err != nil {
			fmt.Println(err)
		}
	}
	if _, err := chat.AddHandoff("billing", "intake", "disputed charge on order 456"); err != nil {
		fmt.Println(err)
	}
	fmt.Print(chatctx.Transcript(chat.Items()))
	fmt.Println(chat.TurnCount(), "turn,", chat.EstimatedTokens(), "tokens")
	// Output:
	// system: You answer for the shop.
	// user: I dispute the charge on order 456.
	// [tool call] lookup_order({"order":456})
	// [tool result] lookup_order -> shipped
	// [handoff] intake to billing: disputed charge on order 456
	// 1 turn, 26 tokens
}

// A sub-agent works on a fork; only its result comes back.
func ExampleChatContext_MergeResult() {
	chat := chatctx.Empty()
	if _, err := chat.AddMessage(chatctx.RoleUser, "Can I get my money back?", chatctx.MessageOptions{}); err != nil {
		fmt.Println(err)
	}
	child, err := chatctx.ForkBrief("You check refunds.", "Is order 456 refundable?", "refunds")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := child.AddMessage(chatctx.RoleAssistant, "Order 456 is refundable.", chatctx.MessageOptions{}); err != nil {
		fmt.Println(err)
	}
	chat.MergeResult(child, "refunds")
	fmt.Print(chatctx.Transcript(chat.Items()))
	// Output:
	// user: Can I get my money back?
	// assistant (refunds): Order 456 is refundable.
}
