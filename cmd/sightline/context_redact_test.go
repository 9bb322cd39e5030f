package main

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	chatctx "sightline/context"
)

func TestRedactFindsAndSpares(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"mail a.b+c@example.org, now", "mail [email-1], now"},
		{"jürgen@straße.example.de and again JÜRGEN@straße.example.de", "[email-1] and again [email-1]"},
		{"a@b, @home, x @ y.org", "a@b, @home, x @ y.org"},
		{"+49 151 2345 6789", "[phone-1]"},
		{"call +4915123456789!", "call [phone-1]!"},
		{"(555) 123-4567 or 555-123-4567", "[phone-1] or [phone-2]"},
		{"030 1234567", "[phone-1]"},
		{"0301234567", "[phone-1]"},
		{"order 1234567890, 1751364000, 12345", "order 1234567890, 1751364000, 12345"},
		{"on 2025-05-01, 01.05.2025 and 2025-05-01T10:20:30Z", "on 2025-05-01, 01.05.2025 and 2025-05-01T10:20:30Z"},
		{"4111 1111 1111 1111 and 5500-0000-0000-0004", "[card-1] and [card-2]"},
		{"4111 1111 1111 1112", "4111 1111 1111 1112"},
		{"0000 0000 0000 0000", "0000 0000 0000 0000"},
		{"DE89 3704 0044 0532 0130 00 and GB82WEST12345698765432", "[iban-1] and [iban-2]"},
		{"DE89 3704 0044 0532 0130 01", "DE89 3704 0044 0532 0130 01"},
		{"10.0.0.1, 2001:db8::1, ::1", "[ip-3], [ip-1], [ip-2]"},
		{"1.2.3.4.5, 10:20:30, 300.1.1.1, a::b, std::vector", "1.2.3.4.5, 10:20:30, 300.1.1.1, a::b, std::vector"},
		{"Authorization: Bearer abcdefghijklmnop", "Authorization: Bearer [secret-1]"},
		{"sk-proj-abcdefghijklmnopqrstuvwx", "[secret-1]"},
		{"AKIAIOSFODNN7EXAMPLE ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[secret-1] [secret-2]"},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[secret-1]"},
		{"my password is hunter22", "my password is [secret-1]"},
		{"api_key=0123456789abcdef&x=1", "api_key=[secret-1]"},
		{"postgres://u:secretpw@host/db", "postgres://u:[secret-1]@host/db"},
		{"Maria and MARIA, not Mariana; Ana María", "[name-1] and [name-1], not Mariana; Ana María"},
		{"John  Smith", "[name-1]"},
		{"the token of our appreciation", "the token of our appreciation"},
	} {
		if got := newRedactor("Maria,John Smith", false).text(c.in); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.in, got, c.want)
		}
	}
}

// TestRedactKeepsJSON: arguments and outputs that are JSON stay JSON of the same shape.
func TestRedactKeepsJSON(t *testing.T) {
	in := `{"card": 4111111111111111, "to": ["a@b.org", {"password": "x\"y", "token": null}], "n": 1.50, "note": "é\u0000 <b>"}`
	want := `{"card": "[card-1]", "to": ["[email-1]", {"password": "[secret-1]", "token": null}], "n": 1.50, "note": "é\u0000 <b>"}`
	if got := newRedactor("", false).text(in); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]any{}
		for range rapid.IntRange(0, 5).Draw(t, "fields") {
			value[rapid.SampledFrom([]string{"a", "password", "a@b.org", "n"}).Draw(t, "key")] = rapid.OneOf(
				rapid.Map(rapid.String(), func(s string) any { return s }), rapid.Map(rapid.Int64(), func(n int64) any { return n }),
				rapid.Just[any]("+49 151 2345 6789"), rapid.Just[any](map[string]any{"x": []any{"sk-proj-abcdefghijklmnopqrstuvwx", 4111111111111111}})).Draw(t, "value")
		}
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		got := newRedactor("", false).text(string(data))
		if !json.Valid([]byte(got)) || strings.Contains(got, "sk-proj-") || strings.Contains(got, "4111111111111111") {
			t.Errorf("%s became %s", data, got)
		}
		if again := newRedactor("", false).text(got); !json.Valid([]byte(again)) {
			t.Error(again)
		}
	})
}

func TestRedactKeepsStructure(t *testing.T) {
	r := newRedactor("", true)
	items := chatctx.Items{
		&chatctx.Message{ID: "a", Role: "user", Content: chatctx.Content{chatctx.Text{Text: "a@b.org"}, chatctx.ImageContent{URL: "https://x/y", Detail: "auto"}}, TextGenerated: "c@d.org"},
		&chatctx.FunctionCall{ID: "b", CallID: "c1", Name: "f", Arguments: `{"m":"a@b.org"}`},
		&chatctx.FunctionCallOutput{ID: "c", CallID: "c1", Name: "f", Output: "a@b.org", IsError: true},
		&chatctx.AgentHandoff{ID: "d", ToAgent: "x", Reason: "a@b.org", Summary: "a@b.org"},
		&chatctx.ConfigUpdate{ID: "e", Instructions: "a@b.org", Tools: []byte(`[{"d":"a@b.org"}]`)},
		&chatctx.Summary{ID: "f", Text: "a@b.org", Covers: [2]uint64{1, 2}},
		&chatctx.PipelineSwitch{ID: "g", State: "started", Reason: "a@b.org"},
	}
	before, _ := json.Marshal(items)
	for i, item := range items {
		out := r.item(item)
		if out.ItemID() != item.ItemID() || out.Kind() != item.Kind() {
			t.Errorf("item %d is another", i)
		}
		data, err := json.Marshal(out)
		if err != nil || strings.Contains(string(data), "b.org") || strings.Contains(string(data), "d.org") || strings.Contains(string(data), "https://x") {
			t.Errorf("%v %s", err, data)
		}
	}
	if after, _ := json.Marshal(items); string(after) != string(before) {
		t.Error("the original has changed")
	}
	if r.counts["email"] != 10 || r.counts["image"] != 1 {
		t.Error(r)
	}
}
