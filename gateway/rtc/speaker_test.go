package rtc

import (
	"testing"

	"github.com/pion/sdp/v3"
)

func directionOf(m *sdp.MediaDescription) string {
	for _, a := range m.Attributes {
		if isDirection(a.Key) {
			return a.Key
		}
	}
	return ""
}

// voiceOf is the direction of the section of an answer in which we send. Such a section says of what: one SSRC, one
// stream.
func voiceOf(t *testing.T, answer string) (voice string) {
	t.Helper()
	var d sdp.SessionDescription
	if err := d.UnmarshalString(answer); err != nil {
		t.Fatal(err)
	}
	for i, m := range d.MediaDescriptions {
		if m.MediaName.Media == "application" {
			continue
		}
		_, ssrc := m.Attribute("ssrc")
		_, msid := m.Attribute("msid")
		direction := directionOf(m)
		sends := direction == sdp.AttrKeySendRecv || direction == sdp.AttrKeySendOnly
		if sends != ssrc || sends != msid || sends && (m.MediaName.Media != "audio" || voice != "") {
			t.Errorf("section %d (%s): %s, ssrc %v, msid %v, after %q", i, m.MediaName.Media, direction, ssrc, msid, voice)
		}
		if sends {
			voice = direction
		}
	}
	return voice
}
