// Package cluster is what the gateways of one NATS cluster know of each other: who is alive, who owns which session, and byte streams between them that need no port; what travels on the streams, and what a session is, it does not know.
//
// # Guarantees
//
//   - A session has one owner. Claim is a compare-and-set on the session's record followed by a fence in its log
//     (jetstream.Store.Fence): the lease of a node only says when another may try, the fence says who may write. A node that was
//     asleep past its lease is refused by the log itself (engine: G2, G3).
//   - A node counts as dead when its record has been gone for two looks of a node whose own looks are answered.
//   - G12: a stream holds at most a window of bytes on either side; who does not read makes the other side's Write wait. Streams to a
//     node that is dead end at once.
//   - G13: Run returns after every goroutine and stream of the node.
//
// A stream rides on core NATS messages, which may be lost when a connection breaks: a gap ends the stream with an error, never with
// bytes missing in the middle.
package cluster
