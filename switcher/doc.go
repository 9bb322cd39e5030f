// Package switcher decides which pipeline has the floor of a call, and carries sound, words, tools and the conversation between it and the session; it knows neither HTTP nor pixels.
//
// A Switcher runs the legs of one session. A leg is one running Pipeline, a cascade or a realtime model, built in or remote; what
// a leg must do stands at Leg, what goes in and out of it in traffic.go. At most one leg is active, which is what having the floor
// means: its output is heard and recorded, and the caller's sound goes to it. At most one more is being prepared. Each has an
// epoch, which rises with each leg that is started.
//
// All decisions are made in a pure core (core*.go): events and the time go in, actions come out. The Switcher (run.go,
// perform.go) is one goroutine around it that does what the core wants; nothing in it blocks on a leg, on the store or on the
// speaker. docs/switcher.md draws what can happen to a leg.
//
// # A switch
//
// The new leg connects and is seeded from the log while the old one talks on. When it is ready, the boundary comes (At): then what
// is still played is cut off if it has to be, the old leg's output is held, what was said is brought into the log, and the commit
// is appended, one entry: what stands before it belongs to the old epoch, what comes after it to the new one. Then the old leg is
// stopped, and the new one is given, in this order, what came into the log since its seed, the floor, and the sound of the turn
// that the caller is speaking, faster than it was spoken. Whatever goes wrong before the commit leaves the old leg as it was.
//
// A commit whose outcome the store leaves open is asked for again until it is known; until then neither leg is heard.
//
// # Guarantees
//
// The numbers are those of the design; each has tests of its number, and TestSwarm holds them for random schedules of speech,
// switches, deaths, failing stores and restarts.
//
//   - G1: everything that a session does goes through its one log; followers see one order.
//   - G2: what Switch has answered, and what a tool was run for, is in the log before; the next Switcher goes on from it.
//   - G3: an op_id is carried out once; repeating it gives the first outcome, after a restart too. (Of a switch that was a no-op
//     or joined another there is nothing in the log: there it holds for the life of the Switcher.)
//   - G4: a call_id is recorded once, before its tool is run, and gets one output; the tool is run at most once, whatever is
//     switched, repeated or restarted. The same call again in one turn of the caller, under another id, has the first one's
//     output. The result goes to the leg that has the floor by then, which knows the call.
//   - G5: after a commit nothing of an older epoch is heard, told to others or recorded; it is counted. A call that was asked for
//     before still gets its output, under the new epoch.
//   - G6: a switch is committed, or leaves the session as it was but for its entries in the log.
//   - G7: a switch to what is active is a no-op; one to what is being prepared joins it. A model that asks for a switch again, or
//     back though nobody has spoken since, is answered and nothing is done.
//   - G8: an answer is recorded as far as it was heard, by the speaker's clock.
//   - G12: queues are bounded, or bounded by what fills them; each drop has a counter (Counters).
//   - G13: when Run returns, all legs, tools and goroutines have ended. It waits for a leg that does not end.
//
// What is not promised: that the words of a caller who speaks for longer than Times.Replay are whole over a switch in the middle
// of them; that entries which others append at the moment of a commit carry the new epoch.
package switcher
