package rtc

import (
	"sync"
	"sync/atomic"

	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"
)

// layerGuard lets one SSRC be a layer of a simulcast. Pion gives a layer to whichever SSRC said last that it is it (RFC 8852), beside who reads
// that layer, and neither ever ends: the second one's packets are thrown away before Pion sees them. So are those of a second repair
// stream of a layer.
type layerGuard struct {
	mu     sync.Mutex
	ids    layerIDs
	owners map[string]*packetQueue // of each layer, by layerKey

	clashed *atomic.Uint64 // packets thrown away, of all peers
}

// layerIDs are the ids that the header extensions which name a layer were negotiated under; 0: not negotiated.
type layerIDs struct{ mid, rid, repaired uint8 }

// learn takes the ids of the description in force.
func (g *layerGuard) learn(pc *webrtc.PeerConnection) {
	var ids layerIDs
	for _, t := range pc.GetTransceivers() {
		r := t.Receiver()
		if t.Kind() != webrtc.RTPCodecTypeVideo || r == nil {
			continue
		}
		for _, e := range r.GetParameters().HeaderExtensions {
			switch e.URI {
			case sdp.SDESMidURI:
				ids.mid = uint8(e.ID)
			case sdp.SDESRTPStreamIDURI:
				ids.rid = uint8(e.ID)
			case sdp.SDESRepairRTPStreamIDURI:
				ids.repaired = uint8(e.ID)
			}
		}
	}
	g.mu.Lock()
	g.ids = ids
	g.mu.Unlock()
}

// passes says whether a packet of this queue, decrypted, may go to Pion.
func (g *layerGuard) passes(q *packetQueue, packet []byte) bool {
	if len(packet) < 12 || packet[0]&0x10 == 0 { // no header extension (RFC 3550 §5.1)
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ids.mid == 0 || g.ids.rid == 0 {
		return true
	}
	q.header.Extensions = q.header.Extensions[:0]
	if _, err := q.header.Unmarshal(packet); err != nil {
		return true // Pion throws it away
	}
	mid := string(q.header.GetExtension(g.ids.mid))
	if mid == "" { // Pion believes only what is in one packet
		return true
	}
	for i, id := range [...]uint8{g.ids.rid, g.ids.repaired} {
		if id == 0 {
			continue
		}
		name := q.header.GetExtension(id)
		if len(name) == 0 {
			continue
		}
		key := layerKey(mid, name, i == 1)
		if g.owners == nil {
			g.owners = make(map[string]*packetQueue)
		}
		if owner := g.owners[key]; owner != nil && owner != q {
			g.clashed.Add(1)
			return false
		}
		if len(g.owners) < 2*maxSSRCs { // further names are nobody's: Pion knows those of the offer only, 6 a section
			g.owners[key] = q
		}
	}
	return true
}

func layerKey(mid string, name []byte, repair bool) string {
	kind := " layer "
	if repair {
		kind = " repair "
	}
	return mid + kind + string(name)
}
