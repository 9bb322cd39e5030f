package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"sightline/switcher"
	"sightline/switcher/cascade"
)

// Names of the demo tools.
const (
	LookupOrder = "lookup_order"
	CurrentTime = "current_time"
	ReadText    = "read_text"
)

// Tools are what a demo agent can do, run by the session itself.
type Tools struct {
	Read *Reader // nil: read_text is not offered
	// Look gives what can be seen, as switcher.Start.Look does; nil: read_text is not offered.
	Look func(ctx context.Context, maxAge time.Duration) []switcher.Sight
	Now  func() time.Time // nil = time.Now
}

// freshEnough is how old the image of a live source may be that is read.
const freshEnough = time.Second

// List gives the tools to offer.
func (t Tools) List() []switcher.Tool {
	tools := []switcher.Tool{
		{Name: LookupOrder, Description: "Look up the status of an order by its number. Demo: every number has an order.",
			Parameters: []byte(`{"type":"object","properties":{"order_number":{"type":"string","description":"digits, as the caller said them","pattern":"^[0-9]{3,12}$"}},"required":["order_number"],"additionalProperties":false}`)},
		{Name: CurrentTime, Description: "The time now, in the zone of the gateway.", Parameters: []byte(`{"type":"object","properties":{},"additionalProperties":false}`)},
	}
	if t.Read != nil && t.Look != nil {
		tools = append(tools, switcher.Tool{Name: ReadText, Description: "Read the text in the newest image of the caller's camera or screen: signs, labels, documents.",
			Parameters: []byte(`{"type":"object","properties":{"source":{"type":"string","description":"camera or screen; left out: all"}},"additionalProperties":false}`)})
	}
	return tools
}

// Has tells whether a tool is one of these.
func (t Tools) Has(name string) bool {
	for _, tool := range t.List() {
		if tool.Name == name {
			return true
		}
	}
	return false
}

// Run is a switcher.ToolRun. Its answers are JSON; an error is {"error": a sentence}.
func (t Tools) Run(ctx context.Context, call switcher.ToolCallOut) (output string, isError bool) {
	var arguments struct {
		OrderNumber string `json:"order_number"`
		Source      string `json:"source"`
	}
	if text := strings.TrimSpace(call.Arguments); text != "" {
		if err := json.Unmarshal([]byte(text), &arguments); err != nil {
			return failed("arguments: a JSON object is wanted: " + err.Error())
		}
	}
	switch {
	case !t.Has(call.Name):
		return failed(fmt.Sprintf("there is no tool %.64q", call.Name))
	case call.Name == LookupOrder:
		return lookupOrder(arguments.OrderNumber)
	case call.Name == CurrentTime:
		now := time.Now
		if t.Now != nil {
			now = t.Now
		}
		at := now()
		return answer(map[string]any{"time": at.Format("15:04"), "date": at.Format("Monday, 2 January 2006"), "zone": at.Format("MST")})
	}
	return t.readText(ctx, arguments.Source)
}

func answer(v map[string]any) (string, bool) {
	b, err := json.Marshal(v)
	if err != nil {
		return failed(err.Error())
	}
	return string(b), false
}

func failed(message string) (string, bool) {
	b, _ := json.Marshal(map[string]string{"error": message})
	return string(b), true
}

// lookupOrder makes the order up from its number: the same at every call, so that a repeated call can be told by nothing but
// the log.
func lookupOrder(number string) (string, bool) {
	digits := strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' {
			return -1
		}
		return r
	}, number)
	if len(digits) < 3 || len(digits) > 12 || strings.Trim(digits, "0123456789") != "" {
		return failed(fmt.Sprintf("order_number %.32q: 3 to 12 digits are wanted", number))
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(digits))
	days := []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday"}
	sum := h.Sum32()
	order := map[string]any{"order_number": digits, "items": 1 + sum>>8%4}
	switch day := days[sum>>16%5]; sum % 3 {
	case 0:
		order["status"], order["ships"] = "being packed", day
	case 1:
		order["status"], order["arrives"] = "on its way", day
	default:
		order["status"], order["delivered"] = "delivered", day
	}
	return answer(order)
}

func (t Tools) readText(ctx context.Context, source string) (string, bool) {
	var texts []map[string]any
	for _, s := range t.Look(ctx, freshEnough) {
		if source != "" && s.Source != source {
			continue
		}
		if len(s.JPEG) == 0 {
			continue
		}
		text, err := t.Read.Read(ctx, s.JPEG)
		if err != nil {
			var e *cascade.EngineError
			if errors.As(err, &e) {
				return failed("the text could not be read: " + e.Message)
			}
			return failed("the text could not be read in time")
		}
		texts = append(texts, map[string]any{"source": s.Source, "text": text, "age_ms": s.Age.Milliseconds()})
	}
	if len(texts) == 0 {
		return failed("there is no image to read: no camera or screen is being sent")
	}
	return answer(map[string]any{"images": texts})
}
