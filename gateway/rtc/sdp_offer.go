package rtc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pion/sdp/v3"

	"sightline/gateway/problem"
)

// The names that sources have on every wire.
const (
	sourceCamera      = "camera"
	sourceScreen      = "screen"
	sourceMicrophone  = "microphone"
	sourceScreenAudio = "screen_audio"
)

// section is one m-line of an offer, in its order.
type section struct {
	media, mid, source string
	protos, formats    []string
	live               bool // Pion is given it; the others are answered with port 0
	sends              bool // the offerer sends media in it
	hears              bool // the offerer takes media in it
	pli                bool // the offerer negotiated nack pli
	remb               bool // the offerer negotiated goog-remb
	layers             bool // of simulcast
	codec              choice
}

// offerPlan is a normalised offer: what Pion is given, and what is needed to put Pion's answer right.
type offerPlan struct {
	desc       *sdp.SessionDescription // for Pion: live sections only, one transport at session level
	sections   []section
	bundled    bool   // the offer had a BUNDLE group, so the answer may
	listener   string // mid of the audio section in which the offerer hears us; empty: in none
	ufrag, pwd string
}

// normaliseOffer bounds an offer and turns it into what Pion answers rightly; pure. Errors are *problem.Error:
// too_large, invalid_argument, not_negotiable.
func normaliseOffer(offer string, p policy) (*offerPlan, error) {
	lines, err := sdpLines("offer", offer, maxOfferBytes)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "v=0") {
		return nil, problem.New(problem.InvalidArgument, "the offer is not SDP: its first line must be \"v=0\" (RFC 8866)")
	}
	desc := &sdp.SessionDescription{}
	if err := desc.UnmarshalString(strings.Join(lines, "\r\n") + "\r\n"); err != nil {
		return nil, problem.New(problem.InvalidArgument, "the offer cannot be parsed as SDP: %v", err)
	}
	if len(desc.MediaDescriptions) == 0 {
		return nil, problem.New(problem.InvalidArgument, "the offer has no m-line; it needs at least one audio or video section")
	}
	plan := &offerPlan{desc: desc, sections: make([]section, len(desc.MediaDescriptions))}
	if err := plan.readSections(); err != nil {
		return nil, err
	}
	group, err := plan.bundle()
	if err != nil {
		return nil, err
	}
	if err := plan.checkMedia(); err != nil {
		return nil, err
	}
	if err := plan.transport(group[0], p); err != nil {
		return nil, err
	}
	plan.reduce(group)
	return plan, nil
}

// sdp is what Pion is given.
func (pl *offerPlan) sdp() (string, error) {
	b, err := pl.desc.Marshal()
	if err != nil {
		return "", problem.New(problem.InvalidArgument, "the offer cannot be read").WithCause(err)
	}
	return string(b), nil
}

// readSections looks at each m-line alone: its mid, whether it takes part, its direction.
func (pl *offerPlan) readSections() error {
	mids := make(map[string]bool)
	data := false
	ssrcs := make(map[string]bool)
	for i, m := range pl.desc.MediaDescriptions {
		mid, _ := m.Attribute(sdp.AttrKeyMID)
		mid = strings.TrimSpace(mid)
		if mid == "" || len(mid) > 64 || strings.ContainsAny(mid, " \t") || mids[mid] {
			return problem.New(problem.InvalidArgument, "section %d (%s) needs an a=mid of its own, 1 to 64 characters without blanks; it has %q", i, m.MediaName.Media, clip(mid)).WithField("mid")
		}
		mids[mid] = true
		s := &pl.sections[i]
		*s = section{media: m.MediaName.Media, mid: mid, protos: m.MediaName.Protos, formats: m.MediaName.Formats}
		_, bundleOnly := m.Attribute("bundle-only")
		s.live = m.MediaName.Port.Value != 0 || bundleOnly // RFC 9143: port 0 without bundle-only is a refused section
		switch s.media {
		case "audio", "video":
		case "application":
			s.live = s.live && !data && slices.Contains(m.MediaName.Protos, "SCTP") // aiortc's old "DTLS/SCTP 5000" too
			data = data || s.live
		default:
			s.live = false
		}
		if s.live && s.media != "application" {
			s.sends, s.hears = pl.settleDirection(m)
		}
		rids := 0
		for _, a := range m.Attributes {
			switch a.Key {
			case sdp.AttrKeySSRC:
				id, _, _ := strings.Cut(a.Value, " ")
				ssrcs[id] = true
			case "rid":
				rids++
			}
		}
		s.layers = rids > 1
		if rids > maxRIDs {
			return problem.New(problem.TooLarge, "section %d (%s) has %d simulcast layers; at most %d are allowed", i, s.media, rids, maxRIDs)
		}
	}
	if len(ssrcs) > maxOfferSSRCs {
		return problem.New(problem.TooLarge, "the offer declares %d SSRCs; at most %d are allowed", len(ssrcs), maxOfferSSRCs)
	}
	return nil
}

// bundle gives the mids that share the one transport, the first of them carrying it. Tags without a section (FFmpeg
// always prints "BUNDLE 0 1") and tags of refused sections are dropped; sections outside the group are refused.
func (pl *offerPlan) bundle() ([]string, error) {
	live := make(map[string]bool)
	for _, s := range pl.sections {
		if s.live {
			live[s.mid] = true
		}
	}
	if len(live) == 0 {
		return nil, problem.New(problem.NotNegotiable, "the offer has no section in use; it needs a video or audio section with a port other than 0")
	}
	var group []string
	for _, a := range pl.desc.Attributes {
		if f := strings.Fields(a.Value); a.Key == sdp.AttrKeyGroup && len(f) > 0 && strings.EqualFold(f[0], "BUNDLE") && !pl.bundled {
			pl.bundled = true
			for _, mid := range f[1:] {
				if live[mid] && !slices.Contains(group, mid) {
					group = append(group, mid)
				}
			}
		}
	}
	switch {
	case !pl.bundled && len(live) == 1:
		for mid := range live {
			group = []string{mid}
		}
	case !pl.bundled:
		return nil, problem.New(problem.NotNegotiable, "the offer has %d sections but no a=group:BUNDLE; all media must share one transport (RFC 9725 §4.4)", len(live))
	case len(group) == 0:
		return nil, problem.New(problem.NotNegotiable, "a=group:BUNDLE names no section in use; all media must share one transport (RFC 9725 §4.4)")
	}
	for i := range pl.sections {
		s := &pl.sections[i]
		s.live = s.live && slices.Contains(group, s.mid)
		s.sends = s.sends && s.live
	}
	return group, nil
}

// checkMedia wants something to be published, in codecs we take, and names the sources.
func (pl *offerPlan) checkMedia() error {
	counts := make(map[string]int)
	sending := 0
	for i, m := range pl.desc.MediaDescriptions {
		s := &pl.sections[i]
		if !s.live || s.media == "application" {
			continue
		}
		counts[s.media]++
		if s.sends {
			sending++
		}
		taken, needed := videoCodecs, "VP8, H264 (4:2:0 with 8 bits), VP9 (profile 0) or AV1 (profile 0), one of which"
		if s.media == "audio" {
			taken, needed = audioCodecs, "opus, which"
		}
		c, offered, found := reduceCodecs(m, taken)
		if !found {
			return problem.New(problem.NotNegotiable, "section %d (%s) does not offer %s is needed; it offers %s", i, s.media, needed, offered)
		}
		s.codec = c
		s.pli = takes(m, "nack", "pli")
		s.remb = takes(m, "goog-remb")
	}
	if sending == 0 {
		return problem.New(problem.NotNegotiable, "the offer publishes nothing: it needs an audio or video section that is sendonly or sendrecv")
	}
	for _, media := range []string{"video", "audio"} {
		if n := counts[media]; n > 2 {
			return problem.New(problem.NotNegotiable, "the offer has %d %s sections; at most 2 (one of the person, one of the screen) are allowed", n, media)
		}
	}
	pl.nameSources()
	pl.chooseListener()
	return nil
}

// isScreen: a section says so by a=content:slides (RFC 4796), or by the names of its stream and track, as some clients choose them.
func isScreen(m *sdp.MediaDescription) bool {
	content, _ := m.Attribute("content")
	msid, _ := m.Attribute("msid")
	return strings.Contains(strings.ToLower(content), "slides") || strings.Contains(strings.ToLower(msid), "screen")
}

// nameSources: of two sections of a kind the first is the person's, unless one says that it is a screen.
func (pl *offerPlan) nameSources() {
	for media, names := range map[string][2]string{"video": {sourceCamera, sourceScreen}, "audio": {sourceMicrophone, sourceScreenAudio}} {
		var of []*section
		var slides []bool
		for i, m := range pl.desc.MediaDescriptions {
			if s := &pl.sections[i]; s.live && s.media == media {
				of, slides = append(of, s), append(slides, isScreen(m))
			}
		}
		if len(of) == 2 && slides[0] && !slides[1] || len(of) == 1 && slides[0] {
			names[0], names[1] = names[1], names[0]
		}
		for i, s := range of {
			s.source = names[i]
		}
	}
}

// transport moves ICE credentials and fingerprint of the section that carries the transport to session level, where
// Pion finds them whatever the group's order, and cleans its candidates.
func (pl *offerPlan) transport(tag string, p policy) error {
	m := pl.media(tag)
	value := func(key string) string {
		for _, attrs := range [][]sdp.Attribute{m.Attributes, pl.desc.Attributes} {
			for _, a := range attrs {
				if a.Key == key {
					return strings.TrimSpace(a.Value)
				}
			}
		}
		return ""
	}
	pl.ufrag, pl.pwd = value("ice-ufrag"), value("ice-pwd")
	if err := validICE("offer", pl.ufrag, pl.pwd); err != nil {
		return err
	}
	fingerprint := pickFingerprint(m, pl.desc)
	if fingerprint == "" {
		return problem.New(problem.InvalidArgument, "section %q has no usable a=fingerprint; sha-256, sha-384 or sha-512 is needed (RFC 8122)", clip(tag)).WithField("fingerprint")
	}
	setup := value(sdp.AttrKeyConnectionSetup)

	drop := func(attrs []sdp.Attribute) []sdp.Attribute {
		return slices.DeleteFunc(attrs, func(a sdp.Attribute) bool {
			switch a.Key {
			case "ice-ufrag", "ice-pwd", "fingerprint", "candidate", "end-of-candidates", sdp.AttrKeyConnectionSetup:
				return true
			}
			return false
		})
	}
	var offered []string
	for _, a := range m.Attributes {
		if a.Key == "candidate" {
			offered = append(offered, a.Value)
		}
	}
	pl.desc.Attributes = append(drop(pl.desc.Attributes),
		sdp.NewAttribute("ice-ufrag", pl.ufrag), sdp.NewAttribute("ice-pwd", pl.pwd), sdp.NewAttribute("fingerprint", fingerprint))
	for _, other := range pl.desc.MediaDescriptions {
		other.Attributes = drop(other.Attributes)
		if setup != "" {
			other.Attributes = append(other.Attributes, sdp.NewAttribute(sdp.AttrKeyConnectionSetup, strings.ToLower(setup)))
		}
	}
	pl.setCandidates(m, cleanCandidates(offered, p, pl.ufrag, maxCandidates))
	return nil
}

func (pl *offerPlan) setCandidates(m *sdp.MediaDescription, values []string) {
	m.Attributes = slices.DeleteFunc(m.Attributes, func(a sdp.Attribute) bool { return a.Key == "candidate" })
	for _, v := range values {
		m.Attributes = append(m.Attributes, sdp.NewAttribute("candidate", v))
	}
}

// reduce leaves in desc only the sections in use and one BUNDLE group of them.
func (pl *offerPlan) reduce(group []string) {
	var kept []*sdp.MediaDescription
	for i, m := range pl.desc.MediaDescriptions {
		if s := pl.sections[i]; s.live {
			// The port of a section in use has no meaning under ICE, but Pion must not take bundle-only's 0 for a refusal.
			m.MediaName.Port = sdp.RangedPort{Value: 9}
			m.Attributes = slices.DeleteFunc(m.Attributes, func(a sdp.Attribute) bool { return a.Key == sdp.AttrKeyMID })
			m.Attributes = append(m.Attributes, sdp.NewAttribute(sdp.AttrKeyMID, s.mid))
			kept = append(kept, m)
		}
	}
	pl.desc.MediaDescriptions = kept
	pl.desc.Attributes = slices.DeleteFunc(pl.desc.Attributes, func(a sdp.Attribute) bool { return a.Key == sdp.AttrKeyGroup || isDirection(a.Key) })
	pl.desc.Attributes = append(pl.desc.Attributes, sdp.NewAttribute(sdp.AttrKeyGroup, "BUNDLE "+strings.Join(group, " ")))
}

// restarted is the offer of the next ICE generation: other credentials, the fragment's candidates and no others.
func (pl *offerPlan) restarted(f fragment, p policy) (*offerPlan, error) {
	text, err := pl.sdp()
	if err != nil {
		return nil, err
	}
	next := *pl
	next.desc, next.ufrag, next.pwd = &sdp.SessionDescription{}, f.ufrag, f.pwd
	if err := next.desc.UnmarshalString(text); err != nil {
		return nil, fmt.Errorf("re-read the stored offer: %w", err)
	}
	for i, a := range next.desc.Attributes {
		switch a.Key {
		case "ice-ufrag":
			next.desc.Attributes[i].Value = f.ufrag
		case "ice-pwd":
			next.desc.Attributes[i].Value = f.pwd
		}
	}
	next.setCandidates(next.media(next.tag()), cleanCandidates(f.candidates, p, f.ufrag, maxCandidates))
	return &next, nil
}

// tag is the mid of the section that carries the transport; only after reduce.
func (pl *offerPlan) tag() string {
	group, _ := pl.desc.Attribute(sdp.AttrKeyGroup)
	return strings.Fields(group)[1]
}

func (pl *offerPlan) media(mid string) *sdp.MediaDescription {
	for _, m := range pl.desc.MediaDescriptions {
		if v, _ := m.Attribute(sdp.AttrKeyMID); strings.TrimSpace(v) == mid {
			return m
		}
	}
	return nil
}

// section finds a live section by mid.
func (pl *offerPlan) section(mid string) (section, bool) {
	for _, s := range pl.sections {
		if s.live && s.mid == mid {
			return s, true
		}
	}
	return section{}, false
}

// clip makes a piece of the caller's input short enough to quote.
func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}
