package faultnet

import (
	"net/netip"
	"strings"
	"testing"
)

const answerSDP = "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=candidate:1 1 tcp 99 127.0.0.1 7 typ host tcptype passive\r\n" +
	"a=candidate:2 1 UDP 9 10.0.0.5 4000 typ host\r\na=candidate:3 1 udp 9 127.0.0.1 4001 typ host\r\na=candidate:3 2 udp 9 127.0.0.1 4002 typ host\r\n" +
	"a=end-of-candidates\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\na=candidate:2 1 udp 9 10.0.0.5 4000 typ host\r\na=sendonly\r\n"

func TestFirstUDP(t *testing.T) {
	for loopback, want := range map[bool]string{true: "127.0.0.1:4001", false: "10.0.0.5:4000"} {
		if got, err := firstUDP(answerSDP, loopback); err != nil || got.String() != want {
			t.Errorf("loopback %v: %v, %v", loopback, got, err)
		}
	}
	if got, err := firstUDP("a=candidate:1 1 udp 9 fd00::1 4000 typ host\r\n", false); err != nil || got.String() != "[fd00::1]:4000" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := firstUDP(Offer(answerSDP), false); err == nil {
		t.Error("an address where there is none")
	}
}

func TestOnlyCandidate(t *testing.T) {
	got := onlyCandidate(answerSDP, netip.MustParseAddrPort("127.0.0.1:5000"))
	if strings.Count(got, "a=candidate:") != 2 || strings.Count(got, " 127.0.0.1 5000 typ host\r\n") != 2 || strings.Contains(got, "4000") {
		t.Errorf("%s", got)
	}
	if Offer(got) != Offer(answerSDP) || strings.Contains(Offer(got), "candidate") {
		t.Error("more than the candidates has changed")
	}
}
