// Package realtime is the server's end of the OpenAI Realtime dialect: on one socket it lets stock clients talk with a pipeline, or watch and steer a call that is under way; it recognises nothing, thinks nothing and keeps no conversation of its own.
//
// # How a socket becomes a call
//
// A Call stands between a client and the session that a switcher.Switcher runs. Its Tap is put around the session's pipelines, so
// that a Call sees all that a leg is given and all that it says, and decides what of it the session sees:
//
//	client ⇄ socket ⇄ core ⇄ tap(leg) ⇄ switcher ⇄ log
//
// The core is pure: events of the client, outputs of the leg, findings of the speech detector, entries of the log and the time go in,
// effects come out. What a leg says becomes an answer (response.created … response.done): its words the transcript, its sound audio
// as fast as it is made, its tool calls function_call items for the client to run. A leg answers the caller's turns by itself; where
// the client has reserved that to itself (create_response false, no turn detection, the result of a tool), what the leg says waits
// until response.create asks for it. The session records all of it, as it does for any call; what the client cuts off by
// conversation.item.truncate is cut in the log.
//
// # Guarantees
//
//   - G4: a function_call goes to the client once, its output back to the leg once.
//   - G5: after response.cancel, and after the caller's interruption, nothing of that answer is sent or recorded.
//   - G8: the log keeps what the client says was heard.
//   - G12: bounded are messages (MaxMessage), events a second, what waits for the client (maxQueued) or to be asked for (maxHeld),
//     the input buffer (maxBuffer), items remembered (maxItems), tools (maxTools). What is wrong with an event is an error event
//     that names the event and the field, changes nothing, and closes nothing.
//   - G13: Serve returns after all its goroutines; a Loopback's Run after all its calls.
package realtime
