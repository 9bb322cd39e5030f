package rtc

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/pion/sdp/v3"
)

func TestEngineRefusesImpossibleConfigs(t *testing.T) {
	taken, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busy := taken.LocalAddr().(*net.UDPAddr).Port
	for name, c := range map[string]struct {
		cfg   Config
		words string
	}{
		"public name":    {Config{PublicIPs: []string{"example.org"}}, `"example.org" is not an IP address`},
		"port":           {Config{UDPPort: 70000}, "0 to 65535"},
		"nowhere":        {Config{AllowLoopback: false, KeepAddress: onlyLoopback}, "no network address"},
		"UDP port taken": {Config{AllowLoopback: true, KeepAddress: onlyLoopback, UDPPort: busy, TCPPort: -1}, fmt.Sprintf("open UDP port %d", busy)},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := New(c.cfg)
			if err == nil {
				_ = e.Close()
				t.Fatal("taken")
			}
			if !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v, want %q", err, c.words)
			}
		})
	}
}

func TestOnePortOnAllAddresses(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.KeepAddress = nil; c.TCPPort = 0; c.PublicIPs = []string{"198.51.100.7"} })
	udp, tcp := e.Ports()
	p, answer, err := e.Accept(t.Context(), minimal, Handlers{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	n := 0
	for line := range strings.Lines(answer) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "a=candidate:")
		if !ok {
			continue
		}
		c, ok := parseCandidate(value)
		want := udp
		if c.proto == "tcp" {
			want = tcp
		}
		if !ok || int(c.port) != want || n == 0 && c.addr.String() != "198.51.100.7" {
			t.Errorf("candidate %d: %s, ports %d and %d", n, value, udp, tcp)
		}
		n++
	}
	if n < 4 {
		t.Errorf("%d candidates:\n%s", n, answer)
	}
}

func TestAnswerIsCutToWhatFFmpegReads(t *testing.T) {
	plan, err := normaliseOffer(minimal, policy{})
	if err != nil {
		t.Fatal(err)
	}
	raw := minimal
	for i := range 250 {
		raw += fmt.Sprintf("a=candidate:%d 1 udp 2130706431 203.0.113.%d 50000 typ host\r\n", i, i+1)
	}
	answer, err := finishAnswer(raw, plan, nil, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(answer.text); n >= maxAnswerBytes || n < maxAnswerBytes-100 {
		t.Errorf("%d bytes", n)
	}
	if !strings.Contains(answer.text, "203.0.113.1 ") {
		t.Error("the best candidate was cut")
	}
	var d sdp.SessionDescription
	if err := d.UnmarshalString(answer.text); err != nil {
		t.Error(err)
	}
}

func TestAnswerNamesNoFormatWithoutItsPartner(t *testing.T) {
	plan, err := normaliseOffer(minimal, policy{})
	if err != nil {
		t.Fatal(err)
	}
	raw := strings.Replace(minimal, "SAVPF 96\r\n", "SAVPF 96 97 98\r\n", 1) +
		"a=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\na=rtpmap:98 rtx/90000\r\na=fmtp:98 apt=99\r\na=candidate:1 1 udp 1 203.0.113.1 5 typ host\r\n"
	answer, err := finishAnswer(raw, plan, nil, true, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(answer.text, "SAVPF 96 97\r\n") || strings.Contains(answer.text, "98") {
		t.Errorf("answer:\n%s", answer.text)
	}
}
