package main

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// finder finds one kind of value.
type finder struct {
	kind  string
	re    *regexp.Regexp // Go's matcher takes time in proportion to the text, whatever the text
	group int            // the part that is taken out
	hint  string         // one of these bytes is in every match, "" = none
	words []string       // one of these is in every match, in lower case; nil = none. Looking for them takes a tenth of the matcher's time
	is    func(s string, start, end int) bool
}

const digits = "0123456789"

// secretKey are names whose value is nobody's business.
const secretKey = `(?:api[_-]?key|access[_-]?key|secret|(?:access|refresh|auth|id|bearer)[_-]?token|token|passw(?:or)?d|passphrase|pwd|authorization|client[_-]?secret|private[_-]?key)`

// keyWords begin the keys of well-known services.
var keyWords = []string{"sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp_", "gho_", "ghu_", "ghr_", "ghs_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "hf_", "npm_", "ya29."}

// scheme stands before the secret of an Authorization header.
var scheme = regexp.MustCompile(`(?i)^(?:bearer|basic|token)$`)

// finders in the order of their use: what one has taken out the next does not see.
func finders(names string) []finder {
	list := []finder{
		{kind: "secret", re: regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`), hint: "-"},
		{kind: "secret", re: regexp.MustCompile(`\b(?:sk|pk|rk)[-_](?:ant-|proj-|live_|test_)?[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}|\bxox[abeprs]-[A-Za-z0-9-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{35}|\bhf_[A-Za-z0-9]{20,}|\bnpm_[A-Za-z0-9]{30,}|\bya29\.[A-Za-z0-9_-]{20,}`), words: keyWords},
		{kind: "secret", re: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*`), hint: "."},
		{kind: "secret", re: regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{12,})`), group: 1, words: []string{"bearer", "basic"}},
		{kind: "secret", re: regexp.MustCompile(`(?i)\b` + secretKey + `["']?\s*(?:[:=]|\bis\b)\s*["']?([^\s"',;\[\]{}]{4,})`), group: 1, words: []string{"key", "secret", "token", "pass", "pwd", "authorization"},
			is: func(s string, start, end int) bool { return !scheme.MatchString(s[start:end]) }},
		{kind: "secret", re: regexp.MustCompile(`://[^\s/:@]*:([^\s/@]+)@`), group: 1, hint: "@"},
		{kind: "email", re: regexp.MustCompile(`[\pL\pN._%+'-]+@[\pL\pN](?:[\pL\pN-]*[\pL\pN])?(?:\.[\pL\pN](?:[\pL\pN-]*[\pL\pN])?)*\.\pL{2,}`), hint: "@"},
		{kind: "iban", re: regexp.MustCompile(`\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b`), hint: digits, is: func(s string, i, k int) bool { return isIBAN(s[i:k]) }},
		{kind: "card", re: regexp.MustCompile(`[0-9](?:[ -]?[0-9]){12,18}`), hint: digits, is: isCard},
		{kind: "ip", re: regexp.MustCompile(`[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:(?:\.[0-9]{1,3}){3})?`), hint: ":", is: isAddress},
		{kind: "ip", re: regexp.MustCompile(`[0-9]{1,3}(?:\.[0-9]{1,3}){3}`), hint: ".", is: isAddress},
		{kind: "phone", re: regexp.MustCompile(`(?:\+|\b00|\(|\b)[0-9][0-9 ()./\x{00A0}-]{5,22}[0-9]`), hint: digits, is: isPhone},
	}
	var quoted []string
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); name != "" {
			quoted = append(quoted, strings.ReplaceAll(regexp.QuoteMeta(name), " ", `\s+`))
		}
	}
	if len(quoted) > 0 {
		list = append(list, finder{kind: "name", re: regexp.MustCompile(`(?i)(?:` + strings.Join(quoted, "|") + `)`), is: wholeWord})
	}
	return list
}

// mayFind is false when s has nothing of what every match has.
func (f finder) mayFind(s string) bool {
	if f.hint != "" && !strings.ContainsAny(s, f.hint) {
		return false
	}
	if f.words == nil {
		return true
	}
	lower := strings.ToLower(s)
	return slices.ContainsFunc(f.words, func(w string) bool { return strings.Contains(lower, w) })
}

// wholeWord: no letter or digit touches it, of whatever script.
func wholeWord(s string, start, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:start])
	after, _ := utf8.DecodeRuneInString(s[end:])
	letter := func(r rune) bool {
		return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
	}
	return !letter(before) && !letter(after)
}

// loneDigits: no digit, and no point or dash with a digit behind it, touches it: it is not the middle of something longer.
func loneDigits(s string, start, end int) bool {
	if start > 0 && isDigit(s[start-1]) || end < len(s) && isDigit(s[end]) {
		return false
	}
	return start < 2 || s[start-1] != '.' || !isDigit(s[start-2])
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func onlyDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, s)
}

// isCard: 13 to 19 digits whose check digit is right (ISO/IEC 7812), and not all the same.
func isCard(s string, start, end int) bool {
	d := onlyDigits(s[start:end])
	if !loneDigits(s, start, end) || len(d) < 13 || len(d) > 19 || strings.Count(d, d[:1]) == len(d) {
		return false
	}
	sum := 0
	for i := range len(d) {
		n := int(d[len(d)-1-i] - '0')
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// isIBAN checks the remainder of ISO 13616.
func isIBAN(s string) bool {
	s = strings.ReplaceAll(s, " ", "")
	if len(s) < 15 || len(s) > 34 {
		return false
	}
	rest := 0
	for _, c := range []byte(s[4:] + s[:4]) {
		if isDigit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest == 1
}

func isAddress(s string, start, end int) bool {
	if !wholeWord(s, start, end) || !loneDigits(s, start, end) || end < len(s)-1 && s[end] == '.' && isDigit(s[end+1]) || !strings.ContainsAny(s[start:end], digits) {
		return false
	}
	_, err := netip.ParseAddr(s[start:end])
	return err == nil
}

// date is what looks like a telephone number and is a day or a time.
var date = regexp.MustCompile(`^(?:[12][0-9]{3}[-/. ][0-1]?[0-9][-/. ][0-3]?[0-9]|[0-3]?[0-9][-/. ][0-3]?[0-9][-/. ][12][0-9]{3})\b`)

// isPhone: with + or 00 before it, 7 to 15 digits; else 9 to 15 digits in groups, or 9 to 13 that begin with 0. A bare number
// without either is an amount, an order or a time far more often.
func isPhone(s string, start, end int) bool {
	v := s[start:end]
	d := onlyDigits(v)
	if !wholeWord(s, start, end) || !loneDigits(s, start, end) || date.MatchString(v) || strings.Count(d, d[:1]) == len(d) {
		return false
	}
	switch {
	case v[0] == '+' || strings.HasPrefix(v, "00"):
		return len(d) >= 7 && len(d) <= 17
	case strings.ContainsAny(v, " ()-/."):
		groups := strings.FieldsFunc(v, func(r rune) bool { return r < '0' || r > '9' })
		return len(d) >= 9 && len(d) <= 15 && len(groups) >= 2 && len(groups) <= 6 && !strings.Contains(v, "  ")
	}
	return d[0] == '0' && len(d) >= 9 && len(d) <= 13
}

var secretName = regexp.MustCompile(`(?i)^` + secretKey + `$`)

// json redacts the strings and numbers of a JSON object or list, and keeps the rest byte for byte. ok is false when s is none.
func (r *redactor) json(s string) (out string, ok bool) {
	trimmed := strings.TrimSpace(s)
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' || !json.Valid([]byte(s)) {
		return "", false
	}
	var b strings.Builder
	b.Grow(len(s))
	secret := false // the value that comes is nobody's business
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			end := stringEnd(s, i)
			var text string
			if err := json.Unmarshal([]byte(s[i:end]), &text); err != nil {
				return "", false
			}
			key := strings.HasPrefix(strings.TrimLeft(s[end:], " \t\r\n"), ":")
			clean := text
			switch {
			case key:
				secret = secretName.MatchString(text)
			case secret && text != "":
				clean, secret = r.stub("secret", text), false
			default:
				clean = r.text(text)
			}
			if clean == text {
				b.WriteString(s[i:end])
			} else {
				b.Write(quoteJSON(clean))
			}
			i = end
		case isDigit(c) || c == '-':
			end := i + 1
			for end < len(s) && strings.IndexByte("0123456789.eE+-", s[end]) >= 0 {
				end++
			}
			number := s[i:end]
			if clean := r.plain(number); clean != number {
				b.Write(quoteJSON(clean))
			} else {
				b.WriteString(number)
			}
			i, secret = end, false
		default:
			if c == '{' || c == '[' {
				secret = false
			}
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), true
}

// stringEnd is the position behind the JSON string that begins at i.
func stringEnd(s string, i int) int {
	for i++; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(s))
}

func quoteJSON(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always has JSON
	return bytes.TrimRight(b.Bytes(), "\n")
}
