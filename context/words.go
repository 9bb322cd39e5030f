package chatctx

import "unicode"

// isPythonSpace is white space as Python's str.split sees it: unicode.IsSpace and U+001C to U+001F.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F }
