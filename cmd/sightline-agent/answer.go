package main

import (
	"bytes"
	"cmp"
	"context"
	"image"
	_ "image/jpeg" // the two formats that a gateway sends
	_ "image/png"
	"slices"
	"time"

	chatctx "sightline/context"
	"sightline/switcher/rules"

	"sightline/cmd/internal/agentclient"
	"sightline/gateway/wire"
	"sightline/switcher"
)

const (
	freshEnough   = 1000 * time.Millisecond // an answer speaks of an image at most this old, if there is one
	lookTimeout   = 2 * time.Second         // to wait for it
	answerTimeout = 20 * time.Second        // for the whole answer, a reconnect in between included

	pipelineBegins = 500 * time.Millisecond // from a message to the entry that a pipeline is being prepared, if there is one
)

func (a *agent) answerLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case question := <-a.questions:
			a.answer(ctx, question)
		}
	}
}

// answer has an op_id made from the question: over reconnects, and with a second agent of this kind in the session, a
// message gets one answer.
func (a *agent) answer(ctx context.Context, question *chatctx.Message) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if !a.answersItself(ctx) {
		return
	}
	reply, err := a.leg.Answer(ctx, rules.Turn{At: time.Now(), Items: upTo(a.client.Chat().Items(), question), Seen: a.look(ctx)})
	if err != nil || reply == "" {
		if err != nil {
			a.say("no answer to %s: %v", question.ID, err)
		}
		return
	}
	message := &chatctx.Message{Role: chatctx.RoleAssistant, AgentID: a.o.agentID, Content: chatctx.TextContent(reply)}
	if _, err := a.client.Append(ctx, "answer-to-"+question.ID, message); err != nil && ctx.Err() == nil {
		a.say("answer to %s refused: %v", question.ID, err)
	}
}

// upTo is the conversation that ends with the question: what was said after it is answered later.
func upTo(items chatctx.Items, question *chatctx.Message) chatctx.Items {
	for i, item := range items {
		if item.ItemID() == question.ID {
			return items[:i+1]
		}
	}
	return append(items, question) // removed since
}

// look asks for a fresh image of every source and gives the figures.
func (a *agent) look(ctx context.Context) []switcher.Sight {
	a.mu.Lock()
	sources := make([]wire.Source, 0, len(a.sources))
	for _, s := range a.sources {
		sources = append(sources, s)
	}
	a.mu.Unlock()
	slices.SortFunc(sources, func(x, y wire.Source) int { return cmp.Compare(x.Name, y.Name) })
	seen := make([]switcher.Sight, len(sources))
	for i, s := range sources {
		seen[i] = switcher.Sight{Source: s.Name, State: s.State}
		if s.State == "ended" {
			continue
		}
		got, err := a.newest(ctx, s.Name)
		if err != nil {
			a.say("no image of %s: %v", s.Name, err)
			continue
		}
		seen[i] = sight(seen[i], got)
	}
	return seen
}

// newest is a fresh image or, where nothing fresh arrives, the last one there is: its age is told.
func (a *agent) newest(ctx context.Context, source string) (agentclient.Image, error) {
	ask := func(age, wait time.Duration) (agentclient.Image, error) {
		ctx, cancel := context.WithTimeout(ctx, wait+3*time.Second)
		defer cancel()
		ageMS, waitMS := int(age/time.Millisecond), int(wait/time.Millisecond)
		return a.client.RequestImage(ctx, wire.ImageRequest{Source: source, MaxAgeMS: &ageMS, WaitMS: &waitMS})
	}
	if got, err := ask(freshEnough, lookTimeout); err == nil {
		return got, nil
	}
	return ask(time.Hour, 0)
}

func sight(s switcher.Sight, i agentclient.Image) switcher.Sight {
	s.Width, s.Height, s.JPEG = i.Width, i.Height, i.Data
	s.CapturedAt = i.CapturedAt.Time
	s.Age = max(0, time.Since(i.CapturedAt.Time))
	if picture, _, err := image.Decode(bytes.NewReader(i.Data)); err == nil {
		s.Brightness = brightness(picture)
	}
	return s
}

// brightness is the mean luma, 0 to 255. A JPEG decodes to YCbCr, whose Y plane is that already; every fourth row is enough.
func brightness(picture image.Image) float64 {
	b := picture.Bounds()
	var sum, n uint64
	for y := b.Min.Y; y < b.Max.Y; y += 4 {
		if p, ok := picture.(*image.YCbCr); ok {
			start := p.YOffset(b.Min.X, y)
			for _, v := range p.Y[start : start+b.Dx()] {
				sum += uint64(v)
			}
			n += uint64(b.Dx())
			continue
		}
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, bl, _ := picture.At(x, y).RGBA()
			sum += uint64(299*r+587*g+114*bl) / 1000 >> 8
			n++
		}
	}
	return float64(sum) / float64(max(n, 1))
}
