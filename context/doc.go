// Package chatctx is the conversation of one session: an ordered log of entries, the ChatContext that is their fold, and the images inside it; it knows no network, no pixels and no provider.
//
// The folder is called context, the package chatctx, because a second package named context does not compile beside
// the standard one in one file. Import it as
//
//	chatctx "sightline/context"
//
// # The two ways to a ChatContext
//
// A session's conversation is changed by operations on its Log, and its ChatContext is what they add up to. A free-standing
// ChatContext, as the published Python API has it, is made by NewChatContext, NewFromContextMessages, Empty or a fork, and changed by
// its Add… methods; Ops and MergeOps bring it into a Log. docs/parity.md has each sentence of that API and where it is. What a
// model is given is made of Items by package project; context/tokens counts, context/window bounds, context/recorder writes down what
// was said, context/fetch gets images from the web.
//
// # Guarantees
//
//   - G1: one total order per session. Every Cursor sees the same entries, gap-free, in sequence from 1.
//   - G2: what Append returned without an error is in the Store; whether that survives a crash is the Store's promise.
//   - G3: an op_id is applied once; repeating it returns the first answer with Duplicate set, also after an error that left
//     open whether the Store has it, after a restart, and beside other Logs of the same session.
//   - G4: a call_id has at most one function call and at most one output.
//   - G9: the writer never waits for a reader: a Cursor pulls at its own pace and holds nothing up; waking those that wait is not
//     the writer's work either. A writer that waits for the
//     Store or for another writer gives up when its own context ends.
//   - G12: a refused operation changes nothing: neither the log, nor the fold, nor the set of known op ids.
//
// What is not promised: that two operations sent at once are applied in the order of their sending; that the warnings of an
// answer survive a restart. A Log keeps its items, op ids and item ids in memory for the session's life.
package chatctx
