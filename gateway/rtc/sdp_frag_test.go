package rtc

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/pion/ice/v4"

	"sightline/gateway/problem"
)

func TestFragmentsOfRealClientsAreRead(t *testing.T) {
	const pwd = "vw5LmwG4y/e6dPP/zAP9Gp5k"
	for name, c := range map[string]struct {
		text string
		want fragment
	}{
		"RFC 9725, credentials in the section": {
			"a=group:BUNDLE 0 1\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\na=ice-ufrag:ysXw\r\na=ice-pwd:" + pwd + "\r\n" +
				"a=candidate:1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag ysXw network-id 1\r\na=end-of-candidates\r\n",
			fragment{"ysXw", pwd, []string{"1387637174 1 udp 2122260223 192.0.2.1 61764 typ host generation 0 ufrag ysXw network-id 1"}, true},
		},
		"browser page, credentials above": {
			"a=ice-ufrag:ysXw\r\na=ice-pwd:" + pwd + "\r\nm=video 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:0\r\na=candidate:1 1 UDP 1 192.0.2.1 5 typ host\r\n",
			fragment{"ysXw", pwd, []string{"1 1 UDP 1 192.0.2.1 5 typ host"}, false},
		},
		"end alone, line feeds": {"a=ice-ufrag:ysXw\na=ice-pwd:" + pwd + "\nm=audio 9 RTP/AVP 0\na=mid:0\na=end-of-candidates\n", fragment{ufrag: "ysXw", pwd: pwd, end: true}},
		"no credentials":        {"m=audio 9 RTP/AVP 0\r\na=mid:0\r\na=candidate:1 1 udp 1 192.0.2.1 5 typ host\r\n", fragment{candidates: []string{"1 1 udp 1 192.0.2.1 5 typ host"}}},
		"same credentials twice": {
			"m=audio 9 RTP/AVP 0\r\na=ice-ufrag:ysXw\r\na=ice-pwd:" + pwd + "\r\nm=video 9 RTP/AVP 0\r\na=ice-ufrag:ysXw\r\na=ice-pwd:" + pwd + "\r\n",
			fragment{ufrag: "ysXw", pwd: pwd},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseFragment(c.text)
			if err != nil || got.ufrag != c.want.ufrag || got.pwd != c.want.pwd || got.end != c.want.end || !slices.Equal(got.candidates, c.want.candidates) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	for name, c := range map[string]struct{ text, words string }{
		"nothing":            {"", "holds neither"},
		"no SDP":             {"{}", "line 1 of the fragment"},
		"two generations":    {"a=ice-ufrag:ysXw\r\na=ice-ufrag:other\r\n", "two different a=ice-ufrag"},
		"two passwords":      {"a=ice-pwd:a\r\na=ice-pwd:b\r\n", "two different a=ice-pwd"},
		"something else":     {"a=mid:0\r\n", "holds neither"},
		"ufrag of 3":         {"a=ice-ufrag:abc\r\na=ice-pwd:" + pwd + "\r\n", "a=ice-ufrag of the fragment has 3"},
		"blank in the ufrag": {"a=ice-ufrag:ab cd\r\na=ice-pwd:" + pwd + "\r\n", "without blanks"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseFragment(c.text)
			wantProblem(t, err, problem.InvalidArgument, c.words)
		})
	}
}

func FuzzSDPFrag(f *testing.F) {
	f.Add("a=ice-ufrag:ysXw\r\na=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\na=candidate:1 1 udp 1 192.0.2.1 5 typ host\r\na=end-of-candidates\r\n")
	f.Add("a=candidate:1 1 TCP 1 ::1 9 typ host tcptype active ufrag x\n")
	f.Add("m=\n")
	f.Fuzz(func(t *testing.T, text string) {
		frag, err := parseFragment(text)
		if err != nil {
			var p *problem.Error
			if !errors.As(err, &p) || p.Detail == "" {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		p := policy{}
		clean := cleanCandidates(frag.candidates, p, frag.ufrag, maxCandidates)
		if len(clean) > maxCandidates {
			t.Fatalf("%d candidates", len(clean))
		}
		var list []candidate
		for _, s := range clean {
			c, ok := parseCandidate(s)
			if !ok || !p.allows(c.addr) || c.String() != s {
				t.Fatalf("kept %q", s)
			}
			if _, err := ice.UnmarshalCandidate(s); err != nil {
				t.Fatalf("pion does not read %q: %v", s, err)
			}
			list = append(list, c)
		}
		if frag.pwd == "" {
			return
		}
		again, err := parseFragment(renderFragment("audio", "0", frag.ufrag, frag.pwd, list))
		if err != nil || again.ufrag != frag.ufrag || !slices.Equal(again.candidates, clean) || !again.end {
			t.Fatalf("rendered fragment reads as %+v, %v", again, err)
		}
	})
}

func TestG12AddressPolicy(t *testing.T) {
	const never, private, loopback, public = 0, 1, 2, 3
	for address, kind := range map[string]int{
		"203.0.113.9": public, "8.8.8.8": public, "2001:db8::1": public, "64:ff9b::808:808": public,
		"10.1.2.3": private, "172.16.0.1": private, "192.168.1.1": private, "100.64.0.1": private, "198.18.0.1": private,
		"fd12:3456::1": private, "::ffff:10.0.0.1": private, "64:ff9b::a00:1": private, "2002:a00:1::": private,
		"127.0.0.1": loopback, "127.8.8.8": loopback, "::1": loopback, "::ffff:127.0.0.1": loopback,
		"64:ff9b::7f00:1": loopback, "2002:7f00:1::1": loopback, "::127.0.0.1": loopback,
		"0.0.0.0": never, "::": never, "0.1.2.3": never, "255.255.255.255": never, "240.0.0.1": never,
		"224.0.0.1": never, "239.255.255.250": never, "ff02::1": never,
		"169.254.169.254": never, "169.254.1.1": never, "fe80::1": never, "::ffff:169.254.169.254": never,
		"64:ff9b::a9fe:a9fe": never, "2002:a9fe:a9fe::": never,
		"100.100.100.200": never, "168.63.129.16": never, "192.0.0.192": never, "fd00:ec2::254": never,
	} {
		a := netip.MustParseAddr(address)
		for _, p := range []policy{{}, {private: true}, {loopback: true}, {private: true, loopback: true}} {
			want := kind == public || kind == private && p.private || kind == loopback && p.loopback
			if p.allows(a) != want || p.allowsIP(a.AsSlice()) != want {
				t.Errorf("%s with %+v: allowed %v, want %v", address, p, !want, want)
			}
		}
	}
	if (policy{true, true}).allows(netip.MustParseAddr("fe80::1%eth0")) || (policy{true, true}).allows(netip.Addr{}) || (policy{true, true}).allowsIP(nil) {
		t.Error("an address with a zone, or none, is allowed")
	}
}

func TestRemoteCandidatesAreCleaned(t *testing.T) {
	p := policy{private: true}
	for in, want := range map[string]string{
		"candidate:1 1 UDP 2122 192.168.1.2 5000 TYP Host generation 0 ufrag abcd network-id 1": "1 1 udp 2122 192.168.1.2 5000 typ host",
		"1 1 udp 1 203.0.113.1 5000 typ srflx raddr 10.0.0.1 rport 9":                           "1 1 udp 1 203.0.113.1 5000 typ srflx",
		"1 1 udp 1 2001:db8::1 5000 typ host":                                                   "1 1 udp 1 2001:db8::1 5000 typ host",
		"1 1 tcp 1 203.0.113.1 9 typ host tcptype active":                                       "1 1 tcp 1 203.0.113.1 9 typ host tcptype active",
		"1 1 tcp 1 203.0.113.1 22 typ host tcptype passive":                                     "",
		"1 1 tcp 1 203.0.113.1 22 typ host":                                                     "",
		"1 2 udp 1 203.0.113.1 5000 typ host":                                                   "",
		"1 1 udp 1 203.0.113.1 0 typ host":                                                      "",
		"1 1 udp 1 203.0.113.1 70000 typ host":                                                  "",
		"1 1 udp 1 127.0.0.1 5000 typ host":                                                     "",
		"1 1 udp 1 169.254.169.254 80 typ host":                                                 "",
		"1 1 udp 1 e1b2.local 5000 typ host":                                                    "",
		"1 1 udp 1 example.org 5000 typ host":                                                   "",
		"1 1 udp 1 203.0.113.1 5000 typ host ufrag other":                                       "",
		"1 1 sctp 1 203.0.113.1 5000 typ host":                                                  "",
		"1 1 udp 1 203.0.113.1 5000 typ martian":                                                "",
		"1 1 udp -1 203.0.113.1 5000 typ host":                                                  "",
		"1 1 udp":                                                                               "",
		"":                                                                                      "",
	} {
		got := strings.Join(cleanCandidates([]string{in, in}, p, "abcd", maxCandidates), "|")
		if got != want {
			t.Errorf("%q gives %q, want %q", in, got, want)
		}
	}
}

func TestOwnCandidatesComeInTheOrderThatSimpleClientsNeed(t *testing.T) {
	gathered := []string{
		"1 1 tcp 9 192.168.1.2 4001 typ host tcptype passive",
		"2 1 udp 9 127.0.0.1 4000 typ host", "2 2 udp 9 127.0.0.1 4000 typ host",
		"3 1 udp 9 fd00::2 4000 typ host", "4 1 udp 9 192.168.1.2 4000 typ host", "5 1 udp 9 203.0.113.5 4000 typ host",
		"6 1 udp 9 2001:db8::5 4000 typ host",
	}
	order := func(public []string, keepPrivate bool) string {
		var s []string
		for _, c := range localCandidates(gathered, public, keepPrivate) {
			s = append(s, c.proto+" "+c.addr.String())
		}
		return strings.Join(s, ", ")
	}
	for _, c := range []struct {
		public      []string
		keepPrivate bool
		want        string
	}{
		{nil, true, "udp 203.0.113.5, udp 2001:db8::5, udp 192.168.1.2, udp fd00::2, udp 127.0.0.1, tcp 192.168.1.2"},
		{nil, false, "udp 203.0.113.5, udp 2001:db8::5, udp 192.168.1.2, udp fd00::2, udp 127.0.0.1, tcp 192.168.1.2"},
		{[]string{"198.51.100.7"}, true, "udp 198.51.100.7, udp 203.0.113.5, udp 2001:db8::5, udp 192.168.1.2, udp fd00::2, udp 127.0.0.1, tcp 198.51.100.7, tcp 192.168.1.2"},
		{[]string{"198.51.100.7"}, false, "udp 198.51.100.7, udp 203.0.113.5, udp 2001:db8::5, udp 127.0.0.1, tcp 198.51.100.7"},
		{[]string{"203.0.113.5", "203.0.113.5"}, false, "udp 203.0.113.5, udp 2001:db8::5, udp 127.0.0.1, tcp 203.0.113.5"},
	} {
		if got := order(c.public, c.keepPrivate); got != c.want {
			t.Errorf("%v %v:\n got %s\nwant %s", c.public, c.keepPrivate, got, c.want)
		}
	}
}
