package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// checked is the result of looking at one session's logs when all was quiet.
type checked struct {
	session     string
	entries     int
	commits     int
	digest      string
	differences []string
}

// Waiting for the end of a log: it is there when it has not grown for quiet and everybody has it.
const (
	quiet     = 300 * time.Millisecond
	headEvery = 100 * time.Millisecond
	headWait  = 20 * time.Second
)

// check compares what the agents of a session were sent with each other, with what was acknowledged and with the
// conversation that the gateway tells over HTTP.
func (s *session) check(ctx context.Context) checked {
	c := checked{session: s.id}
	books := map[string]*logBook{}
	for i, a := range s.agents {
		name := fmt.Sprint(i + 1)
		if a.slow {
			name += " (slow)"
		}
		books[name] = a.log
	}
	told, err := s.awaitHead(ctx, books)
	if err != nil {
		c.differences = []string{err.Error()}
	}
	for name, b := range books {
		books[name] = b.clone() // it may still grow
	}
	first := s.agents[0].log.clone()
	c.entries, c.digest = int(first.head()), first.digest()
	c.differences = append(c.differences, compare(books)...)
	s.mu.Lock()
	c.differences = append(c.differences, first.missing(s.acked, s.commits)...)
	c.commits = len(s.commits)
	s.mu.Unlock()
	if err == nil {
		c.differences = append(c.differences, s.compareFolds(told)...)
	}
	return c
}

// awaitHead waits until all agents have the log to its end, and gives the conversation at that moment.
func (s *session) awaitHead(ctx context.Context, books map[string]*logBook) (conversation, error) {
	deadline, last, since := time.Now().Add(headWait), uint64(0), time.Now()
	for {
		told, err := s.l.gateway.conversation(ctx, s.id)
		if err != nil {
			return told, fmt.Errorf("the conversation cannot be had: %w", err)
		}
		if told.Seq != last {
			last, since = told.Seq, time.Now()
		}
		behind := ""
		for name, b := range books {
			if head := b.head(); head != told.Seq {
				behind = fmt.Sprintf("agent %s is at entry %d, the log at %d", name, head, told.Seq)
			}
		}
		if behind == "" && time.Since(since) >= quiet {
			return told, nil
		}
		if time.Now().After(deadline) {
			if behind == "" {
				behind = "the log goes on growing"
			}
			return told, fmt.Errorf("after %v: %s", headWait, behind)
		}
		pause(ctx, headEvery)
	}
}

// compareFolds compares what each agent has made of its entries with what the gateway has.
func (s *session) compareFolds(told conversation) (differences []string) {
	var want any
	if err := json.Unmarshal(told.Context, &want); err != nil {
		return []string{"the conversation is no JSON: " + err.Error()}
	}
	for i, a := range s.agents {
		text, err := json.Marshal(a.client.Chat().Items())
		var got any
		if err == nil && !bytes.Equal(text, told.Context) {
			err = json.Unmarshal(text, &got)
		} else {
			got = want
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			differences = append(differences, fmt.Sprintf("what agent %d has made of its entries is not the conversation that the gateway tells", i+1))
		}
	}
	return differences
}
