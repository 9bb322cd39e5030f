package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	chatctx "sightline/context"

	"sightline/gateway/wire"
)

// answerWithin bounds the wait for the answer to one deed.
const answerWithin = 15 * time.Second

// begin starts what an agent does now and again, until ctx ends; what is under way then gets its answer, while life lasts.
func (s *session) begin(ctx, life context.Context, deeds *sync.WaitGroup, i int, a *agent) {
	o, id := &s.l.o, fmt.Sprintf("load-%d", i+1)
	every := func(d time.Duration, deed func(n int)) {
		if d > 0 {
			deeds.Go(func() { repeat(ctx, d, deed) })
		}
	}
	if !o.noContext {
		every(o.appendEvery, func(n int) { s.append(life, a, id, n) })
	}
	every(o.requestEvery, func(int) { s.request(life, a) })
	if i == 0 {
		every(o.switchEvery, func(n int) { s.change(life, a, n) })
	}
}

// repeat does it every d, the first time after a part of it, so that sessions do not keep step.
func repeat(ctx context.Context, d time.Duration, deed func(n int)) {
	next := time.Now().Add(rand.N(d))
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		deed(n)
		next = next.Add(d)
		timer.Reset(time.Until(next))
	}
}

// append adds a message. It is a system message: no pipeline answers it.
func (s *session) append(life context.Context, a *agent, agent string, n int) {
	ctx, cancel := context.WithTimeout(life, answerWithin)
	defer cancel()
	opID := fmt.Sprintf("%s-%s-note-%d", s.l.name, agent, n)
	begun := time.Now()
	ack, err := a.client.Append(ctx, opID, &chatctx.Message{Role: chatctx.RoleSystem, Content: chatctx.TextContent(fmt.Sprintf("note %d of %s", n, agent))})
	if err != nil {
		s.l.m.fail("append: " + kind(err))
		return
	}
	s.l.m.time(s.l.m.appends, time.Since(begun))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked[opID] = ack.Seq
}

// request asks for one image now.
func (s *session) request(life context.Context, a *agent) {
	ctx, cancel := context.WithTimeout(life, answerWithin)
	defer cancel()
	begun := time.Now()
	maxAge := 1000
	if _, err := a.client.RequestImage(ctx, wire.ImageRequest{MaxAgeMS: &maxAge}); err != nil {
		s.l.m.fail("image.request: " + kind(err))
		return
	}
	s.l.m.time(s.l.m.requests, time.Since(begun))
}
