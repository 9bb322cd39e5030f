// Command conformance talks with a server of the realtime dialect through openai-go, as a program of anybody's would.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/realtime"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func print(step string, result map[string]any) {
	result["step"] = step
	b, _ := json.Marshal(result) // strings and numbers
	fmt.Println(string(b))
}

type talk struct {
	ctx   context.Context
	conn  *realtime.RealtimeConnection
	audio int // bytes since the last answer
}

// until reads up to an event of a type.
func (t *talk) until(typ string) (realtime.RealtimeServerEventUnion, error) {
	for {
		ctx, cancel := context.WithTimeout(t.ctx, 40*time.Second)
		e, err := t.conn.Recv(ctx)
		cancel()
		if err != nil {
			return e, fmt.Errorf("waiting for %s: %w", typ, err)
		}
		switch e.Type {
		case "error":
			if typ != "error" {
				return e, fmt.Errorf("waiting for %s: %s", typ, e.RawJSON())
			}
		case "response.output_audio.delta":
			b, err := base64.StdEncoding.DecodeString(e.AsResponseAudioDeltaEvent().Delta)
			if err != nil {
				return e, err
			}
			t.audio += len(b)
		}
		if e.Type == typ {
			return e, nil
		}
	}
}

func (t *talk) ask() (realtime.RealtimeResponse, error) {
	t.audio = 0
	if err := t.conn.Send(t.ctx, realtime.RealtimeClientEventUnionParam{OfResponseCreate: &realtime.ResponseCreateEventParam{}}); err != nil {
		return realtime.RealtimeResponse{}, err
	}
	e, err := t.until("response.done")
	return e.AsResponseDoneEvent().Response, err
}

func textOf(r realtime.RealtimeResponse) (text string) {
	for _, item := range r.Output {
		if item.Type == "message" {
			for _, part := range item.AsRealtimeConversationItemAssistantMessage().Content {
				text += part.Transcript + part.Text
			}
		}
	}
	return text
}

func run(base, pcm string) error {
	sound, err := os.ReadFile(pcm)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	client := openai.NewClient(option.WithBaseURL(base), option.WithAPIKey("none"))
	conn, err := client.Realtime.Connect(ctx, realtime.RealtimeConnectionOptions{}, option.WithQuery("model", "local"))
	if err != nil {
		return err
	}
	defer conn.Abort()
	t := &talk{ctx: ctx, conn: conn}
	for _, step := range []func() error{t.settings, t.typed, func() error { return t.spoken(sound) }, t.tool, t.wrong} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := conn.Close(); err != nil {
		return err
	}
	print("done", map[string]any{})
	return nil
}

func (t *talk) settings() error {
	if _, err := t.until("session.created"); err != nil {
		return err
	}
	err := t.conn.Send(t.ctx, realtime.RealtimeClientEventUnionParam{OfSessionUpdate: &realtime.SessionUpdateEventParam{
		Session: realtime.SessionUpdateEventSessionUnionParam{OfRealtime: &realtime.RealtimeSessionCreateRequestParam{
			Instructions: param.NewOpt("Be brief."),
			Tools: realtime.RealtimeToolsConfigParam{{OfFunction: &realtime.RealtimeFunctionToolParam{
				Type: "function", Name: param.NewOpt("lookup_order"), Description: param.NewOpt("Looks an order up."),
				Parameters: map[string]any{"type": "object", "properties": map[string]any{"order_number": map[string]any{"type": "string"}}},
			}}},
		}},
	}})
	if err != nil {
		return err
	}
	e, err := t.until("session.updated")
	print("updated", map[string]any{"instructions": e.AsSessionUpdatedEvent().Session.AsRealtimeSessionCreateRequest().Instructions})
	return err
}

func (t *talk) says(id, text string) error {
	err := t.conn.Send(t.ctx, realtime.RealtimeClientEventUnionParam{OfConversationItemCreate: &realtime.ConversationItemCreateEventParam{
		Item: realtime.ConversationItemUnionParam{OfRealtimeUserMessageItem: &realtime.RealtimeConversationItemUserMessageParam{
			ID: param.NewOpt(id), Content: []realtime.RealtimeConversationItemUserMessageContentParam{{Type: "input_text", Text: param.NewOpt(text)}},
		}},
	}})
	if err != nil {
		return err
	}
	_, err = t.until("conversation.item.done")
	return err
}

func (t *talk) typed() error {
	if err := t.says("msg_1", "My order number is 4711."); err != nil {
		return err
	}
	r, err := t.ask()
	print("typed", map[string]any{"status": r.Status, "text": textOf(r), "audio_ms": t.audio / 48})
	return err
}

func (t *talk) spoken(sound []byte) error {
	t.audio = 0
	for len(sound) > 0 {
		n := min(len(sound), 4800)
		err := t.conn.Send(t.ctx, realtime.RealtimeClientEventUnionParam{OfInputAudioBufferAppend: &realtime.InputAudioBufferAppendEventParam{
			Audio: base64.StdEncoding.EncodeToString(sound[:n]),
		}})
		if err != nil {
			return err
		}
		sound = sound[n:]
	}
	heard, err := t.until("conversation.item.input_audio_transcription.completed")
	if err != nil {
		return err
	}
	e, err := t.until("response.done")
	r := e.AsResponseDoneEvent().Response
	print("spoken", map[string]any{
		"transcript": heard.AsConversationItemInputAudioTranscriptionCompletedEvent().Transcript, "status": r.Status, "text": textOf(r), "audio_ms": t.audio / 48,
	})
	return err
}

func (t *talk) tool() error {
	if err := t.says("msg_2", "Please look up order 4711."); err != nil {
		return err
	}
	r, err := t.ask()
	if err != nil {
		return err
	}
	for _, item := range r.Output {
		if item.Type != "function_call" {
			continue
		}
		call := item.AsRealtimeConversationItemFunctionCall()
		print("called", map[string]any{"name": call.Name, "arguments": call.Arguments, "status": call.Status})
		err := t.conn.Send(t.ctx, realtime.RealtimeClientEventUnionParam{OfConversationItemCreate: &realtime.ConversationItemCreateEventParam{
			Item: realtime.ConversationItemParamOfFunctionCallOutput(call.CallID, `{"status":"shipped","eta":"Friday"}`),
		}})
		if err != nil {
			return err
		}
	}
	if _, err := t.until("conversation.item.done"); err != nil {
		return err
	}
	r, err = t.ask()
	print("tool", map[string]any{"status": r.Status, "text": textOf(r)})
	return err
}

// wrong: an event that nobody knows is refused, and the session lives on.
func (t *talk) wrong() error {
	if err := t.conn.SendRaw(t.ctx, json.RawMessage(`{"type":"no.such.event","event_id":"mine"}`)); err != nil {
		return err
	}
	e, err := t.until("error")
	print("refused", map[string]any{"code": e.AsRealtimeErrorEvent().Error.Code, "event_id": e.AsRealtimeErrorEvent().Error.EventID})
	if err != nil {
		return err
	}
	err = t.conn.Send(t.ctx, realtime.RealtimeClientEventUnionParam{OfConversationItemRetrieve: &realtime.ConversationItemRetrieveEventParam{ItemID: "msg_1"}})
	if err != nil {
		return err
	}
	_, err = t.until("conversation.item.retrieved")
	return err
}
