package rtc

import (
	"slices"
	"strings"

	"github.com/pion/sdp/v3"
)

// The codecs taken, spelled as they go on the wire.
const (
	codecVP8  = "VP8"
	codecOpus = "opus"
	codecRTX  = "rtx"
)

// format is one payload type of a section.
type format struct {
	name, clock, apt string
}

// formatsOf reads rtpmap and apt of a section by payload type.
func formatsOf(m *sdp.MediaDescription) map[string]format {
	formats := make(map[string]format)
	for _, a := range m.Attributes {
		pt, rest, ok := strings.Cut(strings.TrimSpace(a.Value), " ")
		if !ok {
			continue
		}
		f := formats[pt]
		switch a.Key {
		case "rtpmap":
			parts := strings.SplitN(strings.TrimSpace(rest), "/", 3)
			f.name = parts[0]
			if len(parts) > 1 {
				f.clock = parts[1]
			}
		case "fmtp":
			for _, param := range strings.Split(rest, ";") {
				if k, v, _ := strings.Cut(strings.TrimSpace(param), "="); strings.EqualFold(k, "apt") {
					f.apt = strings.TrimSpace(v)
				}
			}
		default:
			continue
		}
		formats[pt] = f
	}
	return formats
}

// reduceCodecs strips a section down to the wanted codec and the retransmission formats that belong to it, spelled
// canonically, so that no answer can name a format whose partner is absent. It says what was offered.
func reduceCodecs(m *sdp.MediaDescription, wanted string) (offered string, found bool) {
	formats := formatsOf(m)
	clock := "90000"
	if wanted == codecOpus {
		clock = "48000"
	}
	names := make([]string, 0, 8)
	keep := make(map[string]string) // payload type → canonical name
	for _, pt := range m.MediaName.Formats {
		f := formats[pt]
		switch {
		case strings.EqualFold(f.name, wanted) && f.clock == clock && validPT(pt):
			keep[pt] = wanted
		case f.name != "" && !strings.EqualFold(f.name, codecRTX) && len(names) < 10:
			if n := plainName(f.name); n != "" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	if len(keep) == 0 {
		if len(names) == 0 {
			return "nothing known", false
		}
		return strings.Join(names, ", "), false
	}
	for _, pt := range m.MediaName.Formats {
		if f := formats[pt]; strings.EqualFold(f.name, codecRTX) && keep[f.apt] == wanted && validPT(pt) && keep[pt] == "" {
			keep[pt] = codecRTX
		}
	}
	m.MediaName.Formats = slices.DeleteFunc(slices.Clone(m.MediaName.Formats), func(pt string) bool { return keep[pt] == "" })
	m.Attributes = slices.DeleteFunc(m.Attributes, func(a sdp.Attribute) bool {
		if a.Key != "rtpmap" && a.Key != "fmtp" && a.Key != "rtcp-fb" {
			return false
		}
		pt, _, _ := strings.Cut(strings.TrimSpace(a.Value), " ")
		return keep[pt] == "" && !(pt == "*" && a.Key == "rtcp-fb")
	})
	for i, a := range m.Attributes {
		if a.Key != "rtpmap" {
			continue
		}
		pt, rest, _ := strings.Cut(strings.TrimSpace(a.Value), " ")
		if _, params, ok := strings.Cut(rest, "/"); ok {
			m.Attributes[i].Value = pt + " " + keep[pt] + "/" + params
		}
	}
	return "", true
}

// validPT: 0–127 in decimal.
func validPT(pt string) bool {
	if len(pt) == 0 || len(pt) > 3 {
		return false
	}
	n := 0
	for _, r := range pt {
		if r < '0' || r > '9' {
			return false
		}
		n = n*10 + int(r-'0')
	}
	return n <= 127
}

// plainName keeps of a codec's name what can be quoted to anybody.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, s[:min(len(s), 20)])
}

// wantsPLI says whether the section's sender agreed to answer PLI (RFC 4585).
func wantsPLI(m *sdp.MediaDescription) bool {
	for _, a := range m.Attributes {
		if f := strings.Fields(a.Value); a.Key == "rtcp-fb" && len(f) >= 3 && strings.EqualFold(f[1], "nack") && strings.EqualFold(f[2], "pli") {
			return true
		}
	}
	return false
}

// pickFingerprint prefers the section's over the session's and leaves out hashes nobody should trust.
func pickFingerprint(m *sdp.MediaDescription, d *sdp.SessionDescription) string {
	for _, attrs := range [][]sdp.Attribute{m.Attributes, d.Attributes} {
		for _, a := range attrs {
			f := strings.Fields(a.Value)
			if a.Key != "fingerprint" || len(f) != 2 {
				continue
			}
			switch strings.ToLower(f[0]) {
			case "sha-256", "sha-384", "sha-512":
				return strings.ToLower(f[0]) + " " + f[1]
			}
		}
	}
	return ""
}
