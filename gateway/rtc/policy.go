package rtc

import (
	"net"
	"net/netip"
)

// policy decides which remote addresses may be sent to. What it forbids is forbidden in every disguise (mapped,
// 6to4, NAT64), since an offer is written by a stranger and each candidate makes us send packets.
type policy struct {
	loopback, private bool
}

var (
	nat64Prefix  = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour    = netip.MustParsePrefix("2002::/16")
	compatPrefix = netip.MustParsePrefix("::/96") // IPv4-compatible, deprecated

	// neverRanges hold no honest peer: "this network", reserved and broadcast, cloud metadata services.
	neverRanges = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),
		netip.MustParsePrefix("240.0.0.0/4"), // with 255.255.255.255
		netip.MustParsePrefix("100.100.100.200/32"),
		netip.MustParsePrefix("192.0.0.192/32"),
		netip.MustParsePrefix("168.63.129.16/32"),
		netip.MustParsePrefix("fd00:ec2::254/128"),
	}
	// privateRanges beyond netip.Addr.IsPrivate: carrier NAT (RFC 6598), benchmarking (RFC 2544), site-local (RFC 3879).
	privateRanges = []netip.Prefix{
		netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("198.18.0.0/15"),
		netip.MustParsePrefix("fec0::/10"),
	}
)

// allows says whether packets may go to a.
func (p policy) allows(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if inner, ok := embedded(a); ok {
		return p.allows(inner)
	}
	switch {
	case a.IsUnspecified(), a.IsMulticast(), a.IsLinkLocalUnicast(), inAny(a, neverRanges):
		return false
	case a.IsLoopback():
		return p.loopback
	case isPrivate(a):
		return p.private
	}
	return true
}

// allowsIP is allows in the form that Pion asks for.
func (p policy) allowsIP(ip net.IP) bool {
	a, ok := netip.AddrFromSlice(ip)
	return ok && p.allows(a)
}

func isPrivate(a netip.Addr) bool { return a.IsPrivate() || inAny(a, privateRanges) }

func inAny(a netip.Addr, ranges []netip.Prefix) bool {
	for _, r := range ranges {
		if r.Contains(a) {
			return true
		}
	}
	return false
}

// embedded gives the IPv4 address that an IPv6 transition address leads to.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if a.Is4() {
		return netip.Addr{}, false
	}
	b := a.As16()
	switch {
	case nat64Prefix.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case compatPrefix.Contains(a) && !a.IsLoopback() && !a.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}
