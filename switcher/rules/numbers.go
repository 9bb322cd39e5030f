package rules

import "strings"

// digit has the words that are digits, for certain.
var digit = map[string]string{"zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
	"ten": "10", "eleven": "11", "twelve": "12", "thirteen": "13", "fourteen": "14", "fifteen": "15", "sixteen": "16", "seventeen": "17", "eighteen": "18", "nineteen": "19"}

var tens = map[string]string{"twenty": "2", "thirty": "3", "forty": "4", "fifty": "5", "sixty": "6", "seventy": "7", "eighty": "8", "ninety": "9"}

// soundsLike has what a recogniser writes for digits; it is one only between digits.
var soundsLike = map[string]string{"oh": "0", "o": "0", "won": "1", "to": "2", "too": "2", "tu": "2", "tree": "3", "for": "4", "fore": "4", "sex": "6", "ate": "8", "niner": "9", "and": "", "dash": "", "a": ""}

// longestNumber is the longest run of digits that is said or written, and how many other words there are.
func longestNumber(words []string) (number string, rest int) {
	rest = len(words)
	for i := 0; i < len(words); {
		run, used := numberAt(words, i)
		if used == 0 {
			i++
			continue
		}
		if len(run) > len(number) {
			number, rest = run, len(words)-used
		}
		i += used
	}
	return number, rest
}

// numberAt reads digits from a word on, and says how many words they took.
func numberAt(words []string, i int) (number string, used int) {
	start := i
	for i < len(words) {
		w := words[i]
		switch next := at(words, i+1); {
		case certain(w) != "":
			number += certain(w)
			i++
		case tens[w] != "":
			if d := digit[next]; len(d) == 1 && d != "0" {
				number += tens[w] + d
				i += 2
			} else {
				number += tens[w] + "0"
				i++
			}
		case (w == "double" || w == "triple") && len(digit[next]) == 1:
			number += strings.Repeat(digit[next], map[string]int{"double": 2, "triple": 3}[w])
			i += 2
		case i > start && likely(w) && (certain(next) != "" || tens[next] != "" || likely(next) && certain(at(words, i+2)) != ""):
			number += soundsLike[w]
			i++
		default:
			return number, i - start
		}
	}
	return number, i - start
}

func likely(w string) bool { _, ok := soundsLike[w]; return ok }

// certain gives the digits of a word that is a number by itself.
func certain(w string) string {
	if d := digit[w]; d != "" {
		return d
	}
	if w != "" && strings.Trim(w, "0123456789") == "" {
		return w
	}
	return ""
}

func digitsOf(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, text)
}

// spoken writes digits so that they are said one by one.
func spoken(number string) string { return strings.Join(strings.Split(number, ""), " ") }
