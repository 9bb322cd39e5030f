// Package jetstream keeps conversations in NATS JetStream, in a server inside the process that writes to a directory or in an external cluster; it is a chatctx.Store and chatctx.Directory, knows no gateway, and opens no port.
//
// # Guarantees
//
//   - G1: entries of a session are dense from 1 and chained by hash. A reader gets them all, in order, or an error of kind
//     LogDamaged at the first that is missing or is not what was written; never a shortened conversation. That holds for the
//     end of a log too: a file of heads beside the store remembers how far each session was acknowledged.
//   - G2: an entry or image whose Append or PutBlob returned nil survives kill -9, and the loss of power on a disk that honours
//     fsync, unless Config.UnsafeSync is set.
//     With External the same holds for every server of the cluster, and for the loss of one for good.
//   - G3: an Append that returned an error of kind EngineUnavailable may have been stored or not; it is there at most once, and
//     the next Append of the session knows which.
//   - G9: reading takes no lock that a write holds while it waits for the disk. Who reads the newest entries of a session gets
//     them from memory.
//   - G12: every call ends within Config.Timeout. Bytes on disk, bytes per Read, sessions held in memory and waiting requests
//     are bounded.
//   - One owner: after Fence with a term returned nil, no process that owned the session under a lower term appends to it.
//   - G13: Close returns after every goroutine of this package; the lock on the directory is let go last.
//
// # How it is laid out
//
// P streams CTX_0.. with one subject ctx.<p>.<session> per session and one message per entry; P streams BLOB_0.. with one
// message per image; the KV bucket SESS with one record per session. A message of CTX carries N (the entry's seq) and H (the
// first 16 bytes of SHA-256 over the H before it and the payload) in headers. An append names the stream sequence that it
// expects to follow, so that the server refuses every second writer and every repetition; the server's own de-duplication by
// message id is not used, because a session that was deleted may say the same again. There is no JetStream consumer: reading is
// batched Direct Get, joined by N and H.
//
// # With a cluster
//
// Only how the connections are made, Replicas and the placement differ. Reads go to any replica, which may lag: a reader never sees
// less than what this process knows to be there (it waits, and asks another), so who has asked for the Head, has appended or has
// fenced reads at least that far. Heads, images that a replica does not have, records and fences are asked of the stream's leader.
// The file of heads is not there; that a log lost its end is seen by the other replicas.
//
// A message on a session's subject whose Op is "owner" is a fence: it repeats N and H of the entry before it, carries a Term, and is
// passed over by readers. Since every append names the sequence it expects to follow, an owner who has not seen the fence is refused,
// reads why, and stops.
//
// What is not promised: order between sessions; that a full or failing disk keeps accepting entries. When it does not, appends
// are refused at once, what is stored can still be read, and the server inside is restarted as soon as that can help.
package jetstream
