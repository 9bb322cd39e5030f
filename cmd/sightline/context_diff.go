package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	chatctx "sightline/context"
	"sightline/context/importer"
)

// shade is what diff remembers of an item: not its text but its hash, and the beginning for a person.
type shade struct {
	key   string   // its id, or its hash when it has none
	hash  [16]byte // of its JSON without the id
	label string
}

// change is one step from the first conversation to the second.
type change struct {
	Kind string `json:"kind"`          // removed, added, changed
	Old  int    `json:"old,omitempty"` // its number in the first conversation, from 1
	New  int    `json:"new,omitempty"` // in the second
	ID   string `json:"id,omitempty"`
	Was  string `json:"was,omitempty"`
	Is   string `json:"is,omitempty"`
}

func (t contextTool) diff(args []string) error {
	f := t.flags("diff", "OLD NEW", `Compares two conversations item by item, by id; items without ids by their content. The formats may differ. As diff(1):
0 = the same, 1 = different, 2 = trouble.`)
	asJSON := f.Bool("json", false, "write a JSON list of changes")
	byContent := f.Bool("by-content", false, "do not look at ids (two formats often have different ones)")
	operands, err := f.parse(args, 2)
	if err != nil {
		return err
	}
	if len(operands) != 2 || operands[0] == "-" && operands[1] == "-" {
		return misuse("diff compares two files; one of them may be -")
	}
	var sides [2][]shade
	for i := range sides {
		src, err := t.open(operands, i)
		if err != nil {
			return err
		}
		sides[i], err = t.shades(src, f)
		src.close()
		if err != nil {
			return err
		}
	}
	if *byContent || !allNamed(sides[0]) || !allNamed(sides[1]) {
		for _, side := range sides {
			for i := range side {
				side[i].key = string(side[i].hash[:])
			}
		}
	}
	changes := compare(sides[0], sides[1])
	out := bufio.NewWriter(t.stdout)
	if *asJSON {
		l := &listWriter{out: out}
		for _, c := range changes {
			if err := l.add(c); err != nil {
				return err
			}
		}
		err = l.end()
	} else {
		for _, c := range changes {
			fmt.Fprintln(out, c)
		}
	}
	if err == nil {
		err = out.Flush()
	}
	if err == nil && len(changes) > 0 {
		return errTold
	}
	return err
}

func (c change) String() string {
	switch c.Kind {
	case "removed":
		return fmt.Sprintf("- %d %s", c.Old, c.Was)
	case "added":
		return fmt.Sprintf("+ %d %s", c.New, c.Is)
	}
	return fmt.Sprintf("~ %d %s\n  %d %s", c.Old, c.Was, c.New, c.Is)
}

func (t contextTool) shades(src *source, f *readFlags) ([]shade, error) {
	var list []shade
	_, err := t.read(src, f.options(), f.quiet, func(item chatctx.Item, _ importer.Place) error {
		data, err := json.Marshal(chatctx.WithID(item, ""))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		list = append(list, shade{key: strings.Clone(item.ItemID()), hash: [16]byte(sum[:16]), label: label(item)})
		return nil
	})
	return list, err
}

// label is the beginning of an item's line in a transcript.
func label(item chatctx.Item) string {
	if m, ok := item.(*chatctx.Message); ok && len(m.Content.Text()) > 400 {
		c := *m
		c.Content = chatctx.TextContent(strings.ToValidUTF8(m.Content.Text()[:400], ""))
		item = &c
	}
	line := clean(strings.TrimSuffix(chatctx.Transcript(chatctx.Items{item}), "\n"))
	if len(line) > 120 {
		line = strings.ToValidUTF8(line[:120], "") + "…"
	}
	if id := item.ItemID(); id != "" {
		line += " (" + id + ")"
	}
	return strings.Clone(line)
}

func allNamed(side []shade) bool {
	for _, s := range side {
		if s.key == "" {
			return false
		}
	}
	return true
}

// compare walks both sides along their longest common order of keys.
func compare(old, now []shade) []change {
	var changes []change
	i, k := 0, 0
	gap := func(toI, toK int) {
		for ; i < toI; i++ {
			changes = append(changes, change{Kind: "removed", Old: i + 1, ID: name(old[i]), Was: old[i].label})
		}
		for ; k < toK; k++ {
			changes = append(changes, change{Kind: "added", New: k + 1, ID: name(now[k]), Is: now[k].label})
		}
	}
	for _, p := range common(old, now) {
		gap(p[0], p[1])
		if old[i].hash != now[k].hash {
			changes = append(changes, change{Kind: "changed", Old: i + 1, New: k + 1, ID: name(old[i]), Was: old[i].label, Is: now[k].label})
		}
		i, k = i+1, k+1
	}
	gap(len(old), len(now))
	return changes
}

func name(s shade) string {
	if s.key == string(s.hash[:]) {
		return ""
	}
	return s.key
}
