// Package local is the offline demo engines, pocketsphinx that hears, flite that speaks, tesseract that reads and rules that answer, as programs of this machine; it is for trying and testing without a key, not for production.
//
// # Guarantees
//
//   - G12: what goes to a program is bounded (sound of an utterance, length of a text, bytes of an image), so is what is
//     taken from it, and every program has a time after which it is killed. Text never passes through a shell.
//   - G13: when a Run has returned, or the context of a call has ended and the call has returned, no process and no
//     goroutine of it is left, nor a child of such a process; each is waited for, so that no zombie stays.
//
// # Goroutines
//
//	Recognizer.Run      keeps loaded processes at hand; ends with its context
//	utterance.run       one per utterance: gives sound to a process; ends with Finish, Close or the context of Listen
//	utterance.read      one per utterance: takes its lines; ends with the process
//	process.wait        one per process: reaps it
package local
