package local

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

const (
	modelFolder = "/usr/share/pocketsphinx/model/en-us"
	// mostGrammar bytes: it is given to the recogniser through a pipe, whose buffer holds 64 KiB.
	mostGrammar = 48 << 10

	digitWords = "zero | oh | one | two | three | four | five | six | seven | eight | nine"
	firstNames = "alice | anna | ben | carol | daniel | david | emma | frank | george | helen | james | jane | john | julia | " +
		"kate | laura | linda | lisa | maria | mark | martin | mary | michael | nina | oliver | paul | peter | robert | sarah | " +
		"susan | thomas | tom | victoria | william"
)

// grammar writes phrases as JSGF. Every word must be in the dictionary of the model: the recogniser refuses the whole grammar
// for one that is not.
func grammar(phrases []string, model string) (string, error) {
	var rules []string
	needed := map[string]bool{}
	for _, phrase := range phrases {
		fields := strings.Fields(strings.ToLower(phrase))
		if len(fields) == 0 {
			continue
		}
		for i, w := range fields {
			switch {
			case w == "{digits}":
				fields[i] = "<digit>+"
			case w == "{name}":
				fields[i] = "<name>"
			case strings.Trim(w, "abcdefghijklmnopqrstuvwxyz'-") != "":
				return "", fmt.Errorf("phrase %q: %q is not a word; allowed are letters, {digits} and {name}", phrase, w)
			default:
				needed[w] = true
			}
		}
		if rule := strings.Join(fields, " "); !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	if len(rules) == 0 {
		return "", errors.New("no phrase has a word")
	}
	if err := inDictionary(needed, model+"/cmudict-en-us.dict"); err != nil {
		return "", err
	}
	text := "#JSGF V1.0;\ngrammar sightline;\n<digit> = " + digitWords + ";\n<name> = " + firstNames + ";\npublic <said> = " +
		strings.Join(rules, " | ") + ";\n"
	if len(text) > mostGrammar {
		return "", fmt.Errorf("phrases of %d bytes; at most %d", len(text), mostGrammar)
	}
	return text, nil
}

func inDictionary(needed map[string]bool, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() && len(needed) > 0 {
		word, _, _ := strings.Cut(lines.Text(), " ")
		delete(needed, word)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	for word := range needed {
		return fmt.Errorf("the word %q is not in the dictionary %s", word, name)
	}
	return nil
}
