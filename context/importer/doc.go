// Package importer reads saved conversations of every common format into the items of a ChatContext and reports, with line and field, whatever it could not keep; it never writes a format and never fetches anything.
//
// An input is read twice: once to see what it is, once to read it. One element is held at a time, so that memory follows
// the largest element and the number of items, not the size of the file. Three kinds of input are held as a whole because
// their order is not the file's: a log of realtime events (without its audio), a tree of messages (one conversation of a
// chat export), and a plain text transcript's open message.
//
// What a tool answered is never read as the caller's words, whatever role carried it.
package importer
