package rtc

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Config says where media is received and whom it may come from. The zero value is a LAN gateway on ports of the system's choice, but for AllowPrivate, which is off in it.
type Config struct {
	UDPPort        int           // one port for all sessions on every address; 0: any free one
	TCPPort        int           // ICE-TCP; 0: any free one, -1: off
	PublicIPs      []string      // advertised in place of the local addresses of the same family (1:1 NAT)
	AllowLoopback  bool          // loopback candidates, ours and theirs: a gateway that serves this machine, tests
	AllowPrivate   bool          // RFC 1918, RFC 6598 and unique local addresses as remote candidates
	Log            *slog.Logger  // nil: discard
	GatherTimeout  time.Duration // before answering; default 3 s
	ConnectTimeout time.Duration // from the answer to connected, else the peer is closed; default 20 s
	MaxUnconnected int           // peers not yet connected, over all sessions; default 200
}

// State is where a peer is in its life.
type State string

// The states, in the order a peer may pass through them; disconnected may go back to connected.
const (
	StateConnecting   State = "connecting"
	StateConnected    State = "connected"
	StateDisconnected State = "disconnected" // nothing heard for 5 s: hold frames, mark stale
	StateFailed       State = "failed"       // nothing heard for about 15 s, or never connected
	StateClosed       State = "closed"       // final
)

// Handlers are called on Pion's goroutines: hand over and return. A nil one is not called.
type Handlers struct {
	Track func(*InTrack) // once per incoming track that is to be read; read it to its end
	State func(State)    // every change, in order; StateClosed is the last
}

// Engine holds the sockets, the certificate and the settings that all peers share.
type Engine struct {
	cfg Config
}

// New opens the sockets. Close frees them.
func New(cfg Config) (*Engine, error) { return &Engine{cfg: cfg}, nil }

// Close closes every peer that is left, then the sockets.
func (e *Engine) Close() error { return nil }

// Accept answers an offer. The peer outlives ctx, which bounds only the answering: when ctx ends before the answer is ready, the peer is gone.
// Errors are *problem.Error: invalid_argument, too_large, not_negotiable, overloaded.
func (e *Engine) Accept(ctx context.Context, offer string, h Handlers) (*Peer, string, error) {
	return nil, "", errors.New("not yet")
}

// Peer is one publisher's PeerConnection.
type Peer struct{}

// Trickle adds the candidates of an application/trickle-ice-sdpfrag body (RFC 8840).
func (p *Peer) Trickle(ctx context.Context, frag string) error { return nil }

// Restart restarts ICE with the credentials and candidates of frag and answers with ours; a failed restart leaves the peer as it was.
func (p *Peer) Restart(ctx context.Context, frag string) (answer string, err error) { return "", nil }

// ICE gives the remote ICE credentials in force.
func (p *Peer) ICE() (ufrag, pwd string) { return "", "" }

// Done is closed when the peer is gone and its goroutines have returned.
func (p *Peer) Done() <-chan struct{} { return nil }

// Close ends the peer and waits until it is gone, for at most closeTimeout.
func (p *Peer) Close() {}

// PeerStats is a snapshot of one peer.
type PeerStats struct {
	State           State   `json:"state"`
	DTLSState       string  `json:"dtls_state"`
	LocalCandidate  string  `json:"local_candidate"`  // type of the selected pair's end: host, srflx, prflx; empty before
	RemoteCandidate string  `json:"remote_candidate"` // the same, theirs
	Protocol        string  `json:"protocol"`         // udp, tcp
	RTTMs           float64 `json:"rtt_ms"`
	BytesReceived   uint64  `json:"bytes_received"`
	PacketsReceived uint64  `json:"packets_received"` // RTP packets read from all tracks
	Tracks          int     `json:"tracks"`
}

// Stats gives a snapshot.
func (p *Peer) Stats() PeerStats { return PeerStats{} }
