package rtc

import (
	"fmt"
	"strings"

	"sightline/gateway/problem"
)

// fragment is a parsed application/trickle-ice-sdpfrag body (RFC 8840 §9). With BUNDLE there is one transport, so
// its sections are one.
type fragment struct {
	ufrag, pwd string // empty: not said
	candidates []string
	end        bool // a=end-of-candidates
}

// parseFragment reads a body; pure. Credentials may stand before the first m-line or in a section: the first ones
// count, and other ones in a later section are an error.
func parseFragment(text string) (fragment, error) {
	lines, err := sdpLines("fragment", text, maxFragBytes)
	if err != nil {
		return fragment{}, err
	}
	var f fragment
	known := false
	for _, line := range lines {
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "a="), ":")
		if line[0] != 'a' {
			known = known || line[0] == 'm'
			continue
		}
		switch strings.ToLower(key) {
		case "ice-ufrag":
			known = true
			if f.ufrag != "" && f.ufrag != value {
				return fragment{}, problem.New(problem.InvalidArgument, "the fragment names two different a=ice-ufrag; all sections share one transport").WithField("ice-ufrag")
			}
			f.ufrag = value
		case "ice-pwd":
			if f.pwd != "" && f.pwd != value {
				return fragment{}, problem.New(problem.InvalidArgument, "the fragment names two different a=ice-pwd; all sections share one transport").WithField("ice-pwd")
			}
			f.pwd = value
		case "candidate":
			known = true
			f.candidates = append(f.candidates, value)
		case "end-of-candidates":
			known, f.end = true, true
		}
	}
	if !known {
		return fragment{}, problem.New(problem.InvalidArgument, "the fragment holds neither a=candidate, a=end-of-candidates nor a=ice-ufrag (RFC 8840)")
	}
	if f.ufrag != "" && f.pwd != "" {
		if err := validICE("fragment", f.ufrag, f.pwd); err != nil {
			return fragment{}, err
		}
	}
	return f, nil
}

// renderFragment writes our side of an ICE restart in the shape of RFC 9725 §4.3.3.
func renderFragment(media, mid, ufrag, pwd string, candidates []candidate) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a=ice-options:trickle\r\na=ice-ufrag:%s\r\na=ice-pwd:%s\r\nm=%s 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:%s\r\n", ufrag, pwd, media, mid)
	for _, c := range candidates {
		fmt.Fprintf(&b, "a=candidate:%s\r\n", c)
	}
	b.WriteString("a=end-of-candidates\r\n")
	return b.String()
}
