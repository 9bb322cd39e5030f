package local

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"sightline/switcher/cascade"
)

// Bounds of a Reader.
const (
	MaxImage = 8 << 20 // bytes of a JPEG
	MaxRead  = 2000    // bytes of the text that is given back

	readTimeout = 10 * time.Second // an image of 640×480 takes about 0.25 s
	mostTable   = 4 << 20          // bytes of tesseract's answer
	leastSure   = 60               // percent, of a word that counts: textures are read as words of less
)

// ReaderConfig of tesseract.
type ReaderConfig struct {
	Program  string // "" = tesseract
	Language string // "" = eng
	Most     int    // images at once, two processes each, 0 = 2; more wait
}

// Reader reads text in images with tesseract.
type Reader struct {
	cfg   ReaderConfig
	slots chan struct{}
}

// NewReader makes a Reader; nothing is started.
func NewReader(cfg ReaderConfig) *Reader {
	set(&cfg.Program, "tesseract")
	set(&cfg.Language, "eng")
	set(&cfg.Most, 2)
	return &Reader{cfg, make(chan struct{}, max(cfg.Most, 1))}
}

// Read gives the text of a JPEG or PNG, line by line; "" when there is none that can be read. Errors are *cascade.EngineError
// or that of ctx.
func (r *Reader) Read(ctx context.Context, image []byte) (string, error) {
	if !bytes.HasPrefix(image, []byte("\xff\xd8\xff")) && !bytes.HasPrefix(image, []byte("\x89PNG")) {
		return "", &cascade.EngineError{Code: "invalid", Message: "the image is neither a JPEG nor a PNG"}
	}
	if len(image) > MaxImage {
		return "", &cascade.EngineError{Code: "invalid", Message: "the image has more than 8 MiB"}
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	// One way to part black from white reads dark text, the other what is light on dark or unevenly lit; most images need one.
	var tables [2][]byte
	var errs [2]error
	var both sync.WaitGroup
	for i, method := range []string{"0", "1"} {
		both.Go(func() {
			// --psm 3 finds the text by itself; the modes for sparse text see words in textures. A camera says nothing of its dots
			// per inch; 300 suits letters of a sign better than the guess.
			tables[i], errs[i] = run(ctx, readTimeout, mostTable, image, r.cfg.Program, "stdin", "stdout", "-l", r.cfg.Language,
				"--psm", "3", "--dpi", "300", "-c", "thresholding_method="+method, "tsv")
		})
	}
	both.Wait()
	if err := cmp.Or(errs[0], errs[1]); err != nil {
		return "", err
	}
	return merge(readTable(string(tables[0])), readTable(string(tables[1]))), nil
}

// merge adds the lines of b that have a word which a has not.
func merge(a, b string) string {
	known := strings.Fields(strings.ToLower(a))
	lines := strings.Split(a, "\n")
	for line := range strings.SplitSeq(b, "\n") {
		if slices.ContainsFunc(strings.Fields(strings.ToLower(line)), func(w string) bool { return !slices.Contains(known, w) }) && len(a)+len(line) < MaxRead {
			lines = append(lines, line)
		}
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// readTable takes the words that tesseract is sure of out of its table: level, page, block, paragraph, line, word, left, top,
// width, height, confidence, text.
func readTable(table string) string {
	var b strings.Builder
	var line string
	for row := range strings.Lines(table) {
		f := strings.Split(strings.TrimRight(row, "\r\n"), "\t")
		if len(f) != 12 || f[0] != "5" {
			continue
		}
		sure, err := strconv.ParseFloat(f[10], 64)
		word := strings.TrimSpace(f[11])
		if err != nil || sure < leastSure || !strings.ContainsFunc(word, isAlnum) || b.Len()+len(word) >= MaxRead {
			continue
		}
		switch at := strings.Join(f[1:5], " "); {
		case b.Len() == 0:
			line = at
		case at == line:
			b.WriteByte(' ')
		default:
			line = at
			b.WriteByte('\n')
		}
		b.WriteString(word)
	}
	return strings.ToValidUTF8(b.String(), "")
}

func isAlnum(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
