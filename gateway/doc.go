// Package gateway is the sessions and their wires: it takes publishers in over WebRTC, hands their images and the one shared conversation to agents over WebSocket and HTTP, and ends every session cleanly; pixels are frames' business, the conversation's rules are chatctx's.
//
// # The way of a frame
//
// rtc.Engine reads packets → publisher.go (readVideo) pushes them → frames.Track assembles, decodes, encodes →
// agentimages.go (imageFeed) takes the newest → agentwrite.go sends it. An image for the conversation goes through
// imageContent in images.go.
//
// # The way of a context change
//
// agentread.go or httpcontext.go → chatctx.Log.Append (order, durability) → every agent's cursor → agentwrite.go.
//
// # Among other gateways
//
// With Config.Cluster a session is claimed before it begins (cluster.go), and nodes stand in front of everything that is served: what
// is about a session of another node is answered by that one (clusterhttp.go), an agent socket is relayed to it and goes on with
// whichever node has the session next (clusterrelay.go). What other nodes pass on comes in by the cluster's streams and is served
// like everything else, the guard included.
//
// # Goroutines
//
//	goroutine          started by        ends when                      bound in front of it    when full
//	Server.Run         the program       its ctx                        –                       –
//	session.run        registry          idle past the grace, delete    –                       –
//	readVideo, drain   addTrack          the track ends                 Pion's socket buffer    Pion drops
//	Track.Run          addTrack          the track ends                 8 frames                drop to a key frame
//	agent read         the agent socket  socket error, session end      read limit              TCP window
//	agent write        the agent socket  socket error, session end      16 answers              agent read waits
//	imageFeed          agent write       source or wish changes         1 image                 newest wins
//	image request      agent read        answered or timed out          4 a socket              rate_limited
//	relay read, pumpUp an agent's socket client gone, session ended     16 messages             TCP window
//	other nodes' HTTP  Run               Run ends                       1 MiB a stream          the sender waits
//
// # Guarantees
//
//   - G1, G3: the agent socket passes on the log's order and its op_id answers; resuming loses nothing and doubles nothing.
//   - G2: a restart, wished or not, loses no session: who was alive sleeps until somebody comes (with a Directory that is durable).
//   - G9: newest image wins; one slow agent never delays another or the media path.
//   - G12: everything from outside is bounded; a bad message gets a precise error and changes nothing.
//   - G13: Run returns with no goroutine, socket or C memory left.
//
// Shutdown order: no new sessions → agents get bye and close 1001 → publishers closed → tracks return → Run returns.
package gateway
