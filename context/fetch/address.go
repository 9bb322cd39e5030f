package fetch

import "net/netip"

// permits reports whether addr may be dialled.
func (f *Fetcher) permits(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap() // ::ffff:10.0.0.1 is 10.0.0.1
	for _, p := range f.cfg.Allow {
		if p.Contains(addr) {
			return true
		}
	}
	return public(addr)
}

// public reports whether addr is an ordinary address of the internet: in no block of the IANA special-purpose registries
// (RFC 6890), not multicast, not reserved.
func public(addr netip.Addr) bool {
	special := special6
	if addr.Is4() {
		special = special4
	} else if !netip.MustParsePrefix("2000::/3").Contains(addr) {
		return false // all that is given out lies in there; NAT64, unique local, link-local, loopback and multicast do not
	}
	for _, block := range special {
		if netip.MustParsePrefix(block).Contains(addr) {
			return false
		}
	}
	return true
}

// Constants in all but syntax.
var (
	special4 = []string{
		"0.0.0.0/8",        // this network
		"10.0.0.0/8",       // private
		"100.64.0.0/10",    // carriers' NAT; a cloud's metadata at 100.100.100.200
		"127.0.0.0/8",      // loopback
		"168.63.129.16/32", // a cloud's metadata, though public by the registries
		"169.254.0.0/16",   // link-local; clouds' metadata at 169.254.169.254
		"172.16.0.0/12",    // private
		"192.0.0.0/24",     // protocol assignments; a cloud's metadata at 192.0.0.192
		"192.0.2.0/24",     // documentation
		"192.31.196.0/24",  // AS112
		"192.52.193.0/24",  // AMT
		"192.88.99.0/24",   // 6to4 relays
		"192.168.0.0/16",   // private
		"192.175.48.0/24",  // AS112
		"198.18.0.0/15",    // benchmarks
		"198.51.100.0/24",  // documentation
		"203.0.113.0/24",   // documentation
		"224.0.0.0/4",      // multicast
		"240.0.0.0/4",      // reserved, broadcast
	}
	special6 = []string{
		"2001::/23",         // protocol assignments, Teredo, ORCHID
		"2001:db8::/32",     // documentation
		"2002::/16",         // 6to4: holds any IPv4 address
		"2620:4f:8000::/48", // AS112
		"3fff::/20",         // documentation
	}
)
