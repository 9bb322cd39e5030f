package rtc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pion/sdp/v3"

	"sightline/gateway/problem"
)

// maxAnswerBytes: FFmpeg's WHIP muxer reads no more.
const maxAnswerBytes = 8 << 10

// answerPlan is a finished answer with what a later fragment needs.
type answerPlan struct {
	text       string
	ufrag, pwd string // ours
	media, mid string // of the section that carries the transport
	candidates []candidate
}

// finishAnswer puts Pion's answer right; pure. Every m-line of the offer is answered in its place (refused ones with
// port 0), RTCP is multiplexed only, candidates stand once and in the order that helps the simplest clients, and
// nothing names a format that is not there.
func finishAnswer(pionAnswer string, pl *offerPlan, publicIPs []string, keepPrivate bool, videoBPS int) (*answerPlan, error) {
	d := &sdp.SessionDescription{}
	if err := d.UnmarshalString(pionAnswer); err != nil {
		return nil, fmt.Errorf("read pion's answer: %w", err)
	}
	byMID := make(map[string]*sdp.MediaDescription)
	var offered []string
	out := &answerPlan{mid: pl.tag()}
	for _, m := range d.MediaDescriptions {
		mid, _ := m.Attribute(sdp.AttrKeyMID)
		byMID[mid] = m
		for _, a := range m.Attributes {
			if a.Key == "candidate" {
				offered = append(offered, a.Value)
			}
		}
		m.Attributes = slices.DeleteFunc(m.Attributes, func(a sdp.Attribute) bool {
			return a.Key == "candidate" || a.Key == "end-of-candidates"
		})
		closeFormats(m)
	}
	d.MediaDescriptions = d.MediaDescriptions[:0]
	for _, s := range pl.sections {
		if !s.live {
			d.MediaDescriptions = append(d.MediaDescriptions, refused(s))
			continue
		}
		m := byMID[s.mid]
		if m == nil || m.MediaName.Port.Value == 0 {
			return nil, problem.New(problem.NotNegotiable, "section %q (%s) cannot be taken as it is offered", clip(s.mid), s.media)
		}
		if s.media != "application" {
			echoFormat(m, s.codec)
			insertAfter(m, sdp.AttrKeyRTCPMux, sdp.NewPropertyAttribute("rtcp-mux-only")) // RFC 8858
			capBandwidth(m, videoBPS, s.layers)
		}
		d.MediaDescriptions = append(d.MediaDescriptions, m)
	}
	if !pl.bundled {
		d.Attributes = slices.DeleteFunc(d.Attributes, func(a sdp.Attribute) bool { return a.Key == sdp.AttrKeyGroup })
	}
	tag := byMID[out.mid]
	out.media = tag.MediaName.Media
	out.ufrag, _ = tag.Attribute("ice-ufrag")
	out.pwd, _ = tag.Attribute("ice-pwd")
	out.candidates = localCandidates(offered, publicIPs, keepPrivate)
	if len(out.candidates) == 0 {
		return nil, fmt.Errorf("no local candidate was gathered")
	}
	return out, out.render(d, tag)
}

// render writes the candidates into tag, as many as fit, and the whole into text.
func (a *answerPlan) render(d *sdp.SessionDescription, tag *sdp.MediaDescription) error {
	bare := tag.Attributes
	for n := len(a.candidates); ; n-- {
		tag.Attributes = slices.Clone(bare)
		for _, c := range a.candidates[:n] {
			tag.Attributes = append(tag.Attributes, sdp.NewAttribute("candidate", c.String()))
		}
		tag.Attributes = append(tag.Attributes, sdp.NewPropertyAttribute("end-of-candidates"))
		text, err := d.Marshal()
		if err != nil {
			return fmt.Errorf("write the answer: %w", err)
		}
		if len(text) < maxAnswerBytes || n == 1 {
			a.text, a.candidates = string(text), a.candidates[:n]
			return nil
		}
	}
}

// refused answers a section that takes no part (RFC 8829 §5.3.1). The c= line is for Firefox, whose parser wants one.
func refused(s section) *sdp.MediaDescription {
	return &sdp.MediaDescription{
		MediaName: sdp.MediaName{Media: s.media, Port: sdp.RangedPort{Value: 0}, Protos: s.protos, Formats: s.formats[:min(1, len(s.formats))]},
		ConnectionInformation: &sdp.ConnectionInformation{
			NetworkType: "IN", AddressType: "IP4", Address: &sdp.Address{Address: "0.0.0.0"},
		},
		Attributes: []sdp.Attribute{sdp.NewAttribute(sdp.AttrKeyMID, s.mid), sdp.NewPropertyAttribute(sdp.AttrKeyInactive)},
	}
}

// closeFormats removes retransmission formats whose partner is not listed (Chromium refuses such an answer).
func closeFormats(m *sdp.MediaDescription) {
	formats := formatsOf(m)
	orphan := func(pt string) bool {
		f := formats[pt]
		return strings.EqualFold(f.name, codecRTX) && !slices.Contains(m.MediaName.Formats, f.apt)
	}
	gone := make(map[string]bool)
	for _, pt := range m.MediaName.Formats {
		gone[pt] = orphan(pt)
	}
	m.MediaName.Formats = slices.DeleteFunc(m.MediaName.Formats, func(pt string) bool { return gone[pt] })
	m.Attributes = slices.DeleteFunc(m.Attributes, func(a sdp.Attribute) bool {
		pt, _, _ := strings.Cut(a.Value, " ")
		return (a.Key == "rtpmap" || a.Key == "fmtp" || a.Key == "rtcp-fb") && gone[pt]
	})
}

func insertAfter(m *sdp.MediaDescription, key string, a sdp.Attribute) {
	if slices.ContainsFunc(m.Attributes, func(b sdp.Attribute) bool { return b.Key == a.Key }) {
		return
	}
	at := slices.IndexFunc(m.Attributes, func(b sdp.Attribute) bool { return b.Key == key })
	m.Attributes = slices.Insert(m.Attributes, at+1, a)
}
