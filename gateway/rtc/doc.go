// Package rtc turns a WebRTC offer from outside into a running Pion peer and its answer: it alone builds PeerConnections, and it knows no session, no HTTP and no decoder.
//
// The way of an offer: [Engine.Accept] bounds and normalises it (sdp_offer.go, pure), Pion answers, the answer is
// put right for real clients (sdp_answer.go, pure), and a [Peer] lives on its own from then on. All peers share one
// UDP port, one ICE-TCP port, one certificate and one address policy.
//
// Guarantees, each with tests that carry its number:
//
//   - G12: everything in an offer, a fragment or a candidate is bounded; what is refused gets a *problem.Error and
//     leaves nothing behind. No packet is ever sent to an address that the policy forbids.
//   - G13: when [Peer.Done] is closed, the peer's goroutines, its sockets' map entries and its place in the count of
//     unconnected peers are gone; after [Engine.Close] so are the sockets.
//
// A publisher whose offer takes sound (an audio section sendrecv or recvonly) hears what is given to [Peer.Speaker]:
// packets of Opus made elsewhere, under this connection's SSRC and payload type, with sender reports. The section and
// SSRC stay through ICE restarts. No other media is ever sent.
//
// Not promised: that packets come in order or once. Resent packets are handed on as they arrive.
//
// Goroutines of a peer: run (its life and its end), one RTCP reader per receiver and of the speaker, one reader per track
// that nobody asked for (further sound); besides Pion's own.
package rtc
