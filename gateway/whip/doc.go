// Package whip speaks RFC 9725 (WHIP) over HTTP for whoever accepts the offers; it knows no Pion, checks no token and keeps nothing of a session but the URL that names it.
//
// Routes: POST, OPTIONS, GET, HEAD on /whip and /whip/{session}; PATCH, DELETE, OPTIONS, GET, HEAD on
// /whip/session/{secret}, the session URL of the 201's Location.
//
// Preconditions of PATCH (RFC 9725 §4.3.1), where "new" is a fragment whose ice-ufrag differs from the one in force:
//
//	If-Match          lenient (default)                   strict
//	none              same: trickle; new: 428             428
//	*                 same: trickle; new: restart         same: 400; new: restart
//	the present tag   same: trickle; new: 412             same: trickle; new: 412
//	another tag       412                                 412
//
// G12: bodies, names and tags are bounded, and every refusal says what was wrong and what is allowed.
package whip
