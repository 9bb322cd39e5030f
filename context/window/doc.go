// Package window keeps a conversation within its limits while it goes on: older turns become one summary, by operations on the session's log; it knows no provider and no pipeline, and it never holds up a turn.
//
// A Manager follows the log of a session like any other reader, so it serves both kinds of pipeline and a change between them.
// What is over the limits is summed up by a Summarizer in the Manager's own goroutine, while the conversation goes on; what was
// said meanwhile is not touched.
//
// # Guarantees
//
//   - Instructions, handoffs, config updates and the newest KeepRecentTurns turns are never removed, a call goes together with
//     its output or not at all, and a call that waits for its output stays.
//   - A summary and the removal of what it stands for are one entry of the log. A Summarizer that fails, answers nothing or is cut
//     off loses nothing: it is asked again, later and later.
//   - An item that somebody changed or removed while it was summed up makes that summary void; it is made anew.
//   - A Manager that is stopped anywhere leaves a whole conversation; the one that follows does not ask for a summary that is in
//     the log.
package window
