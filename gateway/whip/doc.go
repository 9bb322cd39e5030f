// Package whip speaks RFC 9725 (WHIP) over HTTP for whoever accepts the offers; it knows no Pion and keeps no session beyond the URL that names it.
package whip
