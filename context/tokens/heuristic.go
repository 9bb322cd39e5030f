package tokens

import "unicode"

// The heuristic walks over the text once and prices runs of one class of rune, in hundredths of a token. The prices are fitted
// to o200k_base on the first texts of testdata/samples.json; older and smaller vocabularies need more for scripts other than
// Latin.
type class uint8

const (
	space class = iota
	newline
	latin
	alphabet // other scripts with letters and spaces
	digit
	sign
	// From here on there is a price for each rune, wherever it stands.
	han
	kana
	hangul
	southAsian // Thai, Devanagari and their neighbours: marks are runes of their own
	semitic    // Arabic, Hebrew
	picture
	joiner // what changes or joins pictures: a variation selector, a zero-width joiner, a skin tone
	otherRune
)

// perRune are the prices of the classes that are priced by rune.
var perRune = [...]int{han: 68, kana: 68, hangul: 76, southAsian: 37, semitic: 37, picture: 180, joiner: 120, otherRune: 130}

// estimate is the heuristic's number of tokens of a text.
func estimate(s string) int {
	var total, run int
	last, before := space, space // the class of the run, and of the run before it
	for _, r := range s {
		c := classOf(r)
		if c == last {
			run++
			continue
		}
		total += price(last, before, c, run)
		before, last, run = last, c, 1
	}
	return (total + price(last, before, space, run) + 50) / 100
}

// price is what a run of n runes of class c costs between runs of other classes.
func price(c, before, after class, n int) int {
	if n == 0 {
		return 0
	}
	switch c {
	case space: // one space goes with the word after it
		if n > 1 {
			return 100
		}
		return 0
	case newline:
		return 100
	case latin:
		return 100 + 25*max(0, n-7)
	case alphabet:
		return 100 + 20*max(0, n-3)
	case digit: // in threes, and a space before them is a token of its own
		p := 100 * ((n + 2) / 3)
		if before == space {
			p += 100
		}
		return p
	case sign:
		if n == 1 && after == latin && before != space { // often one token with the word after it
			return 40
		}
		return 100 + 35*max(0, n-2)
	}
	return n * perRune[c]
}

func classOf(r rune) class {
	switch {
	case r == ' ':
		return space
	case r == '\n' || r == '\r' || r == '\t':
		return newline
	case r < 0x80:
		switch {
		case r >= '0' && r <= '9':
			return digit
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			return latin
		}
		return sign
	case r == 0x200D || r >= 0xFE00 && r <= 0xFE0F || r >= 0x1F3FB && r <= 0x1F3FF:
		return joiner
	case r >= 0x1F000 && r <= 0x1FAFF || r >= 0x2600 && r <= 0x27BF:
		return picture
	case r >= 0x3040 && r <= 0x30FF:
		return kana
	case r >= 0xAC00 && r <= 0xD7AF || unicode.Is(unicode.Hangul, r):
		return hangul
	case unicode.Is(unicode.Han, r) || r >= 0x3000 && r <= 0x303F || r >= 0xFF00 && r <= 0xFFEF:
		return han
	}
	return classOfScript(r)
}

func classOfScript(r rune) class {
	switch {
	case unicode.Is(unicode.Latin, r):
		return latin
	case r >= 0x0900 && r <= 0x109F: // Devanagari to Myanmar, Thai and Lao between them
		return southAsian
	case unicode.In(r, unicode.Arabic, unicode.Hebrew):
		return semitic
	case unicode.In(r, unicode.Cyrillic, unicode.Greek, unicode.Armenian, unicode.Georgian):
		return alphabet
	case unicode.IsSpace(r):
		return space
	case unicode.IsPunct(r):
		return sign
	}
	return otherRune
}
