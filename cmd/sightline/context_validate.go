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
	o := f.options()
	o.Plain = importer.Format(format) // what this provider takes as it stands is not another's that has to be converted
	detected, err := importer.Detect(src.Input, o)
	if err != nil {
		return named(src, err)
	}
	var doc *importer.JSONDocument
	if string(detected) == string(format) {
		if doc, err = importer.Document(src.Input, o); err != nil {
			return named(src, err)
		}
	}
	var refused, some int
	if doc != nil {
		refused, some = t.validateRaw(src, doc, format)
	} else if refused, err = t.validateItems(src, o, format); err != nil {
		return err
	}
	if refused > 0 || some > 0 && *strict {
		return errTold
	}
	fmt.Fprintf(t.stdout, "%s: nothing here that %s is known to refuse (read as %s)\n", src.name, format, detected)
	return nil
}

// validateRaw checks an input that is in the provider's format, as it stands.
func (t contextTool) validateRaw(src *source, doc *importer.JSONDocument, format project.Format) (refused, some int) {
	found := project.Validate(format, doc.JSON)
	more := len(found) - min(len(found), maxComplaints)
	for _, p := range found[len(found)-more:] {
		if !p.Some {
			refused++
		}
	}
	found = found[:len(found)-more]
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
	if more > 0 {
		fmt.Fprintf(t.stderr, "%s: %d more\n", src.name, more)
	}
	return refused, some
}

// maxComplaints is how many problems are shown: who has more has them for one reason.
const maxComplaints = 100

// wouldBeRefused are the repairs of the projectors without which a provider answers 400.
var wouldBeRefused = []string{project.LostOrphanOutput, project.LostDuplicateCall, project.LostEarlierOutput, project.LostEmpty, project.LostImage,
	project.ChangedMadeUp, project.ChangedMoved, project.ChangedArguments, project.ChangedCallID, project.ChangedName, project.AddedTurn}

// validateItems says what had to be repaired to make a request of items.
func (t contextTool) validateItems(src *source, o importer.Options, format project.Format) (int, error) {
	items := chatctx.Items{}
	var at []importer.Place
	_, err := t.read(src, o, true, func(item chatctx.Item, place importer.Place) error {
		items, at = append(items, item), append(at, place)
		return nil
	})
	if err != nil {
		return 0, err
	}
	places, numbers := map[string]importer.Place{}, map[string]int{}
	all := slices.Clone(items)
	for i, item := range items { // a loss names its item: items without an id get one for as long as this takes
		if item.ItemID() == "" {
			all[i] = chatctx.WithID(item, fmt.Sprintf("item_%d_of_input", i+1))
		}
		places[all[i].ItemID()], numbers[all[i].ItemID()] = at[i], i+1
	}
	_, elements, losses := projected(format, all, project.Options{KeepImages: 1 << 20, AllowLastAssistant: true})
	var found []problem
	for _, l := range losses {
		if slices.Contains(wouldBeRefused, l.Kind) {
			found = append(found, problem{Place: places[l.ItemID], Item: numbers[l.ItemID], Kind: l.Kind, Detail: l.Detail})
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
	for i, p := range found {
		if i == maxComplaints {
			fmt.Fprintf(t.stderr, "%s: %d more\n", src.name, len(found)-i)
			break
		}
		fmt.Fprintf(t.stderr, "%s:%s\n", src.name, clean(p.String()))
	}
	return len(found), nil
}
