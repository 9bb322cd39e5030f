package gateway

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	chatctx "sightline/context"
	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// decodeOp reads an operation on the conversation, as it comes from the socket or from HTTP.
func decodeOp(t wire.Type, data []byte, author string) (chatctx.Op, error) {
	switch t {
	case wire.TypeContextAppend:
		return decodeAppend(data)
	case wire.TypeContextUpdate, wire.TypeContextRemove:
		var m wire.ContextChange
		if err := decode(data, &m); err != nil {
			return chatctx.Op{}, err
		}
		op := chatctx.Op{ID: m.OpID, Kind: chatctx.OpRemove, ItemID: m.ItemID, BaseSeq: m.BaseSeq}
		if t == wire.TypeContextUpdate {
			op.Kind = chatctx.OpUpdate
			if len(m.Changes) == 0 {
				return op, problem.New(problem.InvalidArgument, "changes is required: an object of the fields to replace").WithField("changes")
			}
			if err := decode(m.Changes, &op.Changes); err != nil {
				return op, err
			}
		}
		return op, nil
	case wire.TypeContextTruncate:
		var m wire.ContextTruncate
		err := decode(data, &m)
		return chatctx.Op{ID: m.OpID, Kind: chatctx.OpTruncate, MaxItems: m.MaxItems, MaxTokens: m.MaxTokens, Remove: m.Remove, BaseSeq: m.BaseSeq}, err
	case wire.TypeHandoff:
		var m wire.Handoff
		if err := decode(data, &m); err != nil {
			return chatctx.Op{}, err
		}
		if m.FromAgent == "" {
			m.FromAgent = author
		}
		return chatctx.Op{ID: m.OpID, Kind: chatctx.OpAppend, Item: &chatctx.AgentHandoff{
			FromAgent: m.FromAgent, ToAgent: m.ToAgent, Reason: m.Reason, Summary: m.Summary,
		}}, nil
	}
	return chatctx.Op{}, unknownType(t)
}

func decodeAppend(data []byte) (chatctx.Op, error) {
	var m wire.ContextAppend
	if err := decode(data, &m); err != nil {
		return chatctx.Op{}, err
	}
	if len(m.Item) == 0 {
		return chatctx.Op{}, problem.New(problem.InvalidArgument, "item is required").WithField("item")
	}
	item, err := chatctx.UnmarshalItem(m.Item)
	if err != nil {
		return chatctx.Op{}, contextProblem(err)
	}
	if item.Kind() == chatctx.KindPipelineSwitch {
		return chatctx.Op{}, problem.New(problem.InvalidArgument, "pipeline_switch items are written by the gateway: send pipeline.switch").WithField("item.type")
	}
	return chatctx.Op{ID: m.OpID, Kind: chatctx.OpAppend, Item: item, After: m.AfterItemID, BaseSeq: m.BaseSeq, Remove: m.Remove}, nil
}

// decode reads JSON into v; the error names the field that does not fit.
func decode(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	var c *chatctx.Error
	if errors.As(err, &c) {
		return contextProblem(c)
	}
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		field := strings.ReplaceAll(t.Field, "Encode.", "") // an embedded struct is no field on the wire
		if field == "" {
			return problem.New(problem.InvalidArgument, "the message must be a JSON object, got a JSON %s", t.Value)
		}
		return problem.New(problem.InvalidArgument, "%s must be %s, got a JSON %s", field, jsonKind(t.Type.Kind()), t.Value).WithField(field)
	}
	return problem.New(problem.InvalidJSON, "the message is no valid JSON: %s", err)
}

// jsonKind is what a Go kind is called in JSON.
func jsonKind(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Pointer, reflect.Interface:
		return "an object"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number, 0 or above"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
