package cascade

import (
	"strings"
	"unicode"
)

// Bounds of a phrase, in runes.
const (
	maxPhrase   = 240 // a longer one is cut at its last clause mark, else at its last space
	firstClause = 20  // the first phrase of a turn may end at a clause mark from here on: sound begins earlier
)

// splitter cuts a stream of text into phrases to be spoken one after the other. Together they are the text, every space of it
// included. What has no letter and no digit is no phrase of its own: it stays with the text before or after it.
type splitter struct {
	buf   []rune
	at    int  // runes of buf that were looked at and end no phrase
	later bool // a phrase has been given
}

// push takes more text and gives the phrases that are complete.
func (s *splitter) push(text string) []string {
	s.buf = append(s.buf, []rune(text)...)
	var out []string
	for {
		n := s.end()
		if n == 0 {
			return out
		}
		out = append(out, s.take(n))
	}
}

// flush gives what is left, "" when nothing of it can be said.
func (s *splitter) flush() string {
	if len(s.buf) == 0 || !sayable(s.buf) {
		s.buf, s.at = nil, 0
		return ""
	}
	return s.take(len(s.buf))
}

func (s *splitter) take(n int) string {
	text := string(s.buf[:n])
	s.buf = append([]rune(nil), s.buf[n:]...)
	s.at, s.later = 0, true
	return text
}

// end gives how many runes the first phrase has, the spaces behind it included; 0: it goes on, or that is not known yet.
func (s *splitter) end() int {
	for i := s.at; i < len(s.buf); i++ {
		n, known := s.endsAt(i)
		if !known {
			s.at = i
			break
		}
		if n > maxPhrase {
			break
		}
		if n > 0 && sayable(s.buf[:n]) {
			return n
		}
		s.at = i + 1
	}
	if len(s.buf) <= maxPhrase {
		return 0
	}
	if n := s.forced(); sayable(s.buf[:n]) {
		return n
	}
	s.buf, s.at = append([]rune(nil), s.buf[maxPhrase:]...), 0 // rows of dashes, white space: nobody says them
	return s.end()
}

// endsAt tells whether a phrase ends with the rune at i, and where the next begins; not known: more text must come first.
func (s *splitter) endsAt(i int) (next int, known bool) {
	r := s.buf[i]
	switch {
	case r == '\n':
		return i + 1, true
	case strings.ContainsRune("。！？｡…", r) && r != '…', r == '．':
		return s.afterClosers(i + 1), true
	case !s.later && i >= firstClause && strings.ContainsRune(",;:—、，；：", r):
		return s.beforeNext(i+1, unicode.Is(unicode.Han, s.prev(i)) || r > 0x3000)
	case r != '.' && r != '!' && r != '?' && r != '…':
		return 0, true
	}
	j := i + 1
	for j < len(s.buf) && strings.ContainsRune(".!?…", s.buf[j]) {
		j++
	}
	if j > i+1 && j < len(s.buf) {
		return 0, true // the last of the marks decides
	}
	if r == '.' && s.abbreviated(i) {
		return 0, true
	}
	return s.beforeNext(s.afterClosers(j), false)
}

// beforeNext: the phrase ends at i when white space follows, which then belongs to it.
func (s *splitter) beforeNext(i int, closeUp bool) (next int, known bool) {
	if i >= len(s.buf) {
		return i, closeUp
	}
	if !unicode.IsSpace(s.buf[i]) {
		if closeUp {
			return i, true
		}
		return 0, true
	}
	for i < len(s.buf) && unicode.IsSpace(s.buf[i]) {
		i++
	}
	return i, true
}

func (s *splitter) afterClosers(i int) int {
	for i < len(s.buf) && strings.ContainsRune(`"')]}”’»」』）*_`, s.buf[i]) {
		i++
	}
	return i
}

func (s *splitter) prev(i int) rune {
	if i == 0 {
		return ' '
	}
	return s.buf[i-1]
}

// shortForms are written with a full stop that ends no sentence; lower case.
const shortForms = " mr mrs ms dr prof sr jr st vs etc eg ie e.g i.e a.m p.m approx fig vol dept inc ltd co corp jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun ave blvd bzw ca z.b d.h u.a usw nr str hr fr mme mlle "

// abbreviated tells whether the full stop at i belongs to a short form, an initial or an ordinal number.
func (s *splitter) abbreviated(i int) bool {
	start := i
	for start > 0 && !unicode.IsSpace(s.buf[start-1]) && !strings.ContainsRune(`("'[“„`, s.buf[start-1]) {
		start--
	}
	word := s.buf[start:i]
	switch {
	case len(word) == 0:
		return false
	case len(word) == 1 && unicode.IsUpper(word[0]) && word[0] != 'I': // J. R. R. Tolkien
		return true
	case len(word) <= 2 && allDigits(word) && s.opens(start): // "1. First", a list
		return true
	}
	return strings.Contains(shortForms, " "+strings.ToLower(string(word))+" ")
}

// opens tells whether a line, or the phrase, begins at i.
func (s *splitter) opens(i int) bool { return i == 0 || s.buf[i-1] == '\n' }

// forced cuts a phrase that is too long at the best place within the bound.
func (s *splitter) forced() int {
	for _, marks := range []string{",;:—、，；：", " \t"} {
		for i := maxPhrase - 1; i > maxPhrase/3; i-- {
			if strings.ContainsRune(marks, s.buf[i]) && (i+1 == len(s.buf) || marks != ",;:—、，；：" || unicode.IsSpace(s.buf[i+1]) || s.buf[i] > 0x3000) {
				n := i + 1
				for n < len(s.buf) && unicode.IsSpace(s.buf[n]) {
					n++
				}
				return n
			}
		}
	}
	return maxPhrase
}

func allDigits(word []rune) bool {
	for _, r := range word {
		if !unicode.IsDigit(r) {
			return false
		}
	}
	return true
}

func sayable(text []rune) bool {
	for _, r := range text {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return true
		}
	}
	return false
}

// unmarked takes the marks out of a phrase that are for eyes: emphasis, headings, bullets, code ticks, emoji.
var marks = strings.NewReplacer("**", "", "__", "", "`", "", "###", "", "##", "")

func unmarked(phrase string) string {
	text := strings.TrimSpace(marks.Replace(phrase))
	for _, bullet := range []string{"- ", "* ", "• ", "# ", "> "} {
		text = strings.TrimPrefix(text, bullet)
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '*', unicode.Is(unicode.So, r), r == 0xFE0F, r == 0x200D, r >= 0x1F3FB && r <= 0x1F3FF:
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}
