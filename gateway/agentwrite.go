package gateway

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gorilla/websocket"

	chatctx "sightline/context"
	"sightline/frames"
	"sightline/gateway/wire"
)

// write is the socket's only writer: answers first, then entries in order, then what changed, then the newest images.
func (a *agent) write(hello wire.Hello) error {
	cursor, err := a.welcome(hello)
	if err != nil {
		return err
	}
	feeds := newImageFeeds(a)
	defer feeds.close()
	feeds.follow(hello.Want.Images)
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		if err := a.writeDue(cursor, feeds); err != nil {
			return err
		}
		var grown <-chan struct{}
		if a.wantsContext() {
			grown = cursor.Grown()
		}
		select {
		case <-a.ctx.Done():
			return a.sayBye()
		case o := <-a.answers:
			err = a.writeOutgoing(o)
		case <-grown:
		case <-a.wake:
		case <-ping.C:
			err = a.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout))
		}
		if err != nil {
			return writeProblem(err)
		}
	}
}

// writeDue writes what is waiting: answers, a batch of entries, source states, images.
func (a *agent) writeDue(cursor *chatctx.Cursor, feeds *imageFeeds) error {
	for range answerQueue {
		select {
		case o := <-a.answers:
			if err := a.writeOutgoing(o); err != nil {
				return writeProblem(err)
			}
			continue
		default:
		}
		break
	}
	if err := a.writeTold(); err != nil {
		return writeProblem(err)
	}
	if err := a.writeEntries(cursor); err != nil {
		return err
	}
	if images, changed := a.takeWant(); changed {
		feeds.follow(images)
	}
	feeds.hear(a.session.callerSpeaks())
	for _, name := range a.takeChanged() {
		feeds.refresh()
		if src := a.session.source(name); src != nil {
			if err := a.writeJSON(src.message()); err != nil {
				return writeProblem(err)
			}
		}
	}
	return feeds.writeNewest()
}

// welcome answers hello with a snapshot, or with where the replay begins, and gives the cursor of what follows.
func (a *agent) welcome(hello wire.Hello) (*chatctx.Cursor, error) {
	log := a.session.log
	w := wire.Welcome{
		Type: wire.TypeWelcome, Session: a.session.id, AgentID: a.id, LogID: a.session.key, Seq: log.Head(), Sources: []wire.Source{},
		Limits: wire.Limits{
			MaxMessageBytes: a.session.cfg.MaxMessageBytes, MaxItemBytes: a.session.cfg.MaxItemBytes,
			MaxImageBytes: a.session.cfg.MaxImageBytes, OpsPerSecond: a.session.cfg.OpsPerSecond, MaxImageFPS: a.session.cfg.MaxImageFPS,
		},
	}
	w.Epoch, w.ActiveLeg, _ = a.session.legs()
	for _, src := range a.session.allSources() {
		w.Sources = append(w.Sources, src.message())
	}
	if !hello.Want.Context { // want may switch it on later: entries then go on after the seq told here
		cursor, err := log.Follow(w.Seq)
		if err != nil {
			return nil, contextProblem(err)
		}
		return cursor, a.writeJSON(w)
	}
	var cursor *chatctx.Cursor
	sameLog := hello.LogID == "" || hello.LogID == a.session.key
	if from := hello.ResumeFrom; from != nil && sameLog {
		// A client that is ahead of the log has seen another one (a store that was lost): it gets a snapshot, too.
		cursor, _ = log.Follow(*from)
		w.Replayed = cursor != nil
	}
	if cursor == nil {
		snapshot := log.Snapshot()
		w.Snapshot, w.Seq = &snapshot, snapshot.Seq
		var err error
		if cursor, err = log.Follow(snapshot.Seq); err != nil {
			return nil, contextProblem(err)
		}
	}
	a.seq.Store(cursor.Seq())
	if err := a.writeJSON(w); err != nil {
		return nil, writeProblem(err)
	}
	return cursor, nil
}

// writeEntries sends up to entriesAtOnce entries, so that answers and images get their turn during a long replay.
func (a *agent) writeEntries(cursor *chatctx.Cursor) error {
	if !a.wantsContext() {
		return nil
	}
	for range entriesAtOnce {
		e, ok, err := cursor.TryNext(a.ctx)
		if err != nil && a.ctx.Err() == nil {
			a.logger.Error("the conversation cannot be read", keyError, err)
			return &closeReason{code: websocket.CloseInternalServerErr, text: "the conversation cannot be read: try again"}
		}
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		if err := a.writeJSON(wire.ContextEntry{Type: wire.TypeContextEntry, Entry: e}); err != nil {
			return writeProblem(err)
		}
		a.seq.Store(e.Seq)
	}
	return nil
}

// writeTold sends what the agent is told unasked, sound last: it is the larger part.
func (a *agent) writeTold() error {
	told, sound := a.outbox.take()
	for _, m := range told {
		if err := a.writeText(m.data); err != nil {
			return err
		}
	}
	for _, m := range sound {
		_ = a.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := a.conn.WriteMessage(websocket.BinaryMessage, m); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) writeOutgoing(o outgoing) error {
	if o.image == nil {
		return a.writeText(o.text)
	}
	return a.writeImage(o.image, o.requestID, passedOver{})
}

func (a *agent) writeJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("marshal %T: %w", v, err)
	}
	return a.writeText(text)
}

func (a *agent) writeText(text []byte) error {
	_ = a.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	return a.conn.WriteMessage(websocket.TextMessage, text)
}

// passedOver counts the images of a wish that were not sent since the last one that was.
type passedOver struct{ superseded, unchanged uint64 }

// writeImage sends an image as one binary message; its bytes are shared with other agents and are not copied here.
func (a *agent) writeImage(img *frames.Image, requestID string, passed passedOver) error {
	now := time.Now()
	age := img.Age(now)
	header, err := json.Marshal(wire.ImageHeader{
		Type: wire.TypeImage, Source: img.Source, Seq: img.Seq, CapturedAt: chatctx.At(img.CapturedAt), AgeMS: age.Milliseconds(),
		Width: img.Width, Height: img.Height, MIME: img.MIME, RequestID: requestID, Superseded: passed.superseded, RTPTimestamp: img.RTPTimestamp,
		Unchanged: passed.unchanged, CaptureErrorMS: captureError(img.CaptureError), CaptureClock: string(img.CaptureClock),
	})
	if err != nil {
		return fmt.Errorf("marshal image header: %w", err)
	}
	_ = a.conn.SetWriteDeadline(now.Add(writeTimeout))
	w, err := a.conn.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return err
	}
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(header)))
	for _, part := range [][]byte{length[:], header, img.Data} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	a.session.shared.metrics.sentImage(img, age, now)
	a.superseded.Add(passed.superseded)
	return nil
}

// sayBye tells a client that it is we who leave.
func (a *agent) sayBye() error {
	var reason *closeReason
	if errors.As(context.Cause(a.ctx), &reason) && reason.bye {
		bye := wire.Bye{Type: wire.TypeBye, Reason: reason.text}
		if reason.code == wire.CloseDrain {
			bye.ResumeAt = a.session.shared.resumeAt()
		}
		text, _ := json.Marshal(bye)
		_ = a.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
		_ = a.conn.WriteMessage(websocket.TextMessage, text)
	}
	return a.ctx.Err()
}

func (a *agent) wantsContext() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.want.Context
}

func (a *agent) wantsTranscripts() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.want.Transcripts
}

// soundRate is the rate at which the agent wants the caller's sound, 0: it does not. A leg is given it as a leg.
func (a *agent) soundRate() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.want.Audio == nil || !a.want.Audio.In || len(a.legs) > 0 {
		return 0
	}
	return a.want.Audio.Rate
}

func (a *agent) takeWant() ([]wire.WantImage, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := a.rewant
	a.rewant = false
	return a.want.Images, changed
}

func (a *agent) takeChanged() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := make([]string, 0, len(a.changed))
	for name := range a.changed {
		names = append(names, name)
	}
	clear(a.changed)
	return names
}

// writeProblem tells a peer that is too slow from one that is gone.
func writeProblem(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &closeReason{code: wire.CloseTooSlow, text: "a write could not finish in time"}
	}
	return err
}
