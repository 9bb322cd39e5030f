package main

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"

	chatctx "sightline/context"
	"sightline/context/project"
)

// projected gives a conversation in a provider's format in pieces, so that it is never held as JSON as a whole: what stands
// before the list of elements inside its object (nil = the format is a list), and the elements.
func projected(format project.Format, items chatctx.Items, o project.Options) (head []byte, elements iter.Seq[any], losses []project.Loss) {
	switch format {
	case project.FormatOpenAIChat:
		out, losses := project.OpenAIChat(items, o)
		return nil, each(out), losses
	case project.FormatOpenAIResponses:
		out, losses := project.OpenAIResponses(items, o)
		return nil, each(out), losses
	case project.FormatOpenAIRealtime:
		out, losses := project.OpenAIRealtime(items, o)
		return field("instructions", out.Instructions, "items"), each(out.Items), losses
	case project.FormatAnthropic:
		out, losses := project.Anthropic(items, o)
		return field("system", out.System, "messages"), each(out.Messages), losses
	}
	out, losses := project.Gemini(items, o)
	if out.SystemInstruction == nil {
		return field("", "", "contents"), each(out.Contents), losses
	}
	return field("systemInstruction", out.SystemInstruction, "contents"), each(out.Contents), losses
}

func each[T any](list []T) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, v := range list {
			if !yield(v) {
				return
			}
		}
	}
}

// field writes "name": value, "list": — without the first when the value is an empty text.
func field(name string, value any, list string) []byte {
	var b bytes.Buffer
	if value != "" {
		key, _ := json.Marshal(name)
		data, err := json.Marshal(value)
		if err == nil {
			b.Write(slices.Concat(key, []byte(": "), data, []byte(",\n")))
		}
	}
	key, _ := json.Marshal(list)
	b.Write(key)
	b.WriteString(": ")
	return b.Bytes()
}
