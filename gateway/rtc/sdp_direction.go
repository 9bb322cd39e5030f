package rtc

import (
	"slices"

	"github.com/pion/sdp/v3"
)

// settleDirection leaves exactly one direction in the section. It says whether the offerer sends and whether it hears.
func (pl *offerPlan) settleDirection(m *sdp.MediaDescription) (sends, hears bool) {
	direction := ""
	for _, attrs := range [][]sdp.Attribute{m.Attributes, pl.desc.Attributes} {
		for _, a := range attrs {
			if direction == "" && isDirection(a.Key) {
				direction = a.Key
			}
		}
	}
	if direction == "" {
		direction = sdp.AttrKeySendRecv // RFC 8866 §6.7
	}
	setDirection(m, direction)
	both := direction == sdp.AttrKeySendRecv
	return both || direction == sdp.AttrKeySendOnly, both || direction == sdp.AttrKeyRecvOnly
}

func setDirection(m *sdp.MediaDescription, direction string) {
	m.Attributes = slices.DeleteFunc(m.Attributes, func(a sdp.Attribute) bool { return isDirection(a.Key) })
	m.Attributes = append(m.Attributes, sdp.NewPropertyAttribute(direction))
}

// chooseListener finds the section in which the offerer hears us: of its audio sections that take sound the person's
// own, or the first. As we send nothing else, other sections are settled as those that only send, or are inactive.
func (pl *offerPlan) chooseListener() {
	for _, s := range pl.sections {
		if s.live && s.media == "audio" && s.hears && (pl.listener == "" || s.source == sourceMicrophone) {
			pl.listener = s.mid
		}
	}
	for i, m := range pl.desc.MediaDescriptions {
		switch s := pl.sections[i]; {
		case !s.live || s.media == "application" || s.mid == pl.listener:
		case s.sends:
			setDirection(m, sdp.AttrKeySendOnly)
		default:
			setDirection(m, sdp.AttrKeyInactive)
		}
	}
}

func isDirection(key string) bool {
	switch key {
	case sdp.AttrKeySendRecv, sdp.AttrKeySendOnly, sdp.AttrKeyRecvOnly, sdp.AttrKeyInactive:
		return true
	}
	return false
}
