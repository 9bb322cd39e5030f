package main

import (
	"fmt"
	"slices"

	chatctx "sightline/context"
	"sightline/context/importer"
	"sightline/context/project"
)

func (t contextTool) validate(args []string) error {
	f := t.flags("validate", "--for PROVIDER [FILE|-]", `Says what a provider would answer with a 400, and why. An input in the provider's own format is checked as it stands. Any other
input is checked for what the provider's rules do not allow in it; convert repairs that on the way.`)
	name := f.String("for", "", "`provider`: openai, responses, realtime, anthropic or gemini")
	strict := f.Bool("strict", false, "what only some models or servers refuse counts too")
	operands, err := f.parse(args, 1)
	if err != nil {
		return err
	}
	if *name == "" {
		return misuse("--for says whose rules hold: openai, responses, realtime, anthropic or gemini")
	}
	format, err := provider("for", *name)
	if err != nil {
		return err
	}
	src, err := t.open(operands, 0)
	if err != nil {
		return err
	}
	defer src.close()
	items := chatctx.Items{}
	var places []importer.Place
	report, err := t.read(src, f.options(), true, func(item chatctx.Item, at importer.Place) error {
		items, places = append(items, item), append(places, at)
		return nil
	})
	if err != nil {
		return err
	}
	var doc *importer.JSONDocument
	if string(report.Format) == string(format) {
		if doc, err = importer.Document(src.Input, f.options()); err != nil {
			return err
		}
	}
	var refused, some int
	if doc != nil {
		refused, some = t.validateRaw(src, doc, format)
	} else {
		refused = t.validateItems(src, format, items, places)
	}
	if refused > 0 || some > 0 && *strict {
		return errTold
	}
	fmt.Fprintf(t.stdout, "%s: nothing here that %s is known to refuse (read as %s: %s)\n", src.name, format, report.Format, report.Why)
	return nil
}

// validateRaw checks an input that is in the provider's format, as it stands.
func (t contextTool) validateRaw(src *source, doc *importer.JSONDocument, format project.Format) (refused, some int) {
	found := project.Validate(format, doc.JSON)
	places := make([]importer.Place, len(found))
	var pointers []*importer.Place
	for i, p := range found {
		places[i] = doc.Find(p.Path)
		pointers = append(pointers, &places[i])
	}
	importer.Lines(src.Input, pointers)
	for i, p := range found {
		if p.Some {
			some++
		} else {
			refused++
		}
		fmt.Fprintf(t.stderr, "%s:%d:%d: %s\n", src.name, places[i].Line, places[i].Column, clean(p.String()))
	}
	return refused, some
}

// wouldBeRefused are the repairs of the projectors without which a provider answers 400.
var wouldBeRefused = []string{project.LostOrphanOutput, project.LostDuplicateCall, project.LostEarlierOutput, project.LostEmpty, project.LostImage,
	project.ChangedMadeUp, project.ChangedMoved, project.ChangedArguments, project.ChangedCallID, project.ChangedName, project.AddedTurn}

// validateItems says what had to be repaired to make a request of items.
func (t contextTool) validateItems(src *source, format project.Format, items chatctx.Items, at []importer.Place) int {
	places := map[string]importer.Place{}
	named := slices.Clone(items)
	for i, item := range items { // a loss names its item: items without an id get one for as long as this takes
		if item.ItemID() == "" {
			named[i] = withID(item, fmt.Sprintf("item_%d_of_input", i+1))
		}
		places[named[i].ItemID()] = at[i]
	}
	_, elements, losses := projected(format, named, project.Options{KeepImages: 1 << 20})
	var found []problem
	for _, l := range losses {
		if slices.Contains(wouldBeRefused, l.Kind) {
			found = append(found, problem{Place: places[l.ItemID], Item: 1 + slices.IndexFunc(named, func(i chatctx.Item) bool { return i.ItemID() == l.ItemID }),
				Kind: l.Kind, Detail: l.Detail})
		}
	}
	empty := true
	for range elements {
		empty = false
		break
	}
	if empty {
		found = append(found, problem{Kind: "empty", Detail: "nothing is left to send"})
	}
	locate(src.Input, found)
	for _, p := range found {
		fmt.Fprintf(t.stderr, "%s:%s\n", src.name, clean(p.String()))
	}
	return len(found)
}

// withID is a copy of an item with another id.
func withID(item chatctx.Item, id string) chatctx.Item {
	switch it := item.(type) {
	case *chatctx.Message:
		c := *it
		c.ID = id
		return &c
	case *chatctx.FunctionCall:
		c := *it
		c.ID = id
		return &c
	case *chatctx.FunctionCallOutput:
		c := *it
		c.ID = id
		return &c
	case *chatctx.AgentHandoff:
		c := *it
		c.ID = id
		return &c
	case *chatctx.ConfigUpdate:
		c := *it
		c.ID = id
		return &c
	case *chatctx.Summary:
		c := *it
		c.ID = id
		return &c
	case *chatctx.PipelineSwitch:
		c := *it
		c.ID = id
		return &c
	}
	return item
}
