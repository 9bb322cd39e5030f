package jetstream

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	chatctx "sightline/context"
)

// Headers of an entry's message.
const (
	headerN        = "N"
	headerChain    = "H"
	headerOp       = "Op"
	headerTerm     = "Term"
	headerExpected = nats.ExpectedLastSubjSeqHdr
)

const (
	attemptTimeout = 2 * time.Second        // of one publication; a slow disk is no dead one
	clusterAttempt = 700 * time.Millisecond // of one entry's: what was on its way to a leader that steps down gets no answer
	uneasyAfter    = 300 * time.Millisecond // of waiting: is the server well?
	firstRetry     = 2 * time.Millisecond
	longestRetry   = 100 * time.Millisecond
)

// Append implements chatctx.Store. It takes e over: neither it nor what it refers to may be written to any more.
func (s *Store) Append(ctx context.Context, name string, e chatctx.Entry) error {
	if err := checkSession(name); err != nil {
		return err
	}
	payload, err := json.Marshal(e)
	if err != nil {
		return &chatctx.Error{Kind: chatctx.InvalidArgument, Detail: "the entry does not marshal", Cause: err}
	}
	if len(payload) > maxMessage-1024 {
		return &chatctx.Error{Kind: chatctx.TooLarge, Field: "item", Detail: fmt.Sprintf("an entry of %d bytes; allowed are %d", len(payload), maxMessage-1024)}
	}
	began := time.Now()
	ctx, cancel := s.within(ctx)
	defer cancel()
	m := s.enter(name)
	defer m.leave()
	if err := m.takeTurn(ctx); err != nil {
		return err
	}
	defer m.endTurn()
	err = s.append(ctx, m, e, payload)
	if err == nil {
		s.counters.appends.Add(1)
		s.counters.appendTime.observe(time.Since(began))
	}
	return err
}

// append publishes until it is clear that the entry is there, or that another one is in its place. After anything but a clear
// answer it reads what the server has; a repetition cannot be stored twice, since it names what it expects to follow.
func (s *Store) append(ctx context.Context, m *session, e chatctx.Entry, payload []byte) error {
	tail, err := s.tail(ctx, m, e.Seq)
	if err != nil {
		return err
	}
	if e.Seq != tail.n+1 {
		return chatctx.ErrStaleHead
	}
	next := pos{n: e.Seq, h: link(tail.h, e.Seq, payload), term: m.owns()}
	if tail.term > next.term && next.term > 0 {
		return s.fenced(m, tail)
	}
	msg := s.message(m.name, tail, next, string(e.Op), payload)
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		seq, err := s.publish(ctx, msg)
		if err == nil {
			next.seq = seq
			s.stored(m, next, e, len(payload))
			return nil
		}
		var refused *chatctx.Error
		if errors.As(err, &refused) { // it was not stored
			return refused
		}
		if s.counters.retry(err); errors.Is(err, chatctx.ErrClosed) {
			return err
		}
		m.doubt()
		found, err := s.at(ctx, m, tail, e.Seq)
		switch {
		case err != nil:
			return err
		case found.n == next.n && found.h == next.h && found.term == next.term:
			s.stored(m, found, e, len(payload))
			return nil
		case found.term > next.term && next.term > 0:
			return s.fenced(m, found)
		case found.n == tail.n && found.seq == tail.seq: // still nothing: the same again
		case found.n == tail.n: // a fence of ours, or of somebody before us
			tail = found
			msg = s.message(m.name, tail, next, string(e.Op), payload)
		default:
			m.learn(found) // reading goes at least so far
			return chatctx.ErrStaleHead
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return unavailable("the conversation's store did not answer in time; the entry may be recorded or not", errors.Join(ctx.Err(), err))
		}
	}
}

// message is what next is written as, so that it is stored only after tail.
func (s *Store) message(name string, tail, next pos, op string, payload []byte) *nats.Msg {
	h := nats.Header{
		headerExpected: {strconv.FormatUint(tail.seq, 10)}, headerN: {strconv.FormatUint(next.n, 10)},
		headerChain: {hex.EncodeToString(next.h[:])}, headerOp: {op},
	}
	if next.term > 0 {
		h[headerTerm] = []string{strconv.FormatUint(next.term, 10)}
	}
	return &nats.Msg{Subject: s.entrySubject(name), Data: payload, Header: h}
}

func (s *Store) stored(m *session, p pos, e chatctx.Entry, bytes int) {
	m.advance(p, e, bytes)
	s.heads.raise(m.name, p.n, time.Now())
}

// publish sends one message to a stream and waits for its sequence there. A *chatctx.Error says that it is not stored; any
// other error that it may be.
func (s *Store) publish(ctx context.Context, msg *nats.Msg) (uint64, error) {
	r, writable, err := s.engine.writer(ctx)
	if err != nil {
		return 0, err
	}
	conn := r.write
	if strings.HasPrefix(msg.Subject, "blob.") {
		conn = r.images
	}
	uneasy := time.AfterFunc(uneasyAfter, s.engine.suspect)
	defer uneasy.Stop()
	patience := attemptTimeout
	if s.cfg.clustered() && conn == r.write {
		patience = clusterAttempt
	}
	attempt, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := ask(attempt, writable, conn, msg)
	if errors.Is(err, nats.ErrMaxPayload) {
		return 0, &chatctx.Error{Kind: chatctx.TooLarge, Detail: "the store's servers take no message so large", Cause: err}
	}
	if err != nil {
		return 0, err
	}
	var ack struct {
		Seq       uint64    `json:"seq"`
		Duplicate bool      `json:"duplicate"`
		Error     *apiError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return 0, fmt.Errorf("the store's server answers with %w", err)
	}
	switch {
	case ack.Error == nil && (ack.Seq == 0 || ack.Duplicate):
		return 0, errors.New("the store's server gives no clear answer")
	case ack.Error == nil:
		return ack.Seq, nil
	case ack.Error.ErrCode == codeTooLarge:
		return 0, &chatctx.Error{Kind: chatctx.TooLarge, Detail: "the store takes no message so large", Cause: ack.Error}
	case ack.Error.ErrCode == codeStoreFailed && ack.Error.Description == "maximum bytes exceeded":
		s.counters.full.Add(1)
		return 0, unavailable("the store of conversations is full: delete sessions, or give it more room", fmt.Errorf("%w: %w", ErrStoreFull, ack.Error))
	}
	return 0, ack.Error
}

// ErrStoreFull is the cause of refused appends while the store has reached Config.MaxStoreBytes.
var ErrStoreFull = errors.New("the store is full")

// tail is the last entry of a session. It asks the server when it does not know, and when what it knows does not let entry want
// follow.
func (s *Store) tail(ctx context.Context, m *session, want uint64) (pos, error) {
	if tail, known := m.head(); known && tail.n+1 == want {
		return tail, nil
	}
	m.doubt()
	tail, err := s.last(ctx, m.name)
	if err != nil {
		return pos{}, err
	}
	m.learn(tail)
	return tail, nil
}

// last asks the server for the last entry of a session; it is an error when the log was acknowledged further than that.
func (s *Store) last(ctx context.Context, name string) (pos, error) {
	acknowledged := s.heads.acknowledged(name) // before: it may grow meanwhile
	p, _, err := s.one(ctx, name, map[string]any{"last_by_subj": s.entrySubject(name)})
	switch {
	case hasCode(err, codeNoMessage):
		p = start(name)
		if s.cfg.clustered() { // another node has deleted it
			s.forgetLog(name)
			return p, nil
		}
	case err != nil:
		return pos{}, err
	}
	if p.n < acknowledged {
		return pos{}, s.damaged("the log ends at entry %d although entry %d was acknowledged", p.n, acknowledged)
	}
	return p, nil
}

// one asks the stream's leader for one message of a session; whatever was acknowledged before is there.
func (s *Store) one(ctx context.Context, name string, request map[string]any) (p pos, isFence bool, err error) {
	var answer struct {
		Message struct {
			Seq    uint64 `json:"seq"`
			Header []byte `json:"hdrs"`
		} `json:"message"`
	}
	err = s.persist(ctx, func(ctx context.Context, r *running) error {
		return r.api(ctx, "STREAM.MSG.GET."+contextStream(s.partition(name)), request, &answer)
	})
	if err != nil {
		return pos{}, false, err
	}
	header, err := nats.DecodeHeadersMsg(answer.Message.Header)
	if err == nil {
		p, err = position(header, answer.Message.Seq)
	}
	if err != nil {
		return pos{}, false, s.damaged("an entry of the log does not read: %v", err)
	}
	return p, header.Get(headerOp) == opOwner, nil
}

// at gives the place of entry n, which if it is there follows tail; when it is not there, the last entry.
func (s *Store) at(ctx context.Context, m *session, tail pos, n uint64) (pos, error) {
	last, err := s.last(ctx, m.name)
	if err != nil || last.n < n {
		return last, err
	}
	for at := tail; ; {
		p, isFence, err := s.one(ctx, m.name, map[string]any{"seq": at.seq + 1, "next_by_subj": s.entrySubject(m.name)})
		switch {
		case hasCode(err, codeNoMessage), err == nil && (p.n > n || p.n == n && isFence):
			return pos{}, s.damaged("entry %d is missing", n)
		case err != nil || p.n == n:
			return p, err
		}
		at = p
	}
}

func position(h nats.Header, seq uint64) (pos, error) {
	p := pos{seq: seq}
	n, err := strconv.ParseUint(h.Get(headerN), 10, 64)
	if err != nil {
		return p, fmt.Errorf("header %s: %w", headerN, err)
	}
	sum, err := hex.DecodeString(h.Get(headerChain))
	if err != nil || len(sum) != len(p.h) {
		return p, fmt.Errorf("header %s is %.40q", headerChain, h.Get(headerChain))
	}
	p.n = n
	copy(p.h[:], sum)
	if term := h.Get(headerTerm); term != "" {
		if p.term, err = strconv.ParseUint(term, 10, 64); err != nil {
			return p, fmt.Errorf("header %s: %w", headerTerm, err)
		}
	}
	return p, nil
}

func (s *Store) damaged(format string, args ...any) *chatctx.Error {
	s.counters.damaged.Add(1)
	return damaged(format, args...)
}
