package faultnet

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Offer takes a client's own candidates out of its offer, so that the gateway knows it by the relay's packets alone.
func Offer(sdp string) string {
	var kept strings.Builder
	for line := range strings.Lines(sdp) {
		if !strings.HasPrefix(line, "a=candidate:") && !strings.HasPrefix(line, "a=end-of-candidates") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// Answer makes a client's view of the gateway's answer: the relay's port is the only candidate of each section. The gateway's first
// one that takes UDP is where packets go to; for a gateway of this machine (loopback) one of loopback comes before others. Open
// comes before Answer.
func (r *Relay) Answer(sdp string, loopback bool) (string, error) {
	gateway, err := firstUDP(sdp, loopback)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	r.gateway = gateway
	r.mu.Unlock()
	return onlyCandidate(sdp, r.at), nil
}

// firstUDP is the first address of component 1 that takes UDP (RFC 8839 §5.1); where loopback is wanted one of loopback is preferred.
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
