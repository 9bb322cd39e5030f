package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	chatctx "sightline/context"
	"sightline/context/importer"
	"sightline/context/tokens"
)

// inspected is one item as inspect shows it.
type inspected struct {
	N      int          `json:"n"` // from 1
	ID     string       `json:"id,omitempty"`
	Kind   string       `json:"kind"`
	Who    string       `json:"who"`
	Tokens int          `json:"tokens"`
	Text   string       `json:"text"`
	CallID string       `json:"call_id,omitempty"`
	Images []shownImage `json:"images,omitempty"`
}

// shownImage is what can be said of an image without decoding it.
type shownImage struct {
	Kind   string `json:"kind"` // jpeg, png, gif, webp; link; stored; broken
	Width  int    `json:"width,omitempty"`
	Height int    `json:"height,omitempty"`
	Bytes  int    `json:"bytes,omitempty"`
	Detail string `json:"detail"`
	Source string `json:"source,omitempty"`
}

// overview is what inspect says at the end.
type overview struct {
	File     string          `json:"file"`
	Report   importer.Report `json:"report"`
	Counter  string          `json:"counter"`
	Exact    bool            `json:"exact"`
	Tokens   int             `json:"tokens"`
	By       map[string]int  `json:"tokens_by"`
	Images   int             `json:"images"`
	Bytes    int             `json:"image_bytes"`
	Calls    int             `json:"calls"`
	Answered int             `json:"answered"`
	Problems []problem       `json:"problems"`
}

func (t contextTool) inspect(args []string) error {
	f := t.flags("inspect", "[FILE|-]", "Shows a conversation: who said what, tokens, images, calls and their outputs, and what is wrong with it.")
	model := f.String("model", "", "count tokens for this `model`, exactly where its vocabulary is published")
	asJSON := f.Bool("json", false, "write JSON: {items, summary}")
	full := f.Bool("full", false, "show texts whole, not their first 2,000 bytes")
	operands, err := f.parse(args, 1)
	if err != nil {
		return err
	}
	count, err := counter(*model)
	if err != nil {
		return err
	}
	src, err := t.open(operands, 0)
	if err != nil {
		return err
	}
	defer src.close()
	out := bufio.NewWriterSize(t.stdout, 64<<10)
	v := &inspector{out: out, count: count, colour: t.terminal, full: *full || *asJSON, pairs: newPairs(),
		o: overview{File: src.name, Counter: count.Name(), Exact: count.IsExact(), By: map[string]int{}}}
	show := v.line
	if *asJSON {
		list := &listWriter{out: out}
		show = func(i inspected) error { return list.add(i) }
		v.before, v.after = `{"items": `, list
	}
	if _, err := io.WriteString(out, v.before); err != nil {
		return err
	}
	v.o.Report, err = t.read(src, f.options(), true, func(item chatctx.Item, at importer.Place) error { return show(v.item(item, at)) })
	if err != nil {
		_ = out.Flush() // what was read so far helps to find what is wrong
		return err
	}
	v.o.Problems = v.pairs.end()
	locate(src.Input, v.o.Problems)
	return v.end()
}

type inspector struct {
	out    *bufio.Writer
	count  tokens.Counter
	colour bool
	full   bool
	pairs  *pairs
	o      overview
	n      int
	before string
	after  *listWriter // the JSON list, nil for text
}

// item looks at one item.
func (v *inspector) item(item chatctx.Item, at importer.Place) inspected {
	v.n++
	i := inspected{N: v.n, ID: item.ItemID(), Kind: string(item.Kind()), Tokens: v.count.Item(item)}
	switch it := item.(type) {
	case *chatctx.Message:
		i.Who, i.Text = string(it.Role), it.Content.Text()
		if it.AgentID != "" {
			i.Who += " " + it.AgentID
		}
		if it.Interrupted {
			i.Text += " [interrupted]"
		}
		for k, img := range it.Content.Images() {
			i.Images = append(i.Images, v.look(img, at, k))
		}
	case *chatctx.FunctionCall:
		i.Who, i.Text, i.CallID = "call", it.Name+"("+it.Arguments+")", it.CallID
		v.o.Calls++
	case *chatctx.FunctionCallOutput:
		i.Who, i.Text, i.CallID = "result", it.Name+" -> "+it.Output, it.CallID
		if it.IsError {
			i.Who = "error"
		}
		v.o.Answered++
	case *chatctx.Summary:
		i.Who, i.Text = "summary", it.Text
	case *chatctx.AgentHandoff:
		i.Who, i.Text = "handoff", it.FromAgent+" to "+it.ToAgent+": "+it.Reason
		if it.Summary != "" {
			i.Text += "\n" + it.Summary
		}
	case *chatctx.ConfigUpdate:
		i.Who, i.Text = "config", it.Instructions
	case *chatctx.PipelineSwitch:
		i.Who, i.Text = "switch", it.State+": "+it.From+" to "+it.To
	}
	who, _, _ := strings.Cut(i.Who, " ")
	v.o.Tokens += i.Tokens
	v.o.By[who] += i.Tokens
	v.pairs.item(v.n, item, at)
	return i
}

// maxInspectBytes bounds what is decoded of one image to read its header.
const maxInspectBytes = 64 << 20

// look reads an image's header; what is wrong with it becomes a problem.
func (v *inspector) look(img chatctx.ImageContent, at importer.Place, k int) shownImage {
	v.o.Images++
	i := shownImage{Kind: "link", Width: img.Width, Height: img.Height, Detail: img.Detail, Source: img.Source}
	switch {
	case strings.HasPrefix(img.URL, chatctx.BlobPrefix):
		i.Kind = "stored"
		return i
	case !strings.HasPrefix(img.URL, "data:"):
		return i
	}
	mime, data, err := chatctx.ParseDataURL(img.URL, maxInspectBytes)
	if err == nil {
		var info chatctx.ImageInfo
		if info, err = chatctx.InspectImage(data); err == nil {
			v.o.Bytes += len(data)
			i.Kind, i.Width, i.Height, i.Bytes = strings.TrimPrefix(info.MIME, "image/"), info.Width, info.Height, len(data)
			if mime != info.MIME {
				v.pairs.problem(v.n, at, "image_type", fmt.Sprintf("image %d is declared %s and is %s", k+1, clean(mime), info.MIME))
			}
			return i
		}
	}
	i.Kind = "broken"
	v.pairs.problem(v.n, at, "broken_image", fmt.Sprintf("image %d: %v", k+1, err))
	return i
}

// maxShown is how many bytes of a text are shown.
const maxShown = 2000

// line shows an item for a person.
func (v *inspector) line(i inspected) error {
	text := i.Text
	if !v.full && len(text) > maxShown {
		text = fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(text[:maxShown], ""), len(text)-maxShown)
	}
	const hang = "\n                               "
	text = strings.ReplaceAll(clean(text), "\n", hang)
	if _, err := fmt.Fprintf(v.out, "%5d  %s %7d  %s", i.N, v.paint(i.Who), i.Tokens, text); err != nil {
		return err
	}
	if i.CallID != "" {
		fmt.Fprintf(v.out, "  #%s", clean(i.CallID))
	}
	for _, img := range i.Images {
		fmt.Fprintf(v.out, "%s[image: %s]", hang, img)
	}
	_, err := fmt.Fprintln(v.out)
	return err
}

func (i shownImage) String() string {
	s := i.Kind
	if i.Width > 0 {
		s += fmt.Sprintf(" %d×%d", i.Width, i.Height)
	}
	if i.Bytes > 0 {
		s += fmt.Sprintf(", %s", size(i.Bytes))
	}
	if i.Source != "" {
		s += " from " + clean(i.Source)
	}
	if i.Detail != "auto" && i.Detail != "" {
		s += ", detail " + i.Detail
	}
	return s
}

func size(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// colours by who speaks, as ANSI codes.
var colours = map[string]string{"user": "32", "assistant": "36", "system": "35", "developer": "35", "call": "33", "result": "33", "error": "31"}

func (v *inspector) paint(who string) string {
	padded := fmt.Sprintf("%-14s", clean(who))
	kind, _, _ := strings.Cut(who, " ")
	if code := colours[kind]; v.colour && code != "" {
		return "\x1b[" + code + "m" + padded + "\x1b[0m"
	}
	return padded
}

// clean takes what steers a terminal out of a text: a conversation is not ours.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return '�'
		}
		return r
	}, s)
}

func (v *inspector) end() error {
	if v.after != nil {
		if err := v.after.end(); err != nil {
			return err
		}
		data, err := json.Marshal(v.o)
		if err != nil {
			return err
		}
		fmt.Fprintf(v.out, `, "summary": %s}`+"\n", data)
		return v.out.Flush()
	}
	r := v.o.Report
	how := "estimated"
	if v.o.Exact {
		how = "exactly"
	}
	fmt.Fprintf(v.out, "\n%s: %s (%s)\n", v.o.File, r.Format, r.Why)
	fmt.Fprintf(v.out, "items: %d, tokens: %d (%s, %s)", v.n, v.o.Tokens, v.o.Counter, how)
	for _, who := range []string{"system", "developer", "user", "assistant", "call", "result", "error", "handoff", "config", "summary"} {
		if n := v.o.By[who]; n > 0 {
			fmt.Fprintf(v.out, ", %s %d", who, n)
		}
	}
	fmt.Fprintf(v.out, "\nimages: %d (%s), calls: %d, outputs: %d\n", v.o.Images, size(v.o.Bytes), v.o.Calls, v.o.Answered)
	for _, n := range r.Notes {
		fmt.Fprintf(v.out, "note: %s:%s\n", v.o.File, clean(n.String()))
	}
	for _, p := range v.o.Problems {
		fmt.Fprintf(v.out, "problem: %s:%s\n", v.o.File, clean(p.String()))
	}
	return v.out.Flush()
}
