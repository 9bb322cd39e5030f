// Package web holds the files of the console page (HTML, CSS, ES modules), embedded in the binary; it serves nothing itself.
package web

import (
	"embed"
	"io/fs"
)

//go:embed static
var embedded embed.FS

// Files returns the page's files rooted so that "index.html" is the console. The files need no inline script or style and load
// nothing from elsewhere; ContentSecurityPolicy is what they run under.
func Files() fs.FS {
	sub, err := fs.Sub(embedded, "static")
	if err != nil {
		panic(err) // only an invalid path literal can do this
	}
	return sub
}

// ContentSecurityPolicy is the header value the page is made for: everything from the own origin, pictures also from blobs and data
// URLs (images in the conversation), sockets to this or another node.
const ContentSecurityPolicy = "default-src 'self'; img-src 'self' blob: data:; connect-src 'self' ws: wss:; media-src 'self' blob:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
