package local

import (
	"strings"
	"unicode"
)

// folded is what flite, which knows ASCII, gets for other characters; what is neither here nor ASCII is a pause.
var folded = func() map[rune]string {
	m := map[rune]string{'’': "'", '‘': "'", '“': `"`, '”': `"`, '–': ", ", '—': ", ", '…': ". ", '×': " by ", '°': " degrees ", '€': " euros ",
		'£': " pounds ", '½': " one half ", 'ß': "ss", 'æ': "ae", 'Æ': "Ae", 'œ': "oe", 'Œ': "Oe", 'ø': "o", 'Ø': "O", 'ł': "l", 'Ł': "L", 'đ': "d", 'þ': "th"}
	for plain, accented := range map[string]string{"a": "àáâãäåā", "c": "çćč", "e": "èéêëēėę", "i": "ìíîïī", "n": "ñńň", "o": "òóôõöō", "r": "ř",
		"s": "śš", "u": "ùúûüūů", "y": "ýÿ", "z": "źżž"} {
		for _, r := range accented {
			m[r] = plain
			m[unicode.ToUpper(r)] = strings.ToUpper(plain)
		}
	}
	return m
}()

// speakable makes pieces that flite can speak out of any text: ASCII without control characters, cut at sentences, then at
// commas, then at words. Pieces without a letter or digit are left out.
func speakable(text string) []string {
	if len(text) > MaxSpoken {
		text = text[:MaxSpoken]
	}
	var b strings.Builder
	for _, r := range text {
		switch s, known := folded[r]; {
		case known:
			b.WriteString(s)
		case r > ' ' && r < 0x7f && !strings.ContainsRune("*_`#|<>~^\\{}[]", r): // the marks of Markdown are not spoken
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	var pieces []string
	rest := strings.Join(strings.Fields(b.String()), " ")
	for rest != "" {
		piece := rest[:cut(rest)]
		rest = strings.TrimSpace(rest[len(piece):])
		if strings.ContainsFunc(piece, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			pieces = append(pieces, strings.TrimSpace(piece))
		}
	}
	return pieces
}

// cut is where the first piece of a text ends: behind its first sentence, if that is short enough.
func cut(text string) int {
	window := text[:min(len(text), longestPiece)]
	for i := 0; i+1 < len(window); i++ {
		if strings.IndexByte(".!?", window[i]) >= 0 && window[i+1] == ' ' && i > 12 { // "Dr. Smith" stays whole
			return i + 1
		}
	}
	if len(text) <= longestPiece {
		return len(text)
	}
	for _, mark := range []string{", ", "; ", ": ", " "} {
		if i := strings.LastIndex(window, mark); i > 0 {
			return i + 1
		}
	}
	return len(window)
}
