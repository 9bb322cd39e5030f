// Package rtc turns a WebRTC offer from outside into a running Pion peer and its answer: it alone builds PeerConnections, and it knows no session, no HTTP and no decoder.
package rtc
