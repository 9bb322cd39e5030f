package rtc

import (
	"slices"
	"strings"

	"github.com/pion/sdp/v3"
)

// The codecs taken, spelled as they go on the wire.
const (
	codecVP8  = "VP8"
	codecH264 = "H264"
	codecVP9  = "VP9"
	codecAV1  = "AV1"
	codecOpus = "opus"
	codecRTX  = "rtx"
)

// The formats taken of each kind of section; the first that is offered wins. Video goes by what decoding costs: CPU of a key frame and of any
// frame of a 720p camera at 2.5 Mbit/s, as multiples of VP8's any (2.3 ms): VP8 1.0 and 1.0, H264 2 to 3 and 1.0, VP9 2.1 and 1.15, AV1 2.3
// and 1.6.
var (
	videoCodecs = []codec{{codecVP8, "90000", anyForm}, {codecH264, "90000", h264Form}, {codecVP9, "90000", vp9Form}, {codecAV1, "90000", av1Form}}
	audioCodecs = []codec{{codecOpus, "48000", anyForm}}
)

// codec is one that is taken. rank says of a format's parameters whether it can be, and which is best: 0, then 1.
type codec struct {
	name, clock string
	rank        func(params map[string]string) (rank int, ok bool)
}

func anyForm(map[string]string) (int, bool) { return 0, true }

// h264Form takes constrained baseline, baseline, main and high (profile_idc 66, 77, 100: 4:2:0 with 8 bits) and packetization modes 1 and 0,
// in this order (RFC 6184 §8.1; without parameters it is baseline and mode 0).
func h264Form(params map[string]string) (int, bool) {
	profile, mode := params["profile-level-id"], params["packetization-mode"]
	if profile == "" {
		profile = "420010"
	}
	if len(profile) != 6 || strings.Trim(strings.ToLower(profile), "0123456789abcdef") != "" {
		return 0, false
	}
	switch strings.ToLower(profile[:2]) {
	case "42", "4d", "64":
	default:
		return 0, false
	}
	switch mode {
	case "1":
		return 0, true
	case "", "0":
		return 1, true
	}
	return 0, false
}

func vp9Form(params map[string]string) (int, bool) {
	id := params["profile-id"]
	return 0, id == "" || id == "0"
}

func av1Form(params map[string]string) (int, bool) {
	id := params["profile"]
	return 0, id == "" || id == "0"
}

// h264Registered is the one form of H264 that Pion is told of and given: it takes an offer only when profile and constraint bits are those
// registered, and there are many that a decoder takes. The answer has what was offered.
const h264Registered = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42e01f"

// spropParameterSets are the parameter sets of an H264 format's parameters (RFC 6184 §8.1); empty: there are none.
func spropParameterSets(fmtp string) string {
	for _, param := range strings.Split(fmtp, ";") {
		if k, v, _ := strings.Cut(strings.TrimSpace(param), "="); strings.EqualFold(k, "sprop-parameter-sets") {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// format is one payload type of a section.
type format struct {
	name, clock, apt string
	fmtp             string
	params           map[string]string // of fmtp; keys in lower case
}

// formatsOf reads rtpmap and fmtp of a section by payload type.
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
			f.fmtp, f.params = strings.TrimSpace(rest), make(map[string]string)
			for _, param := range strings.Split(rest, ";") {
				k, v, _ := strings.Cut(strings.TrimSpace(param), "=")
				f.params[strings.ToLower(k)] = strings.TrimSpace(v)
			}
			f.apt = f.params["apt"]
		default:
			continue
		}
		formats[pt] = f
	}
	return formats
}

// choice is the format taken of a section.
type choice struct {
	name, pt string
	fmtp     string // as offered
}

// choose picks the best format of a section; offered says what there was, for a section that has none.
func choose(m *sdp.MediaDescription, formats map[string]format, taken []codec) (c choice, offered string, found bool) {
	for _, t := range taken {
		best := -1
		for _, pt := range m.MediaName.Formats {
			f := formats[pt]
			if !strings.EqualFold(f.name, t.name) || f.clock != t.clock || !validPT(pt) {
				continue
			}
			if rank, ok := t.rank(f.params); ok && (best < 0 || rank < best) {
				best, c = rank, choice{t.name, pt, f.fmtp}
			}
		}
		if best >= 0 {
			return c, "", true
		}
	}
	var names []string
	for _, pt := range m.MediaName.Formats {
		if f := formats[pt]; f.name != "" && !strings.EqualFold(f.name, codecRTX) && len(names) < 10 {
			if n := plainName(f.name); n != "" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	if len(names) == 0 {
		return c, "nothing known", false
	}
	return c, strings.Join(names, ", "), false
}

// reduceCodecs strips a section down to the best format and the retransmission format that belongs to it, spelled canonically, so that
// no answer can name a format whose partner is absent. It says what was taken, or else what was offered.
func reduceCodecs(m *sdp.MediaDescription, taken []codec) (c choice, offered string, found bool) {
	formats := formatsOf(m)
	c, offered, found = choose(m, formats, taken)
	if !found {
		return c, offered, false
	}
	keep := map[string]string{c.pt: c.name} // payload type → canonical name
	for _, pt := range m.MediaName.Formats {
		if f := formats[pt]; strings.EqualFold(f.name, codecRTX) && f.apt == c.pt && validPT(pt) && keep[pt] == "" {
			keep[pt] = codecRTX
		}
	}
	m.MediaName.Formats = slices.DeleteFunc(slices.Clone(m.MediaName.Formats), func(pt string) bool { return keep[pt] == "" })
	m.Attributes = slices.DeleteFunc(m.Attributes, func(a sdp.Attribute) bool {
		if a.Key != "rtpmap" && a.Key != "fmtp" && a.Key != "rtcp-fb" {
			return false
		}
		pt, _, _ := strings.Cut(strings.TrimSpace(a.Value), " ")
		return keep[pt] == "" && !(pt == "*" && a.Key == "rtcp-fb") || c.name == codecH264 && pt == c.pt && a.Key == "fmtp"
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
	if c.name == codecH264 {
		m.Attributes = append(m.Attributes, sdp.NewAttribute("fmtp", c.pt+" "+h264Registered))
	}
	return c, "", true
}

// echoFormat gives an answer's section the parameters of H264 as they were offered.
func echoFormat(m *sdp.MediaDescription, c choice) {
	if c.name != codecH264 {
		return
	}
	at := slices.IndexFunc(m.Attributes, func(a sdp.Attribute) bool { return a.Key == "fmtp" && strings.HasPrefix(a.Value, c.pt+" ") })
	switch {
	case at < 0:
	case c.fmtp == "":
		m.Attributes = slices.Delete(m.Attributes, at, at+1)
	default:
		m.Attributes[at].Value = c.pt + " " + c.fmtp
	}
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

// takes says whether the section's sender offered to take a feedback message (RFC 4585 §4.2).
func takes(m *sdp.MediaDescription, feedback ...string) bool {
	for _, a := range m.Attributes {
		if a.Key != "rtcp-fb" {
			continue
		}
		if _, said, _ := strings.Cut(a.Value, " "); slices.EqualFunc(strings.Fields(said), feedback, strings.EqualFold) {
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
