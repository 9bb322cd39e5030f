package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	chatctx "sightline/context"
	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// read takes the client's messages until the socket ends. Its error is why.
func (a *agent) read() error {
	a.conn.SetPongHandler(func(string) error { return a.heard() })
	a.conn.SetPingHandler(func(data string) error {
		_ = a.conn.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(closeTimeout))
		return a.heard()
	})
	for {
		if err := a.heard(); err != nil {
			return err
		}
		kind, data, err := a.conn.ReadMessage()
		if err != nil {
			return readProblem(err)
		}
		if kind == websocket.BinaryMessage {
			err = a.takeBinary(data)
		} else {
			err = a.take(data)
		}
		if err != nil {
			return err
		}
	}
}

func (a *agent) heard() error {
	return a.conn.SetReadDeadline(time.Now().Add(a.session.cfg.silence))
}

// takeBinary handles one binary message: sound of a leg, or sound to say. It counts against the rate limit only as what it is
// for: a leg sends 50 pieces a second.
func (a *agent) takeBinary(data []byte) error {
	t, header, payload, err := wire.DecodeBinary(data)
	if err != nil {
		return &closeReason{code: wire.CloseProtocolError, text: err.Error()}
	}
	opID, _ := idsOf(header)
	switch t {
	case wire.TypeAudio:
		err = a.legSound(header, payload)
	case wire.TypeSay:
		var m wire.Say
		if err = decode(header, &m); err == nil {
			err = a.say(a.ctx, m, payload)
		}
	default:
		err = unknownType(t)
	}
	return a.settle(err, opID, "")
}

// settle answers what is only wrong with a message; what ends the socket is given back.
func (a *agent) settle(err error, opID, requestID string) error {
	var reason *closeReason
	if err == nil || errors.As(err, &reason) || a.ctx.Err() != nil {
		return err
	}
	return a.refuse(err, opID, requestID)
}

// take handles one text message. Its error ends the socket; whatever is only wrong with the message is answered.
func (a *agent) take(data []byte) error {
	if !utf8.Valid(data) {
		return &closeReason{code: wire.CloseInvalidUTF8, text: "a text message is not valid UTF-8"}
	}
	t, err := wire.TypeOf(data)
	if err != nil && !errors.Is(err, wire.ErrNoType) {
		return &closeReason{code: wire.CloseProtocolError, text: err.Error()}
	}
	opID, requestID := idsOf(data)
	if r := a.limiter.Reserve(); !unlimited(t) && r.Delay() > 0 {
		wait := r.Delay()
		r.Cancel()
		p := problem.New(problem.RateLimited, "more than %d messages a second: wait %d ms", a.session.cfg.OpsPerSecond, wait.Milliseconds())
		return a.refuse(p.WithRetryAfter(wait), opID, requestID)
	}
	return a.settle(a.handle(t, data), opID, requestID)
}

// unlimited: a leg's words come as fast as its model speaks, and are bounded by how far it may be ahead.
func unlimited(t wire.Type) bool {
	return t == wire.TypeBye || t == wire.TypeLegText || t == wire.TypeLegTranscript
}

// handle does what a message asks for.
func (a *agent) handle(t wire.Type, data []byte) error {
	switch t {
	case wire.TypeContextAppend, wire.TypeContextUpdate, wire.TypeContextRemove, wire.TypeContextTruncate, wire.TypeHandoff:
		op, err := decodeOp(t, data, a.id)
		if err != nil {
			return err
		}
		ack, err := a.session.append(a.ctx, a.id, op)
		if err != nil {
			return err
		}
		return a.answer(ackMessage(op.ID, ack))
	case wire.TypeImageRequest:
		var m wire.ImageRequest
		if err := decode(data, &m); err != nil {
			return err
		}
		return a.requestImage(m)
	case wire.TypeWant:
		var m wire.WantMessage
		if err := decode(data, &m); err != nil {
			return err
		}
		if err := checkWant(m.Want, a.session.cfg); err != nil {
			return err
		}
		a.mu.Lock()
		a.want, a.rewant = m.Want, true
		a.mu.Unlock()
		a.poke()
		return a.listen()
	case wire.TypeToolsSet, wire.TypeToolResult, wire.TypePipelineSwitch, wire.TypeSay, wire.TypeInterrupt, wire.TypeLegRegister:
		return a.handlePipeline(t, data)
	case wire.TypeLegReady, wire.TypeLegFailed, wire.TypeLegText, wire.TypeLegTranscript, wire.TypeLegToolCall, wire.TypeLegTurnDone:
		return a.legMessage(t, data)
	case wire.TypePing:
		var m wire.Ping
		if err := decode(data, &m); err != nil {
			return err
		}
		return a.answer(wire.Ping{Type: wire.TypePong, ID: m.ID})
	case wire.TypeBye:
		return &closeReason{code: websocket.CloseNormalClosure, text: "bye"}
	case wire.TypeHello:
		return problem.New(problem.InvalidArgument, "hello is the first message only: use want to change subscriptions").WithField("type")
	}
	return unknownType(t)
}

func unknownType(t wire.Type) error {
	return problem.New(problem.UnknownType, "message type %q is not served: PROTOCOL.md §5 has the list of those that are", t).WithField("type")
}

// requestImage answers in its own goroutine, since an image may have to be waited for.
func (a *agent) requestImage(m wire.ImageRequest) error {
	if m.RequestID == "" || len(m.RequestID) > 100 {
		return problem.New(problem.InvalidArgument, "request_id is required: 1 to 100 bytes").WithField("request_id")
	}
	r, err := newImageRequest(m.Source, m.Encode, m.MaxAgeMS, m.WaitMS)
	if err != nil {
		return err
	}
	select {
	case a.requests <- struct{}{}:
	default:
		return problem.New(problem.RateLimited, "%d image requests are under way, the limit: wait for an answer", maxRequests).WithRetryAfter(time.Second)
	}
	go func() {
		defer func() { <-a.requests }()
		if err := a.answerImage(m, r); err != nil {
			_ = a.refuse(err, "", m.RequestID) // fails only when the socket is gone
		}
	}()
	return nil
}

func (a *agent) answerImage(m wire.ImageRequest, r imageRequest) error {
	img, err := a.session.image(a.ctx, r)
	if err != nil {
		return err
	}
	if m.Attach {
		ack, err := a.session.attach(a.ctx, a.id, attachOpID(a.id, m.RequestID), img)
		if err != nil {
			return err
		}
		answer := ackMessage("", ack)
		answer.RequestID = m.RequestID
		if err := a.answer(answer); err != nil {
			return err
		}
	}
	return a.send(outgoing{image: img, requestID: m.RequestID})
}

// attachOpID makes a repeated request attach its image once (G3). Ids of any length fit.
func attachOpID(agentID, requestID string) string {
	sum := sha256.Sum256([]byte(agentID + "/" + requestID))
	return "image." + hex.EncodeToString(sum[:16])
}

// answer queues a message for the writer; it waits while the queue is full, and with it the client's next message.
func (a *agent) answer(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("marshal %T: %w", message, err)
	}
	return a.send(outgoing{text: text})
}

func (a *agent) send(o outgoing) error {
	select {
	case a.answers <- o:
		return nil
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

func (a *agent) refuse(err error, opID, requestID string) error {
	p := problem.From(err)
	if p.Code == problem.Internal || p.Code == problem.EngineUnavailable {
		a.logger.Error("a message could not be served", keyError, err)
	}
	a.session.shared.metrics.refused(p.Code)
	m := errorMessage(p, opID, requestID)
	if p.Code == problem.Conflict {
		m.Detail.Seq = a.session.log.Head()
	}
	return a.answer(m)
}

func errorMessage(p *problem.Error, opID, requestID string) wire.Error {
	return wire.Error{
		Type: wire.TypeError, OpID: opID, RequestID: requestID, Code: p.Code, Message: p.Detail,
		Detail: &wire.ErrorDetail{Field: p.Field, RetryAfterMS: int(p.RetryAfter.Milliseconds())},
	}
}

func ackMessage(opID string, ack chatctx.Ack) wire.Ack {
	return wire.Ack{
		Type: wire.TypeAck, OpID: opID, Seq: ack.Seq, ItemID: ack.ItemID, Duplicate: ack.Duplicate, Warnings: ack.Warnings,
	}
}

// idsOf finds what an answer is to be addressed with, also in a message that is otherwise wrong. A tool's result without an
// op_id goes by its call_id.
func idsOf(data []byte) (opID, requestID string) {
	var m map[string]json.RawMessage
	if json.Unmarshal(data, &m) == nil {
		_ = json.Unmarshal(m["op_id"], &opID)
		_ = json.Unmarshal(m["request_id"], &requestID)
		if opID == "" && string(m["type"]) == `"tool.result"` {
			_ = json.Unmarshal(m["call_id"], &opID)
		}
	}
	return opID, requestID
}
