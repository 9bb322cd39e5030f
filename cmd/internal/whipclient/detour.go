package whipclient

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"sightline/cmd/internal/udprelay"
)

// withoutCandidates takes the addresses out of an offer: the gateway then knows the publisher by the relay's packets only.
func withoutCandidates(sdp string) string {
	var kept strings.Builder
	for line := range strings.Lines(sdp) {
		if !strings.HasPrefix(line, "a=candidate:") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// detour leads the media through a relay, which runs until ctx ends: the answer's addresses are replaced by its own.
func (p *Publisher) detour(ctx context.Context, answer string) (string, error) {
	server, err := firstUDP(answer, onLoopback(p.endpoint))
	if err != nil {
		return "", err
	}
	relay, err := udprelay.New(*p.cfg.Relay)
	if err != nil {
		return "", err
	}
	near, err := relay.Open(server)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	p.relay = relay
	p.mu.Unlock()
	p.tasks.Go(func() {
		if err := relay.Run(ctx); err != nil {
			p.cfg.Log.Warn("relay", "err", err)
		}
	})
	return onlyCandidate(answer, near), nil
}

// firstUDP is the first address of component 1 that takes UDP; one of loopback comes first where the gateway is there.
func firstUDP(sdp string, loopback bool) (best netip.AddrPort, err error) {
	for line := range strings.Lines(sdp) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "a=candidate:")
		f := strings.Fields(text)
		if !ok || len(f) < 6 || f[1] != "1" || !strings.EqualFold(f[2], "udp") {
			continue
		}
		address, err := netip.ParseAddrPort(joinPort(f[4], f[5]))
		if err != nil {
			continue
		}
		if !best.IsValid() || loopback && address.Addr().IsLoopback() && !best.Addr().IsLoopback() {
			best = address
		}
	}
	if !best.IsValid() {
		return best, errors.New("the gateway offers no UDP address that a relay could send to")
	}
	return best, nil
}

func joinPort(host, port string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]:" + port
	}
	return host + ":" + port
}

// onlyCandidate puts one address in the place of each section's.
func onlyCandidate(sdp string, address netip.AddrPort) string {
	var out strings.Builder
	written := false
	for line := range strings.Lines(sdp) {
		switch {
		case strings.HasPrefix(line, "m="):
			written = false
		case strings.HasPrefix(line, "a=candidate:"):
			if !written {
				fmt.Fprintf(&out, "a=candidate:1 1 udp 2130706431 %s %d typ host\r\n", address.Addr(), address.Port())
				written = true
			}
			continue
		}
		out.WriteString(line)
	}
	return out.String()
}
