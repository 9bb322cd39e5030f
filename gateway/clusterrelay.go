package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// Bounds of a relay.
const (
	relayQueue        = 16  // messages of the client on their way to the session's node
	relayPending      = 256 // messages without an answer, sent again when the session moves; beyond it the oldest are not
	relayPendingBytes = 8 << 20
	relayStanding     = 64
	relayPatience     = 90 * time.Second // for a session whose node is gone to be served again
)

// relay is an agent socket of a session that lives on another node. It passes messages on as they are. When that node goes away it
// attaches the agent to wherever the session is next, this node too, and the client notices nothing but the time it takes: it gets
// every entry once, and an answer to every message that can have one.
type relay struct {
	nodes  *nodes
	id     string
	header http.Header // of the client's request, as far as the session's node needs it
	query  string
	client *websocket.Conn
	from   chan relayed // of the client

	// What follows belongs to whichever of the two pumps the comment names, and to serve while none runs.
	hello    map[string]json.RawMessage // up: the first message, with what has changed since
	standing map[string]standing        // up: what holds until it is said anew, such as tools
	repeated map[string]bool            // down: op_ids of those that were said again, whose answers the client has had
	logID    string                     // down
	seq      uint64                     // down: of the last entry, or what the welcome began after
	welcomed bool                       // down
	bye      []byte                     // down: held back until the close tells what it means
	pending  pendingList
}

// standing is a message that another node has to be told, too: tools.set, and leg.register of each name.
type standing struct {
	opID string
	data []byte
}

type relayed struct {
	kind int // of gorilla
	data []byte
}

// relay answers GET /v1/agent of a session elsewhere.
func (n *nodes) relay(w http.ResponseWriter, r *http.Request, id string) {
	l := &relay{
		nodes: n, id: id, header: http.Header{}, query: r.URL.RawQuery, from: make(chan relayed, relayQueue),
		standing: map[string]standing{}, repeated: map[string]bool{},
	}
	for _, name := range []string{"Origin", "Authorization", "Cookie", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Traceparent"} {
		if v := r.Header.Values(name); len(v) > 0 {
			l.header[name] = v
		}
	}
	l.header.Set("Host", r.Host)
	subprotocols := websocket.Subprotocols(r)
	up, res, err := l.dial(r.Context(), subprotocols)
	if err != nil {
		refuseRelay(w, res, err)
		return
	}
	upgrader := websocket.Upgrader{
		HandshakeTimeout: handshakeTimeout, CheckOrigin: func(*http.Request) bool { return true }, WriteBufferSize: 16 << 10, // the session's node has checked it
		Subprotocols: []string{up.Subprotocol()},
		Error: func(w http.ResponseWriter, _ *http.Request, _ int, reason error) {
			problem.Write(w, problem.New(problem.InvalidArgument, "this is a WebSocket: %s", reason))
		},
	}
	if l.client, err = upgrader.Upgrade(w, r, nil); err != nil {
		_ = up.Close()
		return
	}
	n.relays.Add(1)
	defer n.relays.Done()
	n.relayed.Add(1)
	defer n.relayed.Add(-1)
	l.serve(up, subprotocols)
}

// refuseRelay passes on what the session's node said before the upgrade.
func refuseRelay(w http.ResponseWriter, res *http.Response, err error) {
	if res == nil {
		problem.Write(w, problem.New(problem.EngineUnavailable, "the node of this session does not answer: try again").WithRetryAfter(time.Second).WithCause(err))
		return
	}
	defer res.Body.Close()
	for _, name := range []string{"Content-Type", "Retry-After", "Www-Authenticate", "X-Content-Type-Options"} {
		if v := res.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, io.LimitReader(res.Body, 64<<10))
}

// dial attaches to the session where it is now, to this node when it is nowhere: who attaches wakes it.
func (l *relay) dial(ctx context.Context, subprotocols []string) (*websocket.Conn, *http.Response, error) {
	owner := l.nodes.ownerOf(ctx, l.id)
	if owner == "" {
		owner = l.nodes.node.ID()
	}
	d := websocket.Dialer{
		NetDialContext: l.nodes.transport.DialContext, HandshakeTimeout: handshakeTimeout, Subprotocols: subprotocols, WriteBufferSize: 16 << 10,
	}
	return d.DialContext(ctx, "ws://"+owner+":80/v1/agent?"+l.query, l.header)
}

// serve passes messages on until the client is gone, or is told to go.
func (l *relay) serve(up *websocket.Conn, subprotocols []string) {
	ctx, cancel := context.WithCancel(l.nodes.ctx)
	defer cancel()
	defer l.client.Close()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer cancel()
		l.read(ctx)
	}()
	defer func() { <-gone }()
	defer l.client.Close() // ends read
	for {
		why := l.pass(ctx, up)
		if ctx.Err() != nil {
			l.leave()
			return
		}
		if !movable(why) {
			l.passClose(why)
			return
		}
		var err error
		if up, err = l.again(ctx, subprotocols); err != nil {
			var reason *closeReason
			if errors.As(err, &reason) {
				closeSocket(l.client, reason)
				return
			}
			if ctx.Err() == nil {
				l.nodes.log.Warn("an agent's session is not served by any node", keySession, l.id, keyError, err)
			}
			l.leave()
			return
		}
		l.nodes.moved.Add(1)
	}
}

// read takes the client's messages; it waits while they are not taken from it, and so does the client.
func (l *relay) read(ctx context.Context) {
	alive := func() error { return l.client.SetReadDeadline(time.Now().Add(silenceTimeout)) }
	l.client.SetReadLimit(int64(l.nodes.maxBytes))
	l.client.SetPongHandler(func(string) error { return alive() })
	for {
		if alive() != nil {
			return
		}
		kind, data, err := l.client.ReadMessage()
		if err != nil {
			var reason *closeReason
			if errors.As(readProblem(err), &reason) {
				closeSocket(l.client, reason)
			}
			return
		}
		select {
		case l.from <- relayed{kind, data}:
		case <-ctx.Done():
			return
		}
	}
}

// pass passes messages on in both directions until one side ends, and says why the session's did.
func (l *relay) pass(ctx context.Context, up *websocket.Conn) (why error) {
	over := make(chan struct{})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer up.Close()
		l.pumpUp(ctx, up, over)
	}()
	why = l.pumpDown(up)
	close(over)
	_ = up.Close()
	<-sent
	return why
}

// pumpUp sends what the client says, and pings the client.
func (l *relay) pumpUp(ctx context.Context, up *websocket.Conn, over <-chan struct{}) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case m := <-l.from:
			l.note(m)
			_ = up.SetWriteDeadline(time.Now().Add(writeTimeout))
			if up.WriteMessage(m.kind, m.data) != nil {
				return
			}
		case <-ping.C:
			if l.client.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout)) != nil {
				return
			}
		case <-ctx.Done():
			return
		case <-over:
			return
		}
	}
}

// note remembers what has to be said again to another node.
func (l *relay) note(m relayed) {
	if m.kind != websocket.TextMessage || !utf8.Valid(m.data) {
		return
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(m.data, &fields) != nil {
		return
	}
	var t wire.Type
	_ = json.Unmarshal(fields["type"], &t)
	if l.hello == nil {
		l.hello = fields
		return
	}
	if want, ok := fields["want"]; ok && t == wire.TypeWant {
		l.hello["want"] = want
	}
	opID, requestID := idsOf(m.data)
	switch {
	case t == wire.TypeToolsSet:
		l.standing["tools"] = standing{opID, m.data}
	case t == wire.TypeLegRegister && len(l.standing) < relayStanding:
		l.standing["leg "+string(fields["name"])] = standing{opID, m.data}
	}
	if opID != "" || requestID != "" {
		l.pending.add(pendingMessage{opID, requestID, m})
	}
}

// pumpDown passes on what the session's node says.
func (l *relay) pumpDown(up *websocket.Conn) error {
	for {
		kind, data, err := up.ReadMessage()
		if err != nil {
			return err
		}
		if kind == websocket.TextMessage {
			if pass, err := l.hear(data); err != nil || !pass {
				if err != nil {
					return err
				}
				continue
			}
		} else if !l.pending.empty() {
			l.hearBinary(data)
		}
		_ = l.client.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := l.client.WriteMessage(kind, data); err != nil {
			_ = l.client.Close() // ends read, and with it everything
			return err
		}
	}
}

// hear looks at one text message and says whether the client is to have it.
func (l *relay) hear(data []byte) (pass bool, err error) {
	var m struct {
		Type      wire.Type       `json:"type"`
		Seq       uint64          `json:"seq"`
		LogID     string          `json:"log_id"`
		Replayed  bool            `json:"replayed"`
		Snapshot  json.RawMessage `json:"snapshot"`
		OpID      string          `json:"op_id"`
		RequestID string          `json:"request_id"`
	}
	if json.Unmarshal(data, &m) != nil {
		return true, nil
	}
	switch m.Type {
	case wire.TypeWelcome:
		return l.hearWelcome(m.Seq, m.LogID, m.Replayed)
	case wire.TypeContextEntry:
		if m.Seq <= l.seq {
			return false, nil
		}
		l.seq = m.Seq
	case wire.TypeAck, wire.TypeError:
		if l.repeated[m.OpID] {
			delete(l.repeated, m.OpID)
			return false, nil
		}
		l.pending.answered(m.OpID, m.RequestID)
	case wire.TypeBye:
		l.bye = data
		return false, nil
	}
	return true, nil
}

// hearWelcome passes the first welcome on. One of another node is for us, unless it says that the conversation is another one.
func (l *relay) hearWelcome(seq uint64, logID string, replayed bool) (pass bool, err error) {
	if l.welcomed {
		if logID != l.logID || l.wantsContext() && !replayed {
			return false, errConversationGone
		}
		return false, nil
	}
	l.welcomed, l.logID, l.seq = true, logID, seq
	if replayed {
		l.seq = l.resumedFrom()
	}
	return true, nil
}

var errConversationGone = errors.New("the conversation cannot be gone on with")

func (l *relay) resumedFrom() (from uint64) {
	_ = json.Unmarshal(l.hello["resume_from"], &from)
	return from
}

func (l *relay) wantsContext() bool {
	var want wire.Want
	_ = json.Unmarshal(l.hello["want"], &want)
	return want.Context
}

// hearBinary finds the answer to an image request.
func (l *relay) hearBinary(data []byte) {
	if _, header, _, err := wire.DecodeBinary(data); err == nil {
		var m struct {
			RequestID string `json:"request_id"`
		}
		if json.Unmarshal(header, &m) == nil && m.RequestID != "" {
			l.pending.answered("", m.RequestID)
		}
	}
}

// movable says whether the session may be somewhere else now: its node drains, has lost it, or is gone.
func movable(why error) bool {
	var closed *websocket.CloseError
	if errors.Is(why, errConversationGone) {
		return false
	}
	return !errors.As(why, &closed) || slices.Contains([]int{wire.CloseDrain, websocket.CloseAbnormalClosure, websocket.CloseInternalServerErr}, closed.Code)
}

// passClose ends the client's socket as the session's node ended its own.
func (l *relay) passClose(why error) {
	reason := &closeReason{code: websocket.CloseInternalServerErr, text: "the conversation cannot be gone on with: attach again"}
	var closed *websocket.CloseError
	if errors.As(why, &closed) {
		reason = &closeReason{code: closed.Code, text: closed.Text}
	}
	if l.bye != nil {
		_ = l.client.SetWriteDeadline(time.Now().Add(closeTimeout))
		_ = l.client.WriteMessage(websocket.TextMessage, l.bye)
	}
	closeSocket(l.client, reason)
}

// leave tells the client that it is this node that goes away.
func (l *relay) leave() {
	peer, _ := l.nodes.node.Elsewhere()
	text, _ := json.Marshal(wire.Bye{Type: wire.TypeBye, Reason: reasonDrain, ResumeAt: peer.URL})
	_ = l.client.SetWriteDeadline(time.Now().Add(closeTimeout))
	_ = l.client.WriteMessage(websocket.TextMessage, text)
	closeSocket(l.client, &closeReason{code: wire.CloseDrain, text: reasonDrain})
}

// again attaches where the session is next, and says what the client has said: who it is, what it wants, and what has no answer.
func (l *relay) again(ctx context.Context, subprotocols []string) (*websocket.Conn, error) {
	l.bye = nil
	ctx, cancel := context.WithTimeout(ctx, relayPatience)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		up, res, err := l.dial(ctx, subprotocols)
		if err == nil {
			if err = l.repeat(up); err == nil {
				return up, nil
			}
			_ = up.Close()
		}
		if res != nil && res.StatusCode == http.StatusUnauthorized {
			return nil, &closeReason{code: wire.CloseAuth, text: reasonExpired}
		}
		if res != nil && res.StatusCode < 500 && res.StatusCode != http.StatusSwitchingProtocols { // it has ended meanwhile
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
	}
}

func (l *relay) repeat(up *websocket.Conn) error {
	if l.hello == nil {
		return nil // the client has said nothing yet
	}
	if l.welcomed {
		l.hello["resume_from"], _ = json.Marshal(l.seq)
		l.hello["log_id"], _ = json.Marshal(l.logID)
	}
	hello, err := json.Marshal(l.hello)
	if err != nil {
		return err
	}
	messages := []relayed{{websocket.TextMessage, hello}}
	clear(l.repeated)
	for _, name := range slices.Sorted(maps.Keys(l.standing)) {
		if m := l.standing[name]; !l.pending.has(m.opID) {
			messages = append(messages, relayed{websocket.TextMessage, m.data})
			if m.opID != "" {
				l.repeated[m.opID] = true
			}
		}
	}
	for _, m := range append(messages, l.pending.all()...) {
		_ = up.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err := up.WriteMessage(m.kind, m.data); err != nil {
			return err
		}
	}
	return nil
}
