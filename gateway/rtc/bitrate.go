package rtc

import (
	"encoding/json"
	"math"
	"slices"
	"sync"

	"github.com/pion/rtcp"
	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"
)

// SenderChannel is the label of a data channel on which a publisher's page is told what is wanted of it.
const SenderChannel = "sightline.sender"

const (
	// layersShare: the layers below the largest one need room too (1/4 and 1/16 of its pixels).
	layersNum, layersDen = 3, 2
	// packetOverhead is what AS counts beside the media that TIAS counts (RFC 3890 §6.2): IP, UDP, RTP with extensions and SRTP's tag,
	// bytes for each packet.
	packetOverhead = 20 + 8 + 12 + 12 + 16
	packetPayload  = 1100 // bytes of a browser's packet, about
)

// Ask is what a publisher is asked for: to send this and no more. It is a wish; who cannot change sends as before.
type Ask struct {
	BitrateBPS int // of all media together, as REMB counts; 0: as much as it likes
	Sources    []SourceAsk
}

// SourceAsk is the part of one video source, as SenderChannel carries it.
type SourceAsk struct {
	Name       string  `json:"name"`
	MID        string  `json:"mid"`
	BitrateBPS int     `json:"max_bitrate_bps"`
	FPS        float64 `json:"max_fps"`
	Width      int     `json:"width"`  // the picture need not be larger than covers this box; 0: its own size
	Height     int     `json:"height"` // the same
}

// asking is what a peer has been asked for, and the channel that its page listens on.
type asking struct {
	mu      sync.Mutex
	last    Ask
	told    []byte // what the page was told last
	channel *webrtc.DataChannel
}

// Ask tells the publisher what is wanted: by REMB (again at each call, since RTCP may be lost), and over SenderChannel when
// something has changed and the publisher has opened one.
func (p *Peer) Ask(a Ask) {
	p.asked.mu.Lock()
	defer p.asked.mu.Unlock()
	p.asked.last = a
	p.sendREMB(a.BitrateBPS)
	p.tellPage()
}

// sendREMB names every video SSRC of a sender that takes it: libwebrtc caps the whole connection, others (aiortc) the streams that are named.
func (p *Peer) sendREMB(bps int) {
	if bps <= 0 {
		return
	}
	var ssrcs []uint32
	p.mu.Lock()
	for _, t := range p.tracks {
		if t.Kind == "video" && t.takesREMB {
			ssrcs = append(ssrcs, t.SSRC)
		}
	}
	p.mu.Unlock()
	if len(ssrcs) == 0 {
		return
	}
	remb := &rtcp.ReceiverEstimatedMaximumBitrate{SenderSSRC: p.ssrc, Bitrate: float32(bps), SSRCs: ssrcs}
	_ = p.pc.WriteRTCP([]rtcp.Packet{remb}) // fails only when the peer is gone
}

// tellPage; asked.mu is held.
func (p *Peer) tellPage() {
	d := p.asked.channel
	if d == nil || len(p.asked.last.Sources) == 0 {
		return
	}
	text, err := json.Marshal(struct {
		Type    string      `json:"type"`
		Sources []SourceAsk `json:"sources"`
	}{"sender", p.asked.last.Sources})
	if err != nil || slices.Equal(text, p.asked.told) || d.BufferedAmount() > maxDataMessage {
		return
	}
	if d.SendText(string(text)) == nil {
		p.asked.told = text
	}
}

// listens makes d the channel that the page is told on.
func (p *Peer) listens(d *webrtc.DataChannel) {
	d.OnOpen(func() {
		p.asked.mu.Lock()
		defer p.asked.mu.Unlock()
		p.asked.channel, p.asked.told = d, nil
		p.tellPage()
	})
	d.OnClose(func() {
		p.asked.mu.Lock()
		defer p.asked.mu.Unlock()
		if p.asked.channel == d {
			p.asked.channel = nil
		}
	})
}

// capBandwidth writes the most that a video section may ever be asked for into an answer: TIAS counts the media alone (RFC 3890), AS with
// what the packets add, in kbit/s (RFC 8866 §5.8). TIAS comes last, since some readers keep the last one.
func capBandwidth(m *sdp.MediaDescription, bps int, layers bool) {
	if bps <= 0 || m.MediaName.Media != "video" {
		return
	}
	if layers {
		bps = bps * layersNum / layersDen
	}
	as := math.Ceil(float64(bps) * (1 + float64(packetOverhead)/packetPayload) / 1000)
	m.Bandwidth = []sdp.Bandwidth{{Type: "AS", Bandwidth: uint64(as)}, {Type: "TIAS", Bandwidth: uint64(bps)}}
}
