package main

import (
	"fmt"
	"slices"
	"strings"

	chatctx "sightline/context"
	"sightline/context/importer"
)

// problem is something wrong with a conversation, whoever gets it.
type problem struct {
	importer.Place
	Item   int    `json:"item"` // its number, from 1; 0 = none
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
}

func (p problem) String() string {
	s := fmt.Sprintf("%s: %s", p.Kind, p.Detail)
	if p.Item > 0 {
		s = fmt.Sprintf("item %d: %s", p.Item, s)
	}
	if at := p.Place.String(); at != "" {
		s = at + ": " + s
	}
	return s
}

// pairs follows a conversation and finds what does not fit together. It remembers ids, not items.
type pairs struct {
	found []problem
	ids   map[string]int
	calls map[string]*callState
	order []*callState
}

type callState struct {
	id, name string
	n        int
	at       importer.Place
	answered bool
}

// What is told of a conversation at most, and what counts as big.
const (
	maxProblems  = 1000
	bigTextBytes = 256 << 10
)

func newPairs() *pairs { return &pairs{ids: map[string]int{}, calls: map[string]*callState{}} }

func (p *pairs) problem(n int, at importer.Place, kind, detail string) {
	if len(p.found) < maxProblems {
		p.found = append(p.found, problem{at, n, kind, detail})
	}
}

func (p *pairs) item(n int, item chatctx.Item, at importer.Place) {
	if id := item.ItemID(); id != "" {
		if first := p.ids[id]; first != 0 {
			p.problem(n, at, "duplicate_id", fmt.Sprintf("item %d has the id %s already", first, id))
		} else {
			p.ids[id] = n
		}
	}
	switch it := item.(type) {
	case *chatctx.Message:
		text := it.Content.Text()
		if strings.TrimSpace(text) == "" && len(it.Content.Images()) == 0 {
			p.problem(n, at, "empty", "nothing is said in it")
		}
		p.big(n, at, text)
	case *chatctx.FunctionCall:
		p.big(n, at, it.Arguments)
		if p.calls[it.CallID] != nil {
			p.problem(n, at, "duplicate_call", fmt.Sprintf("item %d has the call_id %.60q already", p.calls[it.CallID].n, it.CallID))
			return
		}
		c := &callState{id: it.CallID, name: it.Name, n: n, at: at}
		p.calls[it.CallID] = c
		p.order = append(p.order, c)
	case *chatctx.FunctionCallOutput:
		p.big(n, at, it.Output)
		switch c := p.calls[it.CallID]; {
		case c == nil:
			p.problem(n, at, "orphan_output", fmt.Sprintf("no call before it has the call_id %.60q", it.CallID))
		case c.answered:
			p.problem(n, at, "duplicate_output", fmt.Sprintf("the call %.60q has its output already", it.CallID))
		default:
			c.answered = true
		}
	}
}

func (p *pairs) big(n int, at importer.Place, text string) {
	if len(text) > bigTextBytes {
		p.problem(n, at, "oversized", fmt.Sprintf("a text of %s", size(len(text))))
	}
}

// end gives what was found, in order.
func (p *pairs) end() []problem {
	for _, c := range p.order {
		if !c.answered {
			p.problem(c.n, c.at, "unanswered_call", fmt.Sprintf("%.60s has no output", c.name))
		}
	}
	slices.SortStableFunc(p.found, func(a, b problem) int { return a.Item - b.Item })
	if p.found == nil {
		return []problem{}
	}
	return p.found
}

// locate finds the lines of problems.
func locate(in importer.Input, found []problem) {
	places := make([]*importer.Place, len(found))
	for i := range found {
		places[i] = &found[i].Place
	}
	importer.Lines(in, places)
}
