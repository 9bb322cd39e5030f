package project_test

import (
	"fmt"
	"strings"
	"testing"

	"sightline/context/project"
)

// TestValidate holds each rule against the smallest request that breaks it: want is "path: words of the problem", "" = nothing to
// complain about; ~ before it = only some refuse it.
func TestValidate(t *testing.T) {
	png, jpeg := dataURL("image/png", samples()["png"]), dataURL("image/jpeg", samples()["jpeg"])
	b64 := func(url string) string { _, body, _ := strings.Cut(url, ","); return body }
	const (
		chatCall   = `{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		toolUse    = `{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}`
		geminiCall = `{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"s"}]}`
	)
	for _, c := range []struct {
		format        project.Format
		request, want string
	}{
		{"openai", `[`, "$: not JSON"},
		{"openai", `[{"role":"user","content":"x"}] 1`, "$: after the JSON"},
		{"openai", `{"model":"m"}`, "$: messages"},
		{"openai", `[{"role":"user","content":"\ud83d"}]`, "$: half a surrogate"},
		{"openai", `[{"role":"user","content":"\ud83d\ude00 \\ud83d"}]`, ""},
		{"nobody", `[]`, "$: unknown format"},

		{"openai", `[]`, "messages: at least one"},
		{"openai", `{"messages":[{"role":"user","content":"x"}],"model":"m"}`, ""},
		{"openai", `[{"role":"robot","content":"x"}]`, "messages[0].role: allowed are"},
		{"openai", `[{"role":"user","content":"x","when":1}]`, "messages[0].when: unknown field"},
		{"openai", `[{"role":"user"}]`, "messages[0].content: must be a list"},
		{"openai", `[{"role":"user","content":[]}]`, "messages[0].content: empty list"},
		{"openai", `[{"role":"user","content":""}]`, "~messages[0].content: empty"},
		{"openai", `[{"role":"user","content":[{"type":"text","text":""}]}]`, "messages[0].content[0].text: empty"},
		{"openai", `[{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"` + png + `"}}]}]`, "messages[0].content[0].type: allowed are"},
		{"openai", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + png + `"}},{"type":"image_url","image_url":{"url":"https://example.com/a"}}]}]`, ""},
		{"openai", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://example.com/a"}}]}]`, "messages[0].content[0].image_url.url: data: and https"},
		{"openai", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,` + b64(png) + `"}}]}]`, "messages[0].content[0].image_url.url: said to be image/jpeg, is image/png"},
		{"openai", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]`, "messages[0].content[0].image_url.url: no image"},
		{"openai", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,A"}}]}]`, "messages[0].content[0].image_url.url: does not decode"},
		{"openai", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + png + `","detail":"most"}}]}]`, "messages[0].content[0].image_url.detail: allowed are"},
		{"openai", `[{"role":"user","content":"x"},{"role":"developer","content":"x"}]`, "~messages[1].role: developer"},
		{"openai", `[{"role":"user","content":"x"},{"role":"system","content":"x"}]`, "~messages[1].role: not the first"},
		{"openai", `[` + chatCall + `,{"role":"tool","tool_call_id":"c1","content":"r"}]`, ""},
		{"openai", `[` + chatCall + `]`, "messages[1]: not answered"},
		{"openai", `[` + chatCall + `,{"role":"user","content":"y"},{"role":"tool","tool_call_id":"c1","content":"r"}]`, "messages[1]: not answered"},
		{"openai", `[{"role":"tool","tool_call_id":"c9","content":"r"}]`, "messages[0].tool_call_id: no call before"},
		{"openai", `[` + chatCall + `,{"role":"tool","tool_call_id":"c1","content":"r"},{"role":"tool","tool_call_id":"c1","content":"r"}]`, "messages[3].tool_call_id: answered already"},
		{"openai", `[` + chatCall + `,{"role":"tool","tool_call_id":"c1","content":"r"},` + chatCall[strings.Index(chatCall, `{"role":"assistant"`):] + `,{"role":"tool","tool_call_id":"c1","content":"r"}]`, "messages[3].tool_calls[0].id: used before"},
		{"openai", strings.ReplaceAll(`[`+chatCall+`,{"role":"tool","tool_call_id":"c1","content":"r"}]`, "c1", strings.Repeat("c", 41)), "messages[1].tool_calls[0].id: 1 to 40"},
		{"openai", strings.ReplaceAll(`[`+chatCall+`,{"role":"tool","tool_call_id":"c1","content":"r"}]`, `"f"`, `"f g"`), "messages[1].tool_calls[0].function.name: only letters"},
		{"openai", strings.ReplaceAll(`[`+chatCall+`,{"role":"tool","tool_call_id":"c1","content":"r"}]`, `"{}"`, `"no"`), "~messages[1].tool_calls[0].function.arguments: no JSON"},
		{"openai", strings.ReplaceAll(`[`+chatCall+`,{"role":"tool","tool_call_id":"c1","content":"r"}]`, `"{}"`, `{}`), "messages[1].tool_calls[0].function.arguments: must be a string"},
		{"openai", `[{"role":"assistant","content":"x","tool_calls":[]}]`, "messages[0].tool_calls: empty list"},
		{"openai", `[{"role":"user","content":"x","tool_calls":[]}]`, "messages[0].tool_calls: only an assistant"},
		{"openai", `[{"role":"user","content":"x","tool_call_id":"c"}]`, "messages[0].tool_call_id: only a tool"},

		{"responses", `{"input":[{"role":"user","content":"x"}]}`, ""},
		{"responses", `[{"content":"x"}]`, "input[0].type: missing"},
		{"responses", `[{"type":"message","role":"assistant","content":[{"type":"input_text","text":"x"}]}]`, "input[0].content[0].type: output_text"},
		{"responses", `[{"type":"message","role":"system","content":[{"type":"input_image","image_url":"` + png + `"}]}]`, "input[0].content[0]: user messages"},
		{"responses", `[{"type":"message","role":"user","content":[{"type":"input_text","text":""}]}]`, "input[0].content[0].text: empty"},
		{"responses", `[{"type":"message","role":"user","id":"7c1f","content":"x"}]`, "input[0].id: an id begins with"},
		{"responses", `[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}]`, "input[0]: no output"},
		{"responses", `[{"type":"function_call_output","call_id":"c1","output":"r"}]`, "input[0].call_id: no call before"},
		{"responses", `[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"r"},{"type":"function_call_output","call_id":"c1","output":"r"}]`, "input[2].call_id: answered already"},
		{"responses", `[{"type":"function_call","call_id":"` + strings.Repeat("c", 65) + `","name":"f","arguments":"{}"}]`, "input[0].call_id: 1 to 64"},
		{"responses", `[{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"r"}]`, "input[1].call_id: used before"},

		{"realtime", `[{"type":"message","role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"` + jpeg + `"}]}]`, ""},
		{"realtime", `[{"type":"conversation.item.create","previous_item_id":"root","item":{"id":"a","type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}]`, ""},
		{"realtime", `[{"type":"conversation.item.create","previous_item_id":"b","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}}]`, "items[0].previous_item_id: no item before"},
		{"realtime", `[{"type":"message","role":"developer","content":[{"type":"input_text","text":"x"}]}]`, "items[0].role: allowed are"},
		{"realtime", `[{"type":"message","role":"assistant","content":[{"type":"text","text":"x"}]}]`, "items[0].content[0].type: output_text"},
		{"realtime", `[{"type":"message","role":"user","content":[{"type":"input_image","image_url":"https://example.com/a.png"}]}]`, "items[0].content[0].image_url: only a data: URL"},
		{"realtime", `[{"type":"message","role":"user","content":[{"type":"input_image","image_url":"` + dataURL("image/gif", samples()["gif"]) + `"}]}]`, "items[0].content[0].image_url: allowed are"},
		{"realtime", `[{"type":"message","role":"user","content":[]}]`, "items[0].content: empty list"},
		{"realtime", `[{"type":"message","role":"user","content":"x"}]`, "items[0].content: must be a list"},
		{"realtime", `[{"id":"a b","type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":""}]`, "items[0].id: only letters"},
		{"realtime", `[{"id":"` + strings.Repeat("a", 33) + `","type":"message","role":"user","content":[{"type":"input_text","text":"x"}]}]`, "~items[0].id: more than 32"},
		{"realtime", `[{"type":"function_call_output","call_id":"c","output":"r"}]`, "items[0].call_id: no call before"},
		{"realtime", `[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]`, "~items[0]: no output"},
		{"realtime", strings.Repeat(`{"id":"a","type":"message","role":"user","content":[{"type":"input_text","text":"x"}]},`, 2), "items[1].id: used before"},

		{"anthropic", `{"system":"s","messages":[{"role":"user","content":"x"}]}`, ""},
		{"anthropic", `{"system":" ","messages":[{"role":"user","content":"x"}]}`, "system: white space"},
		{"anthropic", `[{"role":"system","content":"x"}]`, "messages[0].role: allowed are"},
		{"anthropic", `[{"role":"assistant","content":"x"},{"role":"user","content":"x"}]`, "messages[0].role: first message"},
		{"anthropic", `[{"role":"user","content":"x"},{"role":"assistant","content":"x"}]`, "~messages[1].role: prefill"},
		{"anthropic", `[{"role":"user","content":"x"},{"role":"assistant","content":"x "}]`, "messages[1].content: white space"},
		{"anthropic", `[{"role":"user","content":" \n"}]`, "messages[0].content.text: white space"},
		{"anthropic", `[{"role":"user","content":[{"type":"text","text":""}]}]`, "messages[0].content[0].text: empty"},
		{"anthropic", `[{"role":"user","content":[]}]`, "messages[0].content: empty list"},
		{"anthropic", `[` + toolUse + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"},{"type":"text","text":"y"}]}]`, ""},
		{"anthropic", `[` + toolUse + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"}]},{"role":"user","content":"y"}]`, ""},
		{"anthropic", `[` + toolUse + `]`, "messages[1]: not answered"},
		{"anthropic", `[` + toolUse + `,{"role":"user","content":"y"}]`, "messages[1]: not answered"},
		{"anthropic", `[` + toolUse + `,{"role":"user","content":[{"type":"text","text":"y"},{"type":"tool_result","tool_use_id":"c1","content":"r"}]}]`, "messages[2].content[1]: come first"},
		{"anthropic", `[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]}]`, "messages[0].content[0].tool_use_id: no tool_use"},
		{"anthropic", `[` + toolUse + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"},{"type":"tool_result","tool_use_id":"c1","content":"r"}]}]`, "messages[2].content[1].tool_use_id: answered already"},
		{"anthropic", strings.ReplaceAll(`[`+toolUse+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]}]`, "c1", "c 1"), "messages[1].content[0].id: only letters"},
		{"anthropic", strings.ReplaceAll(`[`+toolUse+`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]}]`, "{}", `"{}"`), "messages[1].content[0].input: must be an object"},
		{"anthropic", `[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}},{"type":"text","text":"y"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"r"}]}]`, "messages[1].content[1]: come last"},
		{"anthropic", `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + b64(png) + `"}}]}]`, ""},
		{"anthropic", `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + b64(jpeg) + `"}}]}]`, "messages[0].content[0].source: said to be image/png"},
		{"anthropic", `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + b64(dataURL("", samples()["wide"])) + `"}}]}]`, "messages[0].content[0].source: at most 8000"},
		{"anthropic", `[{"role":"user","content":[` + strings.Repeat(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+b64(png)+`"}},`, 20) + `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + b64(dataURL("", samples()["large"])) + `"}}]}]`, "messages[0].content[20].source: at most 2000"},
		{"anthropic", `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"` + b64(dataURL("", samples()["heavy"])) + `"}}]}]`, "messages[0].content[0].source: at most 5242880"},

		{"gemini", `{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"x"}]}]}`, ""},
		{"gemini", `[{"role":"model","parts":[{"text":"x"}]},{"role":"user","parts":[{"text":"x"}]}]`, "contents[0].role: first turn"},
		{"gemini", `[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"text":"x"}]}]`, "~contents: last turn"},
		{"gemini", `[{"role":"assistant","parts":[{"text":"x"}]}]`, "contents[0].role: allowed are"},
		{"gemini", `[{"role":"user","parts":[]}]`, "contents[0].parts: empty list"},
		{"gemini", `[{"role":"user","parts":[{"text":""}]}]`, "contents[0].parts[0].text: empty"},
		{"gemini", `[{"role":"user","parts":[{}]}]`, "contents[0].parts[0]: exactly one"},
		{"gemini", `[{"role":"user","parts":[{"text":"x","inlineData":{"mimeType":"audio/wav","data":""}}]}]`, "contents[0].parts[0]: exactly one"},
		{"gemini", `[{"role":"user","content":"x"}]`, "contents[0].content: unknown field"},
		{"gemini", `[` + geminiCall + `,{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"r"}}}]}]`, ""},
		{"gemini", strings.ReplaceAll(`[`+geminiCall+`,{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]`, `,"thoughtSignature":"s"`, ""), "~contents[1].parts[0]: thoughtSignature"},
		{"gemini", `[` + geminiCall + `]`, "contents: not answered"},
		{"gemini", `[` + geminiCall + `,{"role":"user","parts":[{"text":"y"}]}]`, "contents[2]: has to answer"},
		{"gemini", `[` + geminiCall + `,{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}},{"functionResponse":{"name":"f","response":{}}}]}]`, "contents[2]: 2 functionResponse parts for 1"},
		{"gemini", `[` + geminiCall + `,{"role":"user","parts":[{"functionResponse":{"name":"g","response":{}}}]}]`, "contents[2]: not called"},
		{"gemini", `[` + geminiCall + `,{"role":"user","parts":[{"functionResponse":{"name":"f","response":"r"}}]}]`, "contents[2].parts[0].functionResponse.response: must be an object"},
		{"gemini", `[{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]`, "contents[0]: without functionCall"},
		{"gemini", `[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"text":"y"}]},{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"s"}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]`, "contents[2]: directly after"},
		{"gemini", `[{"role":"user","parts":[{"functionCall":{"name":"f"}}]}]`, "contents[0].parts[0]: in a user turn"},
		{"gemini", strings.ReplaceAll(`[`+geminiCall+`,{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]`, `"name":"f"`, `"name":"3f"`), "contents[1].parts[0].functionCall.name: a letter or _ first"},
		{"gemini", `[{"role":"user","parts":[{"inlineData":{"mimeType":"image/gif","data":"` + b64(dataURL("", samples()["gif"])) + `"}}]}]`, "contents[0].parts[0].inlineData: allowed are"},
	} {
		t.Run(fmt.Sprintf("%s %.60s", c.format, c.want), func(t *testing.T) {
			request := c.request
			if strings.HasSuffix(request, ",") {
				request = "[" + strings.TrimSuffix(request, ",") + "]"
			}
			problems := project.Validate(c.format, []byte(request))
			if c.want == "" {
				if len(problems) > 0 {
					t.Errorf("%v for %.300s", problems, request)
				}
				return
			}
			want, some := strings.CutPrefix(c.want, "~")
			path, words, _ := strings.Cut(want, ": ")
			for _, p := range problems {
				if p.Path == path && strings.Contains(p.Detail, words) && p.Some == some {
					return
				}
			}
			t.Errorf("%v for %.300s", problems, request)
		})
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]`)
	f.Add(`{"system":[{"type":"text","text":"\ud800"}],"messages":[{"role":"assistant","content":[{"type":"tool_use","id":1,"input":[]}]}]}`)
	f.Add(`{"contents":[{"role":"model","parts":[{"functionCall":{"name":""}}]},null,{"parts":[{"functionResponse":null}]}]}`)
	f.Add(`[{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":null}},7,[]]`)
	f.Fuzz(func(t *testing.T, request string) {
		for _, format := range project.Formats() {
			for _, p := range project.Validate(format, []byte(request)) {
				if p.Path == "" || p.Detail == "" || p.String() == "" {
					t.Errorf("%s: a problem without words: %+v", format, p)
				}
			}
		}
	})
}
