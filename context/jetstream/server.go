package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// maxMessage bounds one message with its headers: an item of chatctx.DefaultMaxItemBytes, an image of
// chatctx.DefaultMaxImageBytes, or the ids that a truncate takes away.
const maxMessage = 4 << 20

// running is one life of the server inside, or elsewhere, and the connections to it. Each kind of call has a connection of its own, since the
// server answers a connection's calls one after the other: a long read must not hold an append up.
type running struct {
	srv                        *server.Server // nil when the server is elsewhere
	write, read, images, nodes *nats.Conn     // nodes: what gateways say to each other; nil with the server inside
	stored                     *atomic.Uint64 // bytes, as of the last probe; nil with the server inside

	// writable ends when appends cannot succeed, alive when the server goes away; calls under way end with them.
	writable, alive       context.Context
	unwritable, endOfLife context.CancelCauseFunc
}

// errGone ends the calls that wait for a server that is being restarted.
var errGone = errors.New("the store's server is being restarted")

func newRunning() *running {
	r := &running{}
	r.writable, r.unwritable = context.WithCancelCause(context.Background())
	r.alive, r.endOfLife = context.WithCancelCause(context.Background())
	return r
}

func (r *running) conns() (open []*nats.Conn) {
	for _, conn := range []*nats.Conn{r.write, r.read, r.images, r.nodes} {
		if conn != nil {
			open = append(open, conn)
		}
	}
	return open
}

func startServer(dir string, sync bool, log *slog.Logger) (*running, error) {
	if err := tameBlocks(dir, log); err != nil {
		return nil, fmt.Errorf("the store's files: %w", err)
	}
	fatal := new(atomic.Pointer[string])
	srv, err := server.NewServer(&server.Options{
		ServerName: "sightline", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, SyncAlways: sync, DisableJetStreamBanner: true,
		// The streams have bounds of their own, which together are Config.MaxStoreBytes. This one is checked against their sum when
		// a store is opened again, and a store that no longer fits must open all the same.
		JetStreamMaxStore: 1 << 50, JetStreamMaxMemory: 1 << 20,
		MaxPayload: maxMessage, MaxPending: 64 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("the store's server: %w", err)
	}
	srv.SetLoggerV2(serverLog{log, fatal}, false, false, false)
	srv.Start()
	r := newRunning()
	r.srv = srv
	if !srv.ReadyForConnections(10*time.Second) || !srv.JetStreamEnabled() {
		why := "it did not get ready"
		if said := fatal.Load(); said != nil {
			why = *said
		}
		r.stop()
		return nil, fmt.Errorf("the store's server: %s", why)
	}
	for _, conn := range []**nats.Conn{&r.write, &r.read, &r.images} {
		*conn, err = nats.Connect("", nats.InProcessServer(srv), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.NoCallbacksAfterClientClose())
		if err != nil {
			r.stop()
			return nil, fmt.Errorf("the store's server: %w", err)
		}
	}
	return r, nil
}

// stop returns when nothing of the server is left.
func (r *running) stop() {
	r.unwritable(errGone)
	r.endOfLife(errGone)
	for _, conn := range r.conns() {
		conn.Close()
	}
	if r.srv != nil {
		r.srv.Shutdown()
		r.srv.WaitForShutdown()
	}
}

// health is nil while the server takes what it is given.
func (r *running) health() error {
	h := r.srv.Healthz(nil)
	if h.Error != "" {
		return errors.New(h.Error)
	}
	return nil
}

// ask sends a request and waits for its one answer, at most until until ends.
func ask(ctx, until context.Context, conn *nats.Conn, msg *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(until, func() { cancel(context.Cause(until)) })()
	answer, err := conn.RequestMsgWithContext(ctx, msg)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

// api asks the server's JetStream API and decodes its answer into reply, which may be nil.
func (r *running) api(ctx context.Context, subject string, request, reply any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answer, err := ask(ctx, r.alive, r.write, &nats.Msg{Subject: "$JS.API." + subject, Data: data})
	if err != nil {
		return err
	}
	var failed struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &failed); err != nil {
		return fmt.Errorf("the store's server answers %s with %w", subject, err)
	}
	if failed.Error != nil {
		return failed.Error
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal(answer.Data, reply)
}

// apiError is what JetStream answers when it refuses.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// Error codes of JetStream.
const (
	codeStoreFailed       = 10077 // a bound of the stream is reached; also write errors
	codeTooLarge          = 10054
	codeWrongLast         = 10071
	codeWrongLastInFlight = 10164
	codeNoMessage         = 10037
	codeNoPeers           = 10005
	codeNoStorage         = 10047
	codeNameInUse         = 10058
)

func hasCode(err error, codes ...int) bool {
	var e *apiError
	if !errors.As(err, &e) {
		return false
	}
	for _, c := range codes {
		if e.ErrCode == c {
			return true
		}
	}
	return false
}

// serverLog hands what the server says to slog; what it calls fatal stays with the caller of startServer.
type serverLog struct {
	log   *slog.Logger
	fatal *atomic.Pointer[string]
}

func (l serverLog) Noticef(format string, v ...any) {
	l.log.Debug("store: " + fmt.Sprintf(format, v...))
}
func (l serverLog) Warnf(format string, v ...any) { l.log.Warn("store: " + fmt.Sprintf(format, v...)) }
func (l serverLog) Errorf(format string, v ...any) {
	l.log.Error("store: " + fmt.Sprintf(format, v...))
}
func (l serverLog) Debugf(string, ...any) {}
func (l serverLog) Tracef(string, ...any) {}
func (l serverLog) Fatalf(format string, v ...any) {
	said := fmt.Sprintf(format, v...)
	l.fatal.Store(&said)
	l.log.Error("store: " + said)
}
