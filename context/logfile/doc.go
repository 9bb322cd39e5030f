// Package logfile moves conversations between stores as JSON Lines and checks them; it works over any chatctx.Store and knows none in particular.
//
// # The file
//
// One JSON object a line; several conversations may follow each other. Each is
//
//	{"sightline_log":1,"key":…,"session":{…}}      session: its record in the directory, when it has one
//	{"image":{"sha256":…,"mime":…,"data":base64}}  before the first entry that names it
//	{"entry":{…}}                                  as on the wire, seq 1, 2, 3, …
//	{"end":{"entries":…,"images":…,"sha256":…}}    SHA-256 in hex of all lines from the first, line feeds included
//
// A file that was cut off, or in which a byte differs, is refused where that shows: at the end of the conversation that has it.
// What was imported up to there stays; importing the right file continues it, since an entry that is there already is compared
// and not stored again.
package logfile
