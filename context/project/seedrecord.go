package project

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	chatctx "sightline/context"
)

// record is the lines of a seed on their way through the bound.
type record struct {
	budget   int // code points
	forAgent string
	lines    []recordLine
	losses   []Loss
}

// recordLine is one event. head and tail are ours; body is somebody's and may be cut.
type recordLine struct {
	itemID     string
	head, body string
	note       string // instead of the three: a whole line of ours
	fact       bool   // a tool's answer, a summary, a handoff
}

func (r *record) add(s step) {
	switch s.kind {
	case stepSay:
		head, body := mark(r.speaker(s))+" ", ""
		captions := 0
		for _, p := range s.parts {
			switch {
			case p.pic == nil && body == "":
				body = p.text
			case p.pic == nil:
				body += " " + p.text
			default:
				if captions++; captions <= maxCaptions {
					head += p.pic.caption + " "
				}
			}
		}
		if captions > maxCaptions {
			head += mark(strconv.Itoa(captions-maxCaptions)+" more images") + " "
		}
		r.lines = append(r.lines, recordLine{itemID: s.id, head: head, body: body})
	case stepNote:
		r.lines = append(r.lines, recordLine{itemID: s.id, note: s.note, fact: true})
	case stepCalls:
		for _, c := range s.calls {
			label := "tool result, an established fact"
			switch {
			case !c.answered:
				label = "tool call without a result"
			case c.isError:
				label = "tool call that failed"
			}
			head := mark(label) + " " + toolName(c.name, false) + " " + flat(c.arguments) + " gave "
			r.lines = append(r.lines, recordLine{itemID: c.id, head: head, body: c.output, fact: c.answered && !c.isError})
		}
	}
}

// maxCaptions is how many images of one message are named.
const maxCaptions = 4

func (r *record) speaker(s step) string {
	who := "caller"
	if s.role == chatctx.RoleAssistant {
		who = "you"
		if r.forAgent != "" && s.agent != "" && s.agent != r.forAgent {
			who = "agent " + mapID(s.agent, 64)
		}
	}
	if s.interrupted {
		who += ", interrupted"
	}
	return who
}

// choose gives the lines that fit, in order.
func (r *record) choose() []string {
	if r.budget <= 0 {
		r.drop(slices.Repeat([]bool{false}, len(r.lines)))
		return nil
	}
	texts := make([]string, len(r.lines))
	taken := make([]bool, len(r.lines))
	left := r.budget
	// A quarter is kept for facts that are older than the whole lines.
	next := r.take(texts, taken, len(r.lines)-1, &left, r.budget/4)
	for i := next; i >= 0; i-- {
		if r.lines[i].fact {
			r.fit(texts, taken, i, r.budget/8, &left, 0)
		}
	}
	r.take(texts, taken, next, &left, 0)
	n := r.drop(taken)
	lines := slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	if n > 0 && len(lines) > 0 {
		lines = slices.Insert(lines, 0, leftOut(n))
	}
	return lines
}

// take takes lines from i backwards until one does not fit, and gives its place.
func (r *record) take(texts []string, taken []bool, i int, left *int, keep int) int {
	for ; i >= 0; i-- {
		bound := r.budget / 4
		if i == len(r.lines)-1 {
			bound = r.budget / 2
		}
		if !taken[i] && !r.fit(texts, taken, i, bound, left, keep) {
			break
		}
	}
	return i
}

// fit takes line i, cut to bound, if that leaves at least keep.
func (r *record) fit(texts []string, taken []bool, i, bound int, left *int, keep int) bool {
	text, clipped := r.lines[i].render(bound)
	n := utf8.RuneCountInString(text) + 1
	if text == "" || n > *left-keep {
		return false
	}
	if clipped {
		r.losses = append(r.losses, Loss{ChangedClipped, r.lines[i].itemID, "cut in the middle"})
	}
	texts[i], taken[i] = text, true
	*left -= n
	return true
}

func (r *record) drop(taken []bool) (n int) {
	for i, l := range r.lines {
		if !taken[i] {
			r.losses = append(r.losses, Loss{LostOlder, l.itemID, "over the bound of the seed"})
			n++
		}
	}
	return n
}

// render writes the line in at most bound code points, "" when its head alone has more.
func (l recordLine) render(bound int) (text string, clipped bool) {
	head, body := l.head, l.body
	if l.note != "" {
		// A note is made of our words and of quoted ones; too long, it is quoted as a whole and cut like anybody's text.
		if utf8.RuneCountInString(l.note)+2 <= bound {
			return mark(l.note), false
		}
		head, body = mark("note")+" ", l.note
	}
	room := bound - utf8.RuneCountInString(head)
	if body == "" && room >= 0 {
		return strings.TrimSuffix(head, " "), false
	}
	if room < minBody {
		if i := strings.Index(head, markClose); i >= 0 && bound > minBody { // long arguments: cut them instead
			return l.cutHead(head[:i+len(markClose)]+" ", head[i+len(markClose):], bound), true
		}
		return "", true
	}
	quoted, clipped := quoteWithin(body, room)
	return head + quoted, clipped
}

// minBody is the room in code points below which nothing sensible is left of a text.
const minBody = 80

// cutHead is for a call with arguments longer than the line may be: all that follows the label becomes one string, cut.
func (l recordLine) cutHead(label, rest string, bound int) string {
	room := bound - utf8.RuneCountInString(label)
	if room < minBody/2 {
		return ""
	}
	quoted, _ := quoteWithin(strings.TrimSpace(rest)+" "+l.body, room)
	return label + quoted
}

// quoteWithin quotes s in at most room code points; what is too long loses its middle.
func quoteWithin(s string, room int) (quoted string, clipped bool) {
	runes := 0
	if len(s) <= 4*room {
		quoted = quote(s)
		if runes = utf8.RuneCountInString(quoted); runes <= room {
			return quoted, false
		}
	}
	// Escapes make text longer: a quarter less each time, until it fits.
	for keep := room - 2; keep > 0; keep = keep * 3 / 4 {
		quoted = quote(cutMiddle(s, keep))
		if utf8.RuneCountInString(quoted) <= room {
			return quoted, true
		}
	}
	return `""`, true
}

// cutMiddle keeps at most n code points of s, two thirds of them from its beginning.
func cutMiddle(s string, n int) string {
	const gap = " … (cut) … "
	n = max(0, n-utf8.RuneCountInString(gap))
	head, tail := 0, len(s)
	for range n * 2 / 3 {
		_, size := utf8.DecodeRuneInString(s[head:])
		head += size
	}
	for range n - n*2/3 {
		_, size := utf8.DecodeLastRuneInString(s[:tail])
		tail -= size
	}
	if head >= tail {
		return s
	}
	return s[:head] + gap + s[tail:]
}

// flat writes a JSON object on one line that nothing breaks out of: what quote escapes can only stand inside its strings, where
// the same escapes mean the same.
func flat(object string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(object)) != nil {
		return quote(object)
	}
	text, _ := clean(b.String())
	var out strings.Builder
	writeEscaped(&out, text, false)
	return out.String()
}
