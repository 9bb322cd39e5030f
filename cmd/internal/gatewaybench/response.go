package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sightline/cmd/internal/gatewaybench/caller"
	chatctx "sightline/context"
	"sightline/switcher/local"
)

// sentences are what the caller of the part response says, in turn.
var sentences = []string{"My order number is four seven one one.", "What was my order number?", "What time is it?", "Thank you."}

// engines are the local ones, alone.
type engines struct {
	*local.Engines
	voice *local.Voice // the caller's
	said  []spoken     // sentences
}

type spoken struct {
	rate   int
	pcm    []int16
	coded  caller.Speech
	endsAt int // packet of the last loud sound
}

// loud is above the noise of a synthetic voice.
const loud = 300

func (b *bench) engines(ctx context.Context) (*engines, error) {
	if missing := local.Check(); len(missing) > 0 {
		return nil, fmt.Errorf("%s", missing[0].Sentence)
	}
	made, err := local.New(local.Config{})
	if err != nil {
		return nil, err
	}
	e := &engines{Engines: made}
	if e.voice, err = local.NewVoice(local.VoiceConfig{Voice: "rms"}); err != nil {
		return nil, err
	}
	for _, text := range sentences[:min(len(sentences), b.rounds)] {
		s := spoken{rate: e.voice.Rate()}
		if err := e.voice.Speak(ctx, text, func(pcm []int16) error { s.pcm = append(s.pcm, pcm...); return nil }); err != nil {
			return nil, err
		}
		for i, v := range s.pcm {
			if v > loud || v < -loud {
				s.endsAt = i * 50 / s.rate
			}
		}
		if s.coded, err = caller.Code(ctx, s.rate, s.pcm); err != nil {
			return nil, err
		}
		e.said = append(e.said, s)
	}
	return e, nil
}

// alone is the engines' own time for a sentence and its answer, without anything of ours: from the end of the sound to its text, and
// from the answer's text to its first sound. The sound comes at the pace of speech.
func (e *engines) alone(ctx context.Context, s spoken, endOfTurn time.Duration, answer string) (hear, speak time.Duration, err error) {
	u, err := e.Recognizer.Listen(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer u.Close()
	pcm := append(slices.Clone(s.pcm[:min(len(s.pcm), (s.endsAt+1)*s.rate/50)]), make([]int16, int(endOfTurn.Seconds()*float64(s.rate)))...)
	for begun, n, piece := time.Now(), 0, s.rate/50; n*piece < len(pcm); n++ {
		select {
		case <-time.After(time.Until(begun.Add(time.Duration(n) * caller.FrameTime))):
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
		if err := u.Write(pcm[n*piece : min((n+1)*piece, len(pcm))]); err != nil {
			return 0, 0, err
		}
	}
	begun := time.Now()
	if _, err := u.Finish(ctx); err != nil {
		return 0, 0, err
	}
	hear = time.Since(begun)
	first := errors.New("the first sound is there")
	begun = time.Now()
	if i := strings.Index(answer, ". "); i >= 0 {
		answer = answer[:i+1]
	}
	err = e.Voice.Speak(ctx, answer, func([]int16) error { speak = time.Since(begun); return first })
	if !errors.Is(err, first) {
		return 0, 0, fmt.Errorf("the voice alone: %v", err)
	}
	return hear, speak, nil
}

// response: a caller speaks, the local engines of the gateway answer.
func (b *bench) response(ctx context.Context) error {
	e, err := b.engines(ctx)
	if err != nil {
		return err
	}
	silence, err := caller.Code(ctx, legRate, make([]int16, legRate/5))
	if err != nil {
		return err
	}
	t, ctx := b.newTalks(ctx)
	t.running.Go(func() { _ = e.Run(ctx) })
	whole, own, beyond, err := b.converse(ctx, t, e, silence)
	if err = errors.Join(err, t.end()); err != nil {
		return err
	}
	for _, d := range [][]time.Duration{whole, own, beyond} {
		slices.Sort(d)
	}
	fmt.Fprintf(b.out, "End of the caller's speech → first sound at the caller, %d turns with the local engines (pocketsphinx, rules, flite):\n\n", len(whole))
	fmt.Fprint(b.out, "| | p50 | longest | wanted |\n|---|---|---|---|\n")
	row := func(name string, d []time.Duration, wanted string) {
		fmt.Fprintf(b.out, "| %s | %.0f | %.0f | %s |\n", name, ms(quantile(d, .5)), ms(d[len(d)-1]), wanted)
	}
	row("the whole, ms", whole, "")
	fmt.Fprintf(b.out, "| of it: silence that ends a turn (`--end-of-turn`), ms | %.0f | | |\n", ms(b.endOfTurn))
	row("of it: the engines alone, same sound and answer, measured beside it, ms", own, "")
	row("the rest, ours, ms", beyond, under(ms(quantile(beyond, .5)), 350))
	fmt.Fprintln(b.out)
	return nil
}

func (b *bench) converse(ctx context.Context, t *talks, e *engines, silence caller.Speech) (whole, own, beyond []time.Duration, err error) {
	k, err := t.call(ctx, "bench-response", caller.Config{Silence: silence})
	if err == nil {
		err = t.pass(ctx, time.Second)
	}
	for round := 0; err == nil && round < b.rounds; round++ {
		s := e.said[round%len(e.said)]
		var took, hear, speak time.Duration
		var answer string
		if took, err = b.turn(ctx, t, k, s); err != nil {
			break
		}
		if answer, err = b.answer(ctx, k.id); err != nil {
			break
		}
		if hear, speak, err = e.alone(ctx, s, b.endOfTurn, answer); err == nil {
			whole, own, beyond = append(whole, took), append(own, hear+speak), append(beyond, took-b.endOfTurn-hear-speak)
		}
	}
	return whole, own, beyond, err
}

// turn says a sentence, and gives how long after its end the answer is heard; it returns when the answer is over.
func (b *bench) turn(ctx context.Context, t *talks, k *talk, s spoken) (time.Duration, error) {
	first := k.caller.Say(s.coded)
	deadline := time.Now().Add(time.Duration(len(s.coded))*caller.FrameTime + patience)
	var ended time.Time
	for time.Now().Before(deadline) {
		if err := t.pass(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
		if at, ok := k.caller.SentAt(first + s.endsAt); ok {
			ended = at
		}
		if ended.IsZero() {
			continue
		}
		if heard := k.caller.Packets(ended); len(heard) > 0 && time.Since(heard[len(heard)-1].At) > time.Second {
			return heard[0].At.Sub(ended), nil
		}
	}
	return 0, fmt.Errorf("no answer was heard within %s; the gateway is to run as serve --pipeline local", patience)
}

// answer is what the agent said last.
func (b *bench) answer(ctx context.Context, session string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.gateway.URL+"/v1/sessions/"+session+"/context", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var said struct{ Context chatctx.Items }
	if err := json.Unmarshal(body, &said); err != nil {
		return "", fmt.Errorf("the conversation: %w in %.200s", err, body)
	}
	for _, item := range slices.Backward(said.Context) {
		if m, ok := item.(*chatctx.Message); ok && m.Role == chatctx.RoleAssistant {
			return m.Content.Text(), nil
		}
	}
	return "", errors.New("the agent has said nothing")
}
