package recorder

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	chatctx "sightline/context"
)

// MaxText bounds one text in bytes: what a log takes in one item is a multiple of it.
const MaxText = 64 << 10

// runesPerSecond is how fast speech is taken to be when no length of sound is known.
const runesPerSecond = 15

// heardPart is the beginning of text that heard of audio covers, cut at the end of a word; a word that was begun is left out.
func heardPart(text string, heard, audio time.Duration) string {
	n := utf8.RuneCountInString(text)
	said := int(heard.Seconds() * runesPerSecond)
	if audio > 0 {
		said = int(float64(n) * float64(heard) / float64(audio))
	}
	if said >= n {
		return text
	}
	if said <= 0 {
		return ""
	}
	runes := []rune(text)
	cut := said
	if inWord(runes[said-1]) && inWord(runes[said]) && !unspaced(runes[said]) {
		for cut > 0 && inWord(runes[cut-1]) {
			cut--
		}
	}
	return strings.TrimRightFunc(string(runes[:cut]), unicode.IsSpace)
}

func inWord(r rune) bool { return !unicode.IsSpace(r) }

// unspaced reports whether a rune belongs to a script that has no spaces between words: there each one may be cut after.
func unspaced(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// clean makes a text that a log takes: valid UTF-8 of at most MaxText bytes.
func clean(s string) (text string, cut bool) {
	if len(s) > MaxText {
		s, cut = s[:MaxText], true
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) { // not within a rune
			s = s[:len(s)-1]
		}
		s = strings.TrimSuffix(s, s[max(0, len(s)-1):])
	}
	return strings.ToValidUTF8(s, "\uFFFD"), cut
}

func blank(s string) bool {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) == ""
}

// key names a thing in op_ids: what kind it is, the epoch and the provider's id.
type key struct {
	class string // u: the caller's speech, a: the assistant's, c: a call, o: an output
	epoch uint64
	item  string // at most maxKeyItem bytes
}

const (
	opPrefix   = "rec:"
	maxKeyItem = 80 // so that an op_id stays within 128 bytes
)

// Stages of a thing in the log; they stand in the op_ids, so that a restart knows how far it was.
const (
	stageWhole = ""  // appended as it stays
	stagePart  = "p" // appended before it was final
	stageFill  = "f" // the final text
	stageGone  = "x" // taken back
)

func (k key) opID(stage string) string {
	return opPrefix + k.class + stage + ":" + strconv.FormatUint(k.epoch, 10) + ":" + k.item
}

func parseOpID(id string) (k key, stage string, ok bool) {
	rest, ok := strings.CutPrefix(id, opPrefix)
	if !ok {
		return key{}, "", false
	}
	part := strings.SplitN(rest, ":", 3)
	if len(part) != 3 || part[0] == "" {
		return key{}, "", false
	}
	k = key{class: part[0][:1], item: part[2]}
	epoch, err := strconv.ParseUint(part[1], 10, 64)
	k.epoch, stage = epoch, part[0][1:]
	return k, stage, err == nil && k.opID(stage) == id
}

// short makes a provider's id fit into an op_id.
func short(id string) string {
	if len(id) <= maxKeyItem && utf8.ValidString(id) {
		return id
	}
	return "sha-" + hash(id)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// itemID is the id of a thing's item: the provider's where that is possible, so that both sides can name it.
func (c *Core) itemID(k key) string {
	for _, id := range []string{k.item, fmt.Sprintf("%s-%d", k.item, k.epoch)} {
		if k.class == "c" || k.class == "o" {
			id = k.class + "-" + id
		}
		if chatctx.ValidID(id) && !c.used[id] {
			return id
		}
	}
	return "r-" + hash(k.opID(""))
}

const anonymous = "#"

// anon is the key's item of something that came without an id.
func anon(n uint64) string { return fmt.Sprintf("%s%09d", anonymous, n) }

// anonNumber reads it back.
func anonNumber(item string) (uint64, bool) {
	digits, ok := strings.CutPrefix(item, anonymous)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}
