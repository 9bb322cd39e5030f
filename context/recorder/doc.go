// Package recorder writes what was said and done in a call into the session's log, in the order of speech and not in the order in which a pipeline happens to report it; it knows no provider and decides nothing about the call.
//
// A pipeline reports Events: partial and final transcripts, speech that starts and stops, an assistant's text and how much of it
// was heard, tool calls and their results. Core, which is pure, turns them and the time into operations; Recorder runs it.
//
// # The order
//
// Whatever is said or done has a start, and items are written in the order of their starts. A final transcript that comes after
// the answer to it therefore holds the answer back, for at most Wait after the speech ended; then what is known is written, a
// partial transcript or an empty place, and the final text fills it in place when it comes. What does not come within GiveUp
// stays as it is, or vanishes when it is empty. Something whose start is reported late, when later things are written already, is
// put into its place among them; what began before the first of them, after what the log had then. (In a log that had nothing it
// goes to the end, with a note.) What happens within one instant stands as it was reported, the caller's words first.
//
// # Guarantees
//
//   - Repetitions are told by ids, never by text: a caller who says «yes» twice has said it twice, and an item that is reported
//     twice is written once, after a restart too.
//   - A partial transcript becomes a final one, settles or vanishes; nothing stays half written.
//   - An answer that was cut off is stored as heard, with the whole text in text_generated; what nobody heard is not stored. (G8) One
//     that has to be written while it is playing is written like that too, as far as it was heard so far, and is completed in place:
//     the log never says more than was heard, whenever the process dies. Playing has the whole text of such.
//   - A call is written once and its output once, an output after its call, however late it is.
//   - Nothing is dropped without a counter.
package recorder
