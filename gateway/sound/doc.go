// Package sound is the voice of a call in both directions: the caller's Opus packets become PCM16 with speech found in it, and the sound of the session's legs becomes Opus packets on a clock that knows what was heard; it knows neither PeerConnections nor who has the floor.
//
// Outwards, [Egress] is the session's switcher.Speaker. Its guarantees, each with tests that carry its number:
//
//   - G5: sound of a turn that is over, or of an epoch older than the newest that played or was committed, is dropped and
//     counted. From one turn to the next packets follow each other without gap and overlap; no packet holds two turns.
//   - G8: what counts as heard is what the writer took: not what is queued, refused, faded out or sent to nobody.
//   - G12: sound waits within the bound of the queue, and whoever plays waits then; turns, reports and what is
//     remembered of turns are bounded.
//   - G13: when Run has returned, no C memory is left.
//
// The clock of the egress: packets are due every 20 ms by the monotonic clock, counted from the start of the spurt. RTP
// timestamps are that clock (48 kHz) and nothing else, so they jump by the elapsed time across silence, in which nothing
// is sent; the first packet behind a jump carries the marker. Sequence number and SSRC go on for as long as the Egress
// lives. A spurt starts when 40 ms wait, or when what there is has waited for 20 ms or is all of its turn. Sound up to
// 20 ms late keeps its slot (the browser's jitter buffer holds more); later, the spurt ends and another starts. A clock
// that comes late sends at most three packets at once and gives the slots before them up, not the sound.
//
// Inwards, [Ingress] puts the packets of the caller's track in order, fills what is missing, and gives 20 ms of sound each
// 20 ms at every wanted rate, whatever comes; [Listener] finds speech and turns in it, [Meter] its level. Example (Caller)
// shows them together. Their guarantees:
//
//   - G12: at most 256 packets and 400 ms of sound wait; of more, the oldest is dropped and counted. No packet costs more
//     than one allocation, whatever is in it. Push never waits.
//   - G13: when Run has returned, no C memory is left.
//
// The clock of the ingress: each sample is given a delay after the fastest way that a packet took in the last two seconds.
// The delay is 10 ms more than packets were late in the last four, between 30 and 80 ms. Where sound came later still, it is
// given later, and the delay is taken back: quiet packets are left out, and in speech up to 10 ms out of 40 are faded over
// into what follows. A pause in the timestamps is silence of that length. Of what is lost, the packet behind it repairs one,
// up to 100 ms are made up by the decoder, the rest is silence.
package sound
