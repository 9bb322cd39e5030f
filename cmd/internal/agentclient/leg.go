package agentclient

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	chatctx "sightline/context"
	"sightline/gateway/wire"
	"sightline/switcher"
)

// Leg is a pipeline that the client offers to the session: any switcher.Leg, carried by the leg.… messages (PROTOCOL.md
// §5.12). It is registered after every welcome.
type Leg struct {
	Name     string
	Kind     switcher.Kind
	Default  bool
	InRate   int // Hz of the caller's sound: 16000, 24000, 48000, or -1 for none; 0: 16000
	OutRate  int // Hz of the leg's sound, or -1 for text only; 0: 24000
	OwnTurns bool
	Seed     switcher.SeedMode // "": hybrid
	New      func() switcher.Leg
	// Look is what the leg sees; nil: nothing.
	Look func(ctx context.Context, maxAge time.Duration) []switcher.Sight
	// Stopped is told how a leg of an epoch ended, nil error: it was stopped; nil func: nobody is told.
	Stopped func(epoch uint64, err error)
}

// legs are the epochs of one connection.
type legs struct {
	client *Client
	conn   *conn
	ctx    context.Context // of the connection
	stop   context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex
	running map[uint64]*legRun
}

type legRun struct {
	inbox  *switcher.Inbox
	cancel context.CancelFunc
}

func (c *Client) newLegs(ctx context.Context, k *conn) *legs {
	ctx, stop := context.WithCancel(ctx)
	return &legs{client: c, conn: k, ctx: ctx, stop: stop, running: map[uint64]*legRun{}}
}

// end stops every leg and waits for them.
func (l *legs) end() {
	l.stop()
	l.tasks.Wait()
}

// register offers what the client has; refusals go to Handler.Refused.
func (l *legs) register() {
	for _, leg := range l.client.cfg.Legs {
		l.conn.send(wire.LegRegister{
			Type: wire.TypeLegRegister, OpID: "leg-" + leg.Name, Name: leg.Name, Kind: string(leg.Kind), Default: leg.Default,
			InRate: leg.InRate, OutRate: leg.OutRate, OwnTurns: leg.OwnTurns,
			Seed: string(leg.Seed),
		})
	}
}

// take handles a message that is about legs; ok is false when it is not.
func (l *legs) take(kind wire.Type, message []byte) (ok bool, err error) {
	switch kind {
	case wire.TypeLegStart:
		return true, decode(message, func(m wire.LegStart) error { l.start(m); return nil })
	case wire.TypeLegStop:
		return true, decode(message, func(m wire.LegStop) error { l.cancel(m.Epoch); return nil })
	case wire.TypeLegCommit:
		return true, decode(message, func(m wire.LegCommit) error { return l.put(m.Epoch, switcher.FloorIn{Respond: m.Respond}) })
	case wire.TypeLegRespond:
		return true, decode(message, func(m wire.LegRespond) error {
			item, err := chatctx.UnmarshalItem(m.Item)
			if err != nil {
				return fmt.Errorf("gateway's item: %w", err)
			}
			return l.put(m.Epoch, switcher.ItemIn{Seq: m.Seq, Item: item, Respond: true})
		})
	case wire.TypeLegInterrupt:
		return true, decode(message, func(m wire.LegInterrupt) error {
			return l.put(m.Epoch, switcher.InterruptedIn{Item: m.ItemID, Played: time.Duration(m.PlayedMS) * time.Millisecond, Text: m.TextHeard})
		})
	case wire.TypeLegToolResult:
		return true, decode(message, func(m wire.LegToolResult) error {
			return l.put(m.Epoch, switcher.ToolResultIn{CallID: m.CallID, Name: m.Name, Output: m.Output, IsError: m.IsError})
		})
	case wire.TypeSpeechStarted, wire.TypeSpeechStopped:
		return true, decode(message, func(m wire.Speech) error { l.speech(m); return nil })
	}
	return false, nil
}

// speech is for every leg: it names no epoch.
func (l *legs) speech(m wire.Speech) {
	if m.Who != "caller" {
		return
	}
	in := switcher.CallerSpeechIn{Started: m.Type == wire.TypeSpeechStarted, Final: m.Final, At: m.At.Time}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.running {
		_ = r.inbox.Put(in) // a leg that reads nothing is cancelled with its connection
	}
}

// hear gives a leg the caller's sound. Its time is told from its place: the newest sample is now.
func (l *legs) hear(header wire.AudioHeader, payload []byte) {
	pcm := make([]int16, len(payload)/2)
	for i := range pcm {
		pcm[i] = int16(binary.LittleEndian.Uint16(payload[2*i:]))
	}
	at := time.Now().Add(-time.Duration(len(pcm)) * time.Second / time.Duration(max(header.Rate, 1)))
	_ = l.put(header.Epoch, switcher.SoundIn{PCM: pcm, At: at})
}

func (l *legs) put(epoch uint64, in switcher.Input) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[epoch]; r != nil {
		return r.inbox.Put(in)
	}
	return nil
}

func (l *legs) cancel(epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.running[epoch]; r != nil {
		r.cancel()
		delete(l.running, epoch)
	}
}

// start makes and runs a leg for an epoch.
func (l *legs) start(m wire.LegStart) {
	var offered *Leg
	for i := range l.client.cfg.Legs {
		if l.client.cfg.Legs[i].Name == m.Name {
			offered = &l.client.cfg.Legs[i]
		}
	}
	if offered == nil {
		l.conn.send(wire.LegFailed{Type: wire.TypeLegFailed, Epoch: m.Epoch, Code: "not_found", Message: "no leg of that name is offered here"})
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	run := &legRun{inbox: switcher.NewInbox(m.InRate, 0), cancel: cancel}
	l.mu.Lock()
	l.running[m.Epoch] = run
	l.mu.Unlock()
	l.tasks.Go(func() {
		defer l.cancel(m.Epoch)
		err := offered.New().Run(ctx, l.startOf(m, offered), run.inbox, l.emit(m.Epoch))
		if ctx.Err() != nil {
			err = nil
		}
		if err != nil {
			l.conn.send(failed(m.Epoch, err))
		}
		if offered.Stopped != nil {
			offered.Stopped(m.Epoch, err)
		}
	})
}

func failed(epoch uint64, err error) wire.LegFailed {
	m := wire.LegFailed{Type: wire.TypeLegFailed, Epoch: epoch, Code: "failed", Message: err.Error()}
	if e, ok := errors.AsType[*switcher.LegError](err); ok {
		m.Code, m.Message, m.Retryable = e.Code, e.Message, e.Retryable
	}
	return m
}

func (l *legs) startOf(m wire.LegStart, leg *Leg) switcher.Start {
	s := switcher.Start{
		Session: l.client.cfg.Session, Epoch: m.Epoch, Reason: m.Reason, InRate: m.InRate, OutRate: m.OutRate,
		Seed:  switcher.Seed{Mode: switcher.SeedMode(m.Seed.Mode), Instructions: m.Seed.Instructions, Items: m.Seed.Items},
		Items: func() chatctx.Items { return l.client.Chat().Items() },
		Image: l.client.Blob, Look: leg.Look, Log: l.client.cfg.Log,
	}
	for _, t := range m.Tools {
		s.Tools = append(s.Tools, switcher.Tool{Name: t.Name, Description: t.Description, Parameters: t.Parameters})
	}
	if s.Look == nil {
		s.Look = func(context.Context, time.Duration) []switcher.Sight { return nil }
	}
	return s
}

// emit puts a leg's outputs on the wire; it waits while the socket is behind.
func (l *legs) emit(epoch uint64) switcher.Emit {
	return func(ctx context.Context, o switcher.Output) error {
		switch m := o.(type) {
		case switcher.ReadyOut:
			l.conn.send(wire.LegReady{Type: wire.TypeLegReady, Epoch: epoch})
		case switcher.TextOut:
			l.conn.send(wire.LegText{Type: wire.TypeLegText, Epoch: epoch, ItemID: m.Item, Delta: m.Delta})
		case switcher.TranscriptOut:
			who := "caller"
			if m.Agent {
				who = "agent"
			}
			l.conn.send(wire.LegTranscript{Type: wire.TypeLegTranscript, Epoch: epoch, ItemID: m.Item, Who: who, Text: m.Text, Final: m.Final, Failed: m.Failed})
		case switcher.ToolCallOut:
			l.conn.send(wire.LegToolCall{Type: wire.TypeLegToolCall, Epoch: epoch, CallID: m.CallID, Name: m.Name, Arguments: m.Arguments, ItemID: m.Item})
		case switcher.TurnDoneOut:
			l.conn.send(wire.LegTurnDone{Type: wire.TypeLegTurnDone, Epoch: epoch, ItemID: m.Item, Status: m.Status})
		case switcher.SoundOut:
			payload := make([]byte, 0, 2*len(m.PCM))
			for _, v := range m.PCM {
				payload = binary.LittleEndian.AppendUint16(payload, uint16(v))
			}
			l.conn.sendBinary(wire.AudioHeader{Type: wire.TypeAudio, Epoch: epoch, ItemID: m.Item, Rate: m.Rate, Format: wire.FormatPCM, Text: m.Text}, payload)
		case switcher.CallerSpeechOut, switcher.ToolCancelOut, switcher.NoticeOut, switcher.StageOut: // the wire has no place for these
		}
		return ctx.Err()
	}
}

// Blob gets the bytes of an image of the conversation (sightline:blob/…).
func (c *Client) Blob(ctx context.Context, url string) (mime string, data []byte, err error) {
	hash, ok := strings.CutPrefix(url, chatctx.BlobPrefix)
	if !ok {
		return "", nil, fmt.Errorf("image %.60q: only %s… is stored at the gateway", url, chatctx.BlobPrefix)
	}
	target := *c.target
	target.Scheme = strings.Replace(target.Scheme, "ws", "http", 1)
	target.Path = strings.TrimSuffix(target.Path, "/v1/agent") + "/v1/sessions/" + c.cfg.Session + "/blobs/" + hash
	target.RawQuery = ""
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return "", nil, err
	}
	if c.cfg.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", nil, fmt.Errorf("image %s: %w", hash, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("image %s: %s", hash, answer.Status)
	}
	data, err = io.ReadAll(io.LimitReader(answer.Body, maxMessage))
	return answer.Header.Get("Content-Type"), data, err
}

// legAudio reads the header of a binary audio message.
func legAudio(header []byte) (wire.AudioHeader, error) {
	var h wire.AudioHeader
	if err := json.Unmarshal(header, &h); err != nil {
		return h, fmt.Errorf("gateway's audio header %.80q: %w", header, err)
	}
	return h, nil
}
