package rules

import (
	"slices"
	"strings"
)

// Phrases are sentences that are understood for certain; a recogniser can be held to them. "{digits}" stands for digits said
// one by one, "{name}" for a first name.
func Phrases() []string { return slices.Clone(sentences) }

var sentences = []string{
	"hello", "help", "thank you", "goodbye",
	"what do you see", "how bright is it", "how old is the picture", "what size is the picture",
	"how many messages are there", "how many pictures are there", "what did i say", "what did you say", "repeat my last message",
	"what time is it", "what day is it",
	"my order number is {digits}", "the order number is {digits}", "order number {digits}", "{digits}",
	"what was my order number", "what is my order number",
	"my name is {name}", "what is my name",
	"look up my order", "where is my order", "check my order", "look up order {digits}",
	"what does the sign say", "read the sign", "read the text", "look up my order and read the sign",
	"switch to real time", "switch to the realtime pipeline", "switch to cascade", "switch to the cascade pipeline",
}

// split makes lower-case words of a text, without marks.
func split(text string) []string { return strings.FieldsFunc(strings.ToLower(text), notWord) }

// has tells whether a phrase occurs, whole words only.
func has(words []string, phrases ...string) bool {
	said := " " + strings.Join(words, " ") + " "
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(said, " "+p+" ") })
}

// farthest is how much of a sentence may be misheard. "hello old as the picture" is 0.29 from "how old is the picture".
const farthest = 0.3

// nearest is the sentence that was most likely said.
func nearest(words []string) (string, bool) {
	best, least := "", farthest
	for _, s := range sentences {
		if strings.Contains(s, "{") || !strings.Contains(s, " ") {
			continue // what is open or short comes near to everything
		}
		if d := distance(words, strings.Fields(s)); d <= least && (best == "" || d < least) {
			best, least = s, d
		}
	}
	return best, best != ""
}

// distance is the number of words to change, a similar word counting less, in parts of the longer text.
func distance(a, b []string) float64 {
	longer := max(len(a), len(b))
	if longer == 0 || longer > 16 {
		return 1
	}
	row := make([]float64, len(b)+1)
	for j := range row {
		row[j] = float64(j)
	}
	for i, x := range a {
		before := row[0]
		row[0] = float64(i + 1)
		for j, y := range b {
			cost := before + unlike(x, y)
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)] / float64(longer)
}

// unlike is 0 for the same word and 1 for one that shares less than half of its letters.
func unlike(a, b string) float64 {
	if a == b {
		return 0
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	if d := float64(row[len(b)]) / float64(max(len(a), len(b))); d < 0.5 {
		return d
	}
	return 1
}
