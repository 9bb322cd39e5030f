package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	chatctx "sightline/context"
	"sightline/context/importer"
	"sightline/context/project"
)

// itemFunc takes the next item of a conversation.
type itemFunc = func(item chatctx.Item, at importer.Place) error

// writeFlags say how a conversation is written.
type writeFlags struct {
	to         string
	keepImages int
	developer  bool
	endUser    bool
}

func (w *writeFlags) add(f *readFlags, to string) {
	f.StringVar(&w.to, "to", to, "`format` of the output: items, transport, text, openai, responses, realtime, anthropic or gemini")
	f.IntVar(&w.keepImages, "keep-images", 1<<20, "for a provider's format: the newest `n` images of each source stay")
	f.BoolVar(&w.endUser, "end-with-user", false, "for Anthropic and Gemini: a line of ours at the end when the assistant spoke last, which many models refuse")
	f.BoolVar(&w.developer, "developer", false, "for OpenAI: instructions are a developer message, not a system message")
}

func (t contextTool) convert(args []string) error {
	f := t.flags("convert", "--to FORMAT [FILE|-]", "Writes a conversation in another format. What that format cannot hold is told on standard error.")
	var w writeFlags
	w.add(f, "")
	strict := f.Bool("strict", false, "fail when anything of the conversation is lost on the way")
	operands, err := f.parse(args, 1)
	if err != nil {
		return err
	}
	if w.to == "" {
		return misuse("--to says which format to write: items, transport, text, openai, responses, realtime, anthropic or gemini")
	}
	src, err := t.open(operands, 0)
	if err != nil {
		return err
	}
	defer src.close()
	lost, err := t.rewrite(src, f, w, nil)
	if err == nil && *strict && lost {
		return fmt.Errorf("something is lost on the way")
	}
	return err
}

// rewrite reads a source and writes it as w says, with change (nil = none) in between: what it
// makes nil is left out. lost: not everything came over.
func (t contextTool) rewrite(src *source, f *readFlags, w writeFlags, change func(chatctx.Item) chatctx.Item) (lost bool, err error) {
	out := bufio.NewWriterSize(t.stdout, 64<<10)
	sink, err := newSink(out, w)
	if err != nil {
		return false, err
	}
	o := f.options()
	o.FillIDs = w.to == "items" || w.to == "realtime"
	report, err := t.read(src, o, f.quiet, func(item chatctx.Item, _ importer.Place) error {
		if change != nil {
			if item = change(item); item == nil {
				return nil
			}
		}
		return sink.put(item)
	})
	if err != nil {
		return false, err
	}
	losses, err := sink.end()
	if err == nil {
		err = out.Flush()
	}
	if !f.quiet {
		tellLosses(t.stderr, w.to, losses)
	}
	return !report.Lossless() || len(losses) > 0, err
}

// tellLosses writes losses of one kind together: a long conversation has many alike.
func tellLosses(w io.Writer, to string, losses []project.Loss) {
	count := map[string]int{}
	for _, l := range losses {
		count[l.Kind]++
	}
	for _, l := range losses {
		n := count[l.Kind]
		if n == 0 {
			continue
		}
		count[l.Kind] = 0
		fmt.Fprintf(w, "%s: %s: item %q: %s", to, l.Kind, l.ItemID, l.Detail)
		if n > 1 {
			fmt.Fprintf(w, " (and %d more of this kind)", n-1)
		}
		fmt.Fprintln(w)
	}
}

// sink writes items in a format. Items, transport and text are written as they come; a provider's format needs all of them.
type sink struct {
	put func(chatctx.Item) error
	end func() ([]project.Loss, error)
}

func newSink(out io.Writer, w writeFlags) (*sink, error) {
	switch w.to {
	case "items":
		l := &listWriter{out: out}
		return &sink{func(item chatctx.Item) error { return l.add(item) }, func() ([]project.Loss, error) { return nil, l.end() }}, nil
	case "transport":
		return transportSink(out), nil
	case "text":
		return &sink{func(item chatctx.Item) error {
			_, err := io.WriteString(out, chatctx.Transcript(chatctx.Items{item}))
			return err
		}, func() ([]project.Loss, error) { return nil, nil }}, nil
	}
	format, err := provider("to", w.to)
	if err != nil {
		return nil, misuse("--to %q: allowed are items, transport, text, openai, responses, realtime, anthropic and gemini", w.to)
	}
	items := chatctx.Items{}
	return &sink{func(item chatctx.Item) error { items = append(items, item); return nil },
		func() ([]project.Loss, error) { return writeProvider(out, format, items, w) }}, nil
}

// transportSink holds one message back, because the calls that follow it belong to it.
func transportSink(out io.Writer) *sink {
	l := &listWriter{out: out}
	var held chatctx.Items
	var losses []project.Loss
	flush := func() error {
		losses = append(losses, project.TransportLosses(held)...)
		for _, m := range chatctx.ToContextMessages(held) {
			if err := l.add(m); err != nil {
				return err
			}
		}
		held = held[:0]
		return nil
	}
	put := func(item chatctx.Item) error {
		switch item.(type) {
		case *chatctx.Message, *chatctx.FunctionCallOutput, *chatctx.Summary:
			if err := flush(); err != nil {
				return err
			}
		}
		held = append(held, item)
		return nil
	}
	return &sink{put, func() ([]project.Loss, error) {
		if err := flush(); err != nil {
			return losses, err
		}
		return losses, l.end()
	}}
}

// listWriter writes a JSON list, one element a line.
type listWriter struct {
	out io.Writer
	n   int
}

func (l *listWriter) add(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	lead := ",\n"
	if l.n == 0 {
		lead = "[\n"
	}
	l.n++
	if _, err := io.WriteString(l.out, lead); err != nil {
		return err
	}
	_, err = l.out.Write(data)
	return err
}

func (l *listWriter) end() error {
	tail := "\n]\n"
	if l.n == 0 {
		tail = "[]\n"
	}
	_, err := io.WriteString(l.out, tail)
	return err
}

// writeProvider writes a provider's format: a list of messages, or the object that its requests are made of.
func writeProvider(out io.Writer, format project.Format, items chatctx.Items, w writeFlags) ([]project.Loss, error) {
	o := project.Options{KeepImages: w.keepImages, Developer: w.developer, AllowLastAssistant: !w.endUser}
	if w.keepImages == 0 {
		o.KeepImages = -1
	}
	head, elements, losses := projected(format, items, o)
	if head != nil {
		if _, err := fmt.Fprintf(out, "{%s", head); err != nil {
			return losses, err
		}
	}
	l := &listWriter{out: out}
	for e := range elements {
		if err := l.add(e); err != nil {
			return losses, err
		}
	}
	if head == nil {
		return losses, l.end()
	}
	tail := "\n]}\n"
	if l.n == 0 {
		tail = "[]}\n"
	}
	_, err := io.WriteString(out, tail)
	return losses, err
}
