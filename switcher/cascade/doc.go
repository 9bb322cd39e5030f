// Package cascade is the leg that answers by a chain of engines, recogniser, model and voice; it knows no provider, engines are handed to it.
//
// # A turn
//
// The caller's speech goes to a recogniser from where the session's detector says that it began, out of a ring of sound that is kept
// for that. Its final text, or what was typed, goes to a model with the conversation, what can be seen and the tools; the model's
// sentences go to a voice, each as soon as it is complete, so that sound begins before the model is done. Calls run at the same
// time, once for the same arguments in a turn; their results go to the model, which answers again, a bounded number of times. What
// is said before the calls and what is said after their results are two turns in the eyes of the session, so that the conversation
// holds each where it was said.
//
//   - The caller goes on before anything of the answer could be noticed: the answer is withdrawn, and one answer is made to both
//     parts. Calls that were made are not made again. When what came was a noise, the first part is answered alone.
//   - The caller speaks while the answer is being heard: that is answered after it, unless the session interrupts (InterruptedIn).
//   - Nothing was understood: nothing is answered. No recogniser works: the caller is told so.
//   - No model works: the caller is told so. It breaks off: what came stays, and the caller is told. Nobody is asked again for what
//     has been begun to be used, or the caller would hear it twice.
//   - No voice works: the answer is written, and says that it is.
//   - A result comes that no turn waits for, of a leg before this one or of a withdrawn answer: a turn of its own tells it.
//
// # Guarantees
//
//   - G4: a call has one id in the session, and is asked for once; a turn makes at most Config.MaxCalls. A call without a result in
//     time gets an error for one, in the eyes of the model, and is taken back.
//   - G5: after InterruptedIn nothing more of the turn is put out but its end; after TurnDoneOut nothing.
//   - G12: bounded are the sound kept (Config.PreRoll, Config.MaxUtterance), phrases (240 runes, 64 waiting), rounds and calls of a
//     turn, the calls and answers remembered, and the time of every wait for an engine, a tool or an image.
//   - G13: when Run has returned, so have all its goroutines, and the engines' calls they made.
//
// # Goroutines
//
//	Run            decides; it waits for nothing but its inbox and what the others report
//	pump           hands it the inbox
//	listen         one per utterance: gives it to recognisers, puts its transcript out in the order of speech
//	answer         one at a time, a turn: asks models, runs tools, puts text out
//	speak          beside answer, where there is a voice: puts sound out
//	look           one per turn: asks for images
package cascade
