package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	chatctx "sightline/context"
)

// outcomes tells what tools answered since the caller's last message and the agent's last one: late, of calls that were made
// before that message, and own, of calls made for it. own is also said when such calls still run.
func outcomes(turn Turn) (late, own string) {
	last, spoke := -1, -1
	for i, item := range turn.Items {
		if m, ok := item.(*chatctx.Message); ok {
			switch m.Role {
			case chatctx.RoleUser:
				last = i
			case chatctx.RoleAssistant:
				spoke = i
			}
		}
	}
	asked := map[string]bool{} // calls made after the caller's last message, that have no output yet
	var running []string
	for i, item := range turn.Items[last+1:] {
		switch item := item.(type) {
		case *chatctx.FunctionCall:
			asked[item.CallID] = true
			if last+1+i > spoke {
				running = append(running, item.CallID+" "+item.Name)
			}
		case *chatctx.FunctionCallOutput:
			running = slices.DeleteFunc(running, func(r string) bool { return strings.HasPrefix(r, item.CallID+" ") })
			if last+1+i < spoke {
				continue
			}
			text := tellOutput(item.Name, item.Output, item.IsError)
			if asked[item.CallID] {
				own = join(own, text)
			} else {
				late = join(late, text)
			}
		}
	}
	for _, r := range running {
		id, name, _ := strings.Cut(r, " ")
		if turn.Running[id] {
			own = join(own, "The tool "+plain(name)+" is still running.")
		} else {
			own = join(own, "The tool "+plain(name)+" gave no answer.")
		}
	}
	return late, own
}

// tellOutput says what a tool answered.
func tellOutput(name, output string, isError bool) string {
	var v map[string]any
	isObject := json.Unmarshal([]byte(output), &v) == nil && v != nil
	if isError {
		return fmt.Sprintf("The tool %s failed: %s.", plain(name), strings.TrimRight(short(problem(v, output)), "."))
	}
	if v["status"] == "interrupted" {
		return "The tool " + plain(name) + " was interrupted."
	}
	switch {
	case !isObject:
	case name == lookupOrder:
		if s := tellOrder(v); s != "" {
			return s
		}
	case name == readText:
		if s, ok := tellTexts(v); ok {
			return s
		}
	case name == currentTime && text(v, "time") != "":
		s := "It is " + text(v, "time")
		if zone := text(v, "zone"); zone != "" {
			s += " " + zone
		}
		if date := text(v, "date"); date != "" {
			s += " on " + date
		}
		return s + "."
	case name == switchPipeline && text(v, "kind") != "":
		return "You are talking to the " + text(v, "kind") + " pipeline."
	}
	if isObject {
		output = pairs(v)
	}
	if strings.TrimSpace(output) == "" {
		return "The tool " + plain(name) + " is done."
	}
	return fmt.Sprintf("The tool %s says: %s.", plain(name), strings.TrimRight(short(output), ". \n"))
}

func plain(name string) string { return strings.ReplaceAll(short(name), "_", " ") }

func problem(v map[string]any, output string) string {
	for _, key := range []string{"error", "message"} {
		if s := text(v, key); s != "" {
			return s
		}
	}
	if strings.TrimSpace(output) == "" {
		return "it gave no reason"
	}
	return output
}

// text is a field as text; numbers too.
func text(v map[string]any, key string) string {
	switch x := v[key].(type) {
	case string:
		return x
	case float64:
		return fmt.Sprintf("%.0f", x)
	}
	return ""
}

func tellOrder(v map[string]any) string {
	status := text(v, "status")
	if status == "" {
		return ""
	}
	s := "It"
	for _, key := range []string{"order_number", "order_id", "order", "id"} {
		if n := digitsOf(text(v, key)); n != "" {
			s = "It is order number " + spoken(n) + ". It" // a short sentence around the number is heard best
			break
		}
	}
	switch {
	case text(v, "delivered") != "":
		return s + " was delivered on " + text(v, "delivered") + "."
	case text(v, "arrives") != "":
		return s + " is " + status + " and arrives on " + text(v, "arrives") + "."
	case text(v, "ships") != "":
		return s + " is " + status + " and ships on " + text(v, "ships") + "."
	}
	return s + " is " + strings.TrimRight(short(status), ".") + "."
}

func tellTexts(v map[string]any) (string, bool) {
	images, ok := v["images"].([]any)
	if !ok {
		return "", false
	}
	var all []string
	for _, image := range images {
		one, _ := image.(map[string]any)
		source := sourceName(text(one, "source"))
		read := strings.Join(strings.Fields(strings.ReplaceAll(text(one, "text"), "\n", ", ")), " ")
		if read == "" {
			all = append(all, "I can read no text in the image of "+source+".")
			continue
		}
		all = append(all, "I read: "+strings.TrimRight(short(read), ".")+".")
	}
	if len(all) == 0 {
		return "There was no image to read.", true
	}
	return strings.Join(all, " "), true
}

// pairs says a JSON object as "key value, key value", in the order of the keys.
func pairs(v map[string]any) string {
	keys := make([]string, 0, len(v))
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var all []string
	for _, k := range keys {
		s := text(v, k)
		if s == "" {
			b, _ := json.Marshal(v[k]) // it came out of JSON
			s = string(b)
		}
		all = append(all, plain(k)+" "+s)
	}
	return strings.Join(all, ", ")
}
