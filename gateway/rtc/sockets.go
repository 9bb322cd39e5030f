package rtc

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/logging"

	"sightline/gateway/rtc/internal/batch"
)

// sockets are what all peers receive on: one UDP port on every kept address, one TCP port.
type sockets struct {
	addrs   []netip.Addr
	udp     *ice.MultiUDPMuxDefault
	udpPort int
	tcp     *ice.TCPMuxDefault // nil: off
	tcpPort int
	flooded atomic.Uint64 // packets thrown away, see guardedUDP
}

func openSockets(cfg Config, logs logging.LoggerFactory) (*sockets, error) {
	addrs, err := localAddresses(cfg)
	if err != nil {
		return nil, err
	}
	conns, err := listenUDP(addrs, cfg.UDPPort)
	if err != nil {
		return nil, err
	}
	s := &sockets{}
	muxes := make([]ice.UDPMux, 0, len(conns))
	for _, c := range conns {
		at := c.LocalAddr().(*net.UDPAddr).AddrPort()
		s.addrs, s.udpPort = append(s.addrs, at.Addr().Unmap()), int(at.Port())
		reader, err := batch.New(c)
		if err != nil {
			return nil, fmt.Errorf("read UDP port %d: %w", at.Port(), err)
		}
		guarded := &guardedUDP{UDPConn: c, batch: reader, packets: newFloodGate(cfg.sourcePackets), checks: newFloodGate(maxSourceChecks), dropped: &s.flooded}
		muxes = append(muxes, ice.NewUDPMuxDefault(ice.UDPMuxParams{UDPConn: guarded, Logger: logs.NewLogger("udpmux")}))
	}
	s.udp = ice.NewMultiUDPMuxDefault(muxes...)
	if cfg.TCPPort < 0 {
		return s, nil
	}
	ln, err := listenTCP(s.addrs, cfg.TCPPort)
	if err != nil {
		_ = s.udp.Close()
		return nil, err
	}
	s.tcpPort = ln.Addr().(*net.TCPAddr).Port
	s.tcp = ice.NewTCPMuxDefault(ice.TCPMuxParams{
		Listener: ln, Logger: logs.NewLogger("tcpmux"), ReadBufferSize: 32, WriteBufferSize: tcpWriteBuffer,
		FirstStunBindTimeout: tcpFirstSTUN, AliveDurationForConnFromStun: tcpFirstSTUN,
	})
	return s, nil
}

func (s *sockets) close() error {
	err := s.udp.Close()
	if s.tcp != nil {
		err = errors.Join(err, s.tcp.Close())
	}
	return err
}

// localAddresses lists where to receive. Addresses that appear later are not seen: a restart is needed.
func localAddresses(cfg Config) ([]netip.Addr, error) {
	ifaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var addrs []netip.Addr
	for _, iface := range ifaces {
		if iface.Flags&net.FlagUp == 0 {
			continue
		}
		list, err := iface.Addrs()
		if err != nil {
			continue // gone since
		}
		for _, a := range list {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			addr := prefix.Addr().Unmap()
			if addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsLoopback() && !cfg.AllowLoopback ||
				cfg.KeepAddress != nil && !cfg.KeepAddress(iface.Name, addr) || slices.Contains(addrs, addr) {
				continue
			}
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) == 0 {
		return nil, errors.New("no network address to receive media on: only loopback or link-local ones are there, or all are filtered out; allow loopback to serve this machine alone")
	}
	return addrs, nil
}

// listenUDP opens the same port on every address. An address that cannot be bound for another reason than its port
// (an IPv6 address still being checked, say) is left out, as long as one remains.
func listenUDP(addrs []netip.Addr, port int) ([]*net.UDPConn, error) {
	const attempts = 20 // for port 0: what is free on one address may be taken on the next
	var err error
	for range attempts {
		var conns []*net.UDPConn
		if conns, err = listenUDPOnce(addrs, port); err == nil {
			return conns, nil
		}
		if port != 0 {
			break
		}
	}
	return nil, err
}

func listenUDPOnce(addrs []netip.Addr, port int) ([]*net.UDPConn, error) {
	var conns []*net.UDPConn
	var errs []error
	for _, a := range addrs {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, uint16(port))))
		if err != nil {
			errs = append(errs, err)
			if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
				break
			}
			continue
		}
		_ = c.SetReadBuffer(udpReadBuffer) // best effort
		conns = append(conns, c)
		port = c.LocalAddr().(*net.UDPAddr).Port
	}
	last := errors.Join(errs...)
	if len(conns) > 0 && !errors.Is(last, syscall.EADDRINUSE) {
		return conns, nil
	}
	for _, c := range conns {
		_ = c.Close()
	}
	return nil, fmt.Errorf("open UDP port %d for media: %w", port, last)
}

// listenTCP listens on the one address, or on all and turns away what arrives at others than the kept ones.
func listenTCP(addrs []netip.Addr, port int) (net.Listener, error) {
	host := netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)).String()
	switch {
	case len(addrs) == 1:
		host = netip.AddrPortFrom(addrs[0], uint16(port)).String()
	case !slices.ContainsFunc(addrs, netip.Addr.Is6):
		host = netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)).String()
	}
	ln, err := net.Listen("tcp", host)
	if err != nil {
		return nil, fmt.Errorf("open TCP port %d for media: %w", port, err)
	}
	return &boundedListener{Listener: ln, addrs: addrs}, nil
}

// boundedListener keeps at most maxTCPSockets connections; further ones are closed at once. The mux gives up at the first error,
// so only the listener's own end is one: being out of file descriptors passes.
type boundedListener struct {
	net.Listener
	addrs []netip.Addr
	open  atomic.Int64
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if err != nil {
			time.Sleep(acceptPause)
			continue
		}
		at, ok := c.LocalAddr().(*net.TCPAddr)
		if !ok || !slices.Contains(l.addrs, at.AddrPort().Addr().Unmap()) || l.open.Load() >= maxTCPSockets {
			_ = c.Close()
			continue
		}
		l.open.Add(1)
		closed := make(chan struct{})
		return &guardedTCP{Conn: c, closed: closed, done: sync.OnceFunc(func() { close(closed); l.open.Add(-1) })}, nil
	}
}
