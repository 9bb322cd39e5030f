package rtc

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/pion/ice/v4"
)

// candidate is one a=candidate line (RFC 8839 §5.1) reduced to what either side needs.
type candidate struct {
	foundation string
	component  int
	proto      string // "udp", "tcp"
	priority   uint32
	addr       netip.Addr
	port       uint16
	typ        string // host, srflx, prflx, relay
	tcpType    string // active, passive, so; TCP only
	ufrag      string // the generation it claims, if it does
}

// parseCandidate reads the value of an a=candidate attribute, with or without its "candidate:" prefix. Names
// (mDNS and other) are no addresses: not ok. Letter case does not matter.
func parseCandidate(value string) (c candidate, ok bool) {
	f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(value), "candidate:"))
	if len(f) < 8 || len(f[0]) > 32 || !strings.EqualFold(f[6], "typ") {
		return candidate{}, false
	}
	component, err1 := strconv.ParseUint(f[1], 10, 16)
	priority, err2 := strconv.ParseUint(f[3], 10, 32)
	addr, err3 := netip.ParseAddr(f[4])
	port, err4 := strconv.ParseUint(f[5], 10, 16)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return candidate{}, false
	}
	c = candidate{
		foundation: f[0], component: int(component), proto: strings.ToLower(f[2]), priority: uint32(priority),
		addr: addr, port: uint16(port), typ: strings.ToLower(f[7]),
	}
	for i := 8; i+1 < len(f); i += 2 {
		switch strings.ToLower(f[i]) {
		case "tcptype":
			c.tcpType = strings.ToLower(f[i+1])
		case "ufrag":
			c.ufrag = f[i+1]
		}
	}
	return c, true
}

// String renders the attribute's value without extensions that only its own side understands.
func (c candidate) String() string {
	s := fmt.Sprintf("%s %d %s %d %s %d typ %s", c.foundation, c.component, c.proto, c.priority, c.addr, c.port, c.typ)
	if c.proto == "tcp" {
		s += " tcptype " + c.tcpType
	}
	return s
}

// usable says whether a remote candidate is worth giving to ICE: RTP component, an address we may send to. A remote
// passive TCP candidate is not: we never open TCP connections to addresses that a stranger names.
func (c candidate) usable(p policy) bool {
	if c.component != 1 || !p.allows(c.addr) {
		return false
	}
	switch c.proto {
	case "udp":
		if c.port == 0 {
			return false
		}
	case "tcp":
		if c.tcpType != "active" {
			return false
		}
	default:
		return false
	}
	_, err := ice.UnmarshalCandidate(c.String())
	return err == nil
}

// cleanCandidates keeps of the attribute values those that are usable, belong to the generation ufrag (or claim none)
// and are new, UDP first, at most limit. What is dropped is no error: honest peers are found by the packets they
// send (peer-reflexive candidates).
func cleanCandidates(values []string, p policy, ufrag string, limit int) []string {
	var udp, tcp []string
	seen := make(map[string]bool)
	for _, v := range values {
		c, ok := parseCandidate(v)
		if !ok || !c.usable(p) || (c.ufrag != "" && c.ufrag != ufrag) {
			continue
		}
		s := c.String()
		if seen[s] {
			continue
		}
		seen[s] = true
		if c.proto == "udp" {
			udp = append(udp, s)
		} else {
			tcp = append(tcp, s)
		}
	}
	all := append(udp, tcp...)
	return all[:min(limit, len(all))]
}

// localCandidates orders our own candidates for the answer: UDP before TCP, public addresses (the configured ones
// before all) before private before loopback, IPv4 before IPv6. FFmpeg uses nothing but the first UDP host line.
// Component 2 is left out: RTCP is always multiplexed.
func localCandidates(values, publicIPs []string, keepPrivate bool) []candidate {
	var list []candidate
	for _, v := range values {
		if c, ok := parseCandidate(v); ok && c.component == 1 {
			list = append(list, c)
		}
	}
	public := publicCandidates(list, publicIPs)
	if len(public) > 0 && !keepPrivate {
		list = slices.DeleteFunc(list, func(c candidate) bool { return rank(c) == 1 })
	}
	slices.SortStableFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.proto, a.proto), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.addr.BitLen(), b.addr.BitLen()))
	})
	list = append(public, list...)
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.proto, a.proto) })
	type transport struct {
		proto string
		at    netip.AddrPort
	}
	seen := make(map[transport]bool)
	return slices.DeleteFunc(list, func(c candidate) bool {
		key := transport{c.proto, netip.AddrPortFrom(c.addr, c.port)}
		dup := seen[key]
		seen[key] = true
		return dup
	})
}

// publicCandidates stand for the addresses a NAT maps to us one to one. They are only told, never gathered: a packet
// to one of them arrives at some local address, and all of those know the peer.
func publicCandidates(local []candidate, publicIPs []string) []candidate {
	const highest = 126<<24 | 65535<<8 | 255 // host, component 1 (RFC 8445 §5.1.2.1)
	var public []candidate
	for i, ip := range publicIPs {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			continue // New refused it already
		}
		for _, proto := range []string{"udp", "tcp"} {
			at := slices.IndexFunc(local, func(c candidate) bool { return c.proto == proto })
			if at < 0 {
				continue
			}
			c := local[at]
			c.foundation, c.addr, c.typ = fmt.Sprintf("pub%d%s", i, proto), addr, "host"
			if proto == "udp" {
				c.priority = highest - uint32(i)<<8
			}
			public = append(public, c)
		}
	}
	return public
}

// rank: 0 public, 1 private, 2 loopback.
func rank(c candidate) int {
	switch {
	case c.addr.IsLoopback():
		return 2
	case isPrivate(c.addr) || c.addr.IsLinkLocalUnicast():
		return 1
	}
	return 0
}
