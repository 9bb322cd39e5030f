package rtc

import (
	"log/slog"
	"net/netip"
	"time"
)

// The bounds and times that Config does not set.
const (
	defaultGatherTimeout  = 3 * time.Second
	defaultConnectTimeout = 20 * time.Second
	defaultMaxUnconnected = 200

	iceDisconnectedAfter = 5 * time.Second  // nothing heard for so long: disconnected
	iceFailedAfter       = 10 * time.Second // and so much longer: failed, 15 s after the last packet
	iceKeepalive         = 2 * time.Second

	closeTimeout = 5 * time.Second // for a peer's goroutines to return before its end is declared without them

	receiveMTU = 1600 // bytes; 1500 loses FFmpeg's longest packets silently

	srtpReplayWindow = 1024 // packets; must exceed what the NACK generator asks for (512), or repairs without RTX are thrown away

	maxTCPSockets  = 512      // ICE-TCP connections of all peers together
	tcpWriteBuffer = 64 << 10 // bytes queued to one TCP peer before packets are dropped
	tcpFirstSTUN   = 5 * time.Second
	acceptPause    = 20 * time.Millisecond // after an error that is not the listener's end

	udpReadBuffer = 4 << 20 // asked for; the kernel's rmem_max may cut it

	maxDataChannels = 4
	maxDataMessage  = 64 << 10 // bytes
)

// Config says where media is received and whom it may come from. Its zero value receives on ports of the system's
// choice from public addresses only.
type Config struct {
	UDPPort        int                                         // one port for all peers, on every address; 0: any free one
	TCPPort        int                                         // ICE-TCP; 0: any free one, -1: off
	PublicIPs      []string                                    // advertised first, with our ports (1:1 NAT); local addresses follow
	AllowLoopback  bool                                        // loopback candidates, ours and theirs: a gateway for this machine, tests
	AllowPrivate   bool                                        // private addresses (RFC 1918, 4193, 6598) as remote candidates: LANs
	KeepAddress    func(iface string, address netip.Addr) bool // which local addresses to receive on; nil: all
	Log            *slog.Logger                                // nil: discard
	GatherTimeout  time.Duration                               // before answering; default 3 s
	ConnectTimeout time.Duration                               // from the offer to connected, else the peer fails; default 20 s
	MaxUnconnected int                                         // peers not yet connected, all together; default 200
	MaxVideoBPS    int                                         // what answers say that a video section may have, bits/s; 0: they say nothing

	disconnectedAfter, failedAfter time.Duration // tests shorten them
	remote                         *policy       // tests set another than the rest of the config means
	sourcePackets                  uint32        // maxSourcePackets; tests lower it
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.GatherTimeout <= 0 {
		c.GatherTimeout = defaultGatherTimeout
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = defaultConnectTimeout
	}
	if c.MaxUnconnected <= 0 {
		c.MaxUnconnected = defaultMaxUnconnected
	}
	if c.sourcePackets == 0 {
		c.sourcePackets = maxSourcePackets
	}
	if c.disconnectedAfter <= 0 {
		c.disconnectedAfter, c.failedAfter = iceDisconnectedAfter, iceFailedAfter
	}
	return c
}

// State is where a peer is in its life.
type State string

// The states. A peer begins connecting; connected and disconnected may alternate.
const (
	StateConnecting   State = "connecting"
	StateConnected    State = "connected"
	StateDisconnected State = "disconnected" // nothing heard for 5 s, or ICE is restarting: hold frames, mark stale
	StateFailed       State = "failed"       // nothing heard for 15 s, or never connected in time; closed follows
	StateClosed       State = "closed"       // final
)

// Handlers must hand over and return, and must not call Peer.Close. A nil one is not called.
type Handlers struct {
	// Track is called once per incoming track that somebody should read: the first audio track of a section, every video
	// track. The layers of a simulcast, and a stream of another SSRC that takes the place of one, have the same MID. It must
	// be read to its end, or drained, or the sender's bandwidth estimate collapses. Several tracks may arrive at the same
	// time, and before Accept returns.
	Track func(*InTrack)
	// State is called for each change that lasts; StateClosed comes last, before Done is closed.
	State func(State)
	// Log takes what is to be said of this peer; nil: the engine's.
	Log *slog.Logger
}
