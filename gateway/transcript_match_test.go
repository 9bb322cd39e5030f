package gateway

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

var (
	repeatMacro = regexp.MustCompile(`<repeat:(.):(\d+)>`)
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	timePattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
)

// expand puts what placeholders stand for into what the client sends.
func (p *player) expand(data []byte) []byte {
	text := repeatMacro.ReplaceAllStringFunc(string(data), func(m string) string {
		parts := repeatMacro.FindStringSubmatch(m)
		n, _ := strconv.Atoi(parts[2])
		return strings.Repeat(parts[1], n)
	})
	for name, value := range p.bound {
		text = strings.ReplaceAll(text, name, value)
	}
	return []byte(text)
}

func (p *player) matchJSON(want, got []byte) error {
	var w, g any
	if err := json.Unmarshal(want, &w); err != nil {
		return err
	}
	if err := json.Unmarshal(got, &g); err != nil {
		return err
	}
	return p.match(w, g)
}

// match compares exactly, but for placeholders.
func (p *player) match(want, got any) error {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("got %v, want an object", got)
		}
		for name := range g {
			if _, expected := w[name]; !expected {
				return fmt.Errorf("unexpected field %s", name)
			}
		}
		for name, v := range w {
			if err := p.match(v, g[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Errorf("got %v, want a list of %d", got, len(w))
		}
		for n := range w {
			if err := p.match(w[n], g[n]); err != nil {
				return fmt.Errorf("[%d]: %w", n, err)
			}
		}
		return nil
	case string:
		return p.matchText(w, got)
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

func (p *player) matchText(want string, got any) error {
	text, isText := got.(string)
	number, isNumber := got.(float64)
	ok := false
	switch {
	case want == "<time>":
		ok = isText && timePattern.MatchString(text)
	case want == "<text>":
		ok = isText && text != ""
	case want == "<number>":
		ok = isNumber && number >= 0
	case want == "<number or null>":
		ok = isNumber && number >= 0 || got == nil
	case want == "<data-url>":
		mime, data, found := strings.Cut(strings.TrimPrefix(text, "data:"), ";base64,")
		_, err := base64.StdEncoding.DecodeString(data)
		ok = found && err == nil && strings.HasPrefix(mime, "image/")
	case strings.HasPrefix(want, "<uuid"):
		first, known := p.bound[want]
		ok = uuidPattern.MatchString(text) && (!known || text == first || want == "<uuid>")
		p.bound[want] = text
	default:
		ok = isText && text == want
	}
	if !ok {
		return fmt.Errorf("got %v, want %s", got, want)
	}
	return nil
}
