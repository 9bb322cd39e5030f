package tokens

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/dlclark/regexp2"
	"github.com/pkoukk/tiktoken-go-loader/assets"
)

// vocabulary counts by byte pair encoding. It is immutable and safe for concurrent use.
type vocabulary struct {
	ranks map[string]uint32
	split *regexp2.Regexp
}

// Encodings of OpenAI's models; the expressions that split a text into pieces before pairs are merged are part of them.
const (
	o200k  = "o200k_base"
	cl100k = "cl100k_base"

	splitO200k = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	splitCl100k = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` +
		`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// loadVocabulary reads an embedded vocabulary; it takes about 0.1 s and 15 MB for o200k_base, so it is done once per Counter.
func loadVocabulary(encoding string) (*vocabulary, error) {
	pattern := splitO200k
	if encoding == cl100k {
		pattern = splitCl100k
	}
	split, err := regexp2.Compile(pattern, regexp2.None)
	if err != nil {
		return nil, fmt.Errorf("the expression of %s: %w", encoding, err)
	}
	data, err := assets.Assets.ReadFile(encoding + ".tiktoken")
	if err != nil {
		return nil, fmt.Errorf("the vocabulary %s: %w", encoding, err)
	}
	v := &vocabulary{ranks: make(map[string]uint32, bytes.Count(data, []byte("\n"))), split: split}
	token := make([]byte, 0, 256)
	for line := range bytes.Lines(data) {
		b64, rank, ok := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(" "))
		if !ok {
			continue
		}
		token, err = base64.StdEncoding.AppendDecode(token[:0], b64)
		if err != nil {
			return nil, fmt.Errorf("the vocabulary %s: %w", encoding, err)
		}
		n, err := strconv.ParseUint(string(rank), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the vocabulary %s: %w", encoding, err)
		}
		v.ranks[string(token)] = uint32(n)
	}
	return v, nil
}

// count is how many tokens the text has when nothing in it is taken for a special token.
func (v *vocabulary) count(text string) int {
	n := 0
	m, err := v.split.FindStringMatch(text)
	for ; m != nil && err == nil; m, err = v.split.FindNextMatch(m) {
		n += v.merge(m.String())
	}
	return n
}

// merge counts the tokens of one piece: the pair of lowest rank is merged until no pair is a token. With a heap, because a
// piece may be as long as the text, which a scan for each merge would make quadratic.
func (v *vocabulary) merge(piece string) int {
	if _, whole := v.ranks[piece]; whole || len(piece) < 2 {
		return 1
	}
	// The pieces are a list of starts; next[i] is the start after i, prev[i] the one before, −1 where i is no start any more.
	next, prev := make([]int, len(piece)+1), make([]int, len(piece)+1)
	for i := range next {
		next[i], prev[i] = i+1, i-1
	}
	var heap pairHeap
	push := func(i int) {
		if i < 0 || next[i] >= len(piece) {
			return
		}
		end := next[next[i]]
		if rank, ok := v.ranks[piece[i:end]]; ok {
			heap.push(pair{rank, i, end})
		}
	}
	for i := range len(piece) {
		push(i)
	}
	count := len(piece)
	for len(heap) > 0 {
		p := heap.pop()
		if prev[p.start] == gone || next[p.start] >= len(piece) || next[next[p.start]] != p.end {
			continue // one of its halves was merged with another since
		}
		mid := next[p.start]
		next[p.start] = p.end
		prev[p.end] = p.start
		prev[mid] = gone
		count--
		push(p.start)
		push(prev[p.start])
	}
	return count
}

const gone = -2

// pair are two neighbouring tokens that would make one: piece[start:end].
type pair struct {
	rank       uint32
	start, end int
}

func (p pair) before(q pair) bool { return p.rank < q.rank || p.rank == q.rank && p.start < q.start }

// pairHeap gives the pair of lowest rank, of equal ones the leftmost.
type pairHeap []pair

func (h *pairHeap) push(p pair) {
	*h = append(*h, p)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			return
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *pairHeap) pop() pair {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < len(s) && s[child].before(s[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
