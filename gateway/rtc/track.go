package rtc

import (
	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"
)

// InTrack is one incoming track. Its reader owns it: ReadRTP from one goroutine, the rest from any.
type InTrack struct {
	Kind        string // "video", "audio"
	Codec       string // "VP8", "opus": the subtype of the MIME type
	Source      string // "camera", "screen", "microphone"
	MID         string
	RID         string // simulcast layer, else empty
	SSRC        uint32
	ClockRate   uint32
	PayloadType uint8
}

// ReadRTP blocks for the next packet; duplicates (resent packets) come as they arrive. It ends with io.EOF when the track is over.
func (t *InTrack) ReadRTP() (*rtp.Packet, error) { return nil, nil }

// RequestKeyFrame sends one PLI. Pacing them is the caller's business.
func (t *InTrack) RequestKeyFrame() {}

// Wrap lets a track of a PeerConnection that somebody else made be read like one of ours; it drains the receiver's RTCP until the track ends.
func Wrap(pc *webrtc.PeerConnection, track *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) *InTrack {
	return nil
}
