package rtc

import (
	"strings"

	"sightline/gateway/problem"
)

// The bounds of what is read from outside before anything else looks at it.
const (
	maxOfferBytes    = 64 << 10
	maxFragBytes     = 16 << 10
	maxLineBytes     = 2048
	maxSections      = 8
	maxCandidates    = 32 // per section of an offer, per fragment; the rest is left out
	maxOfferSSRCs    = 64
	maxRIDs          = 8
	maxTrickledTotal = 128 // candidates per ICE generation
)

// sdpLines splits SDP-like text into its lines after checking every bound. Empty lines and line types that SDP does
// not have are left out; a line that is not of the form "letter=" is an error.
func sdpLines(what, text string, maxBytes int) ([]string, error) {
	if len(text) > maxBytes {
		return nil, problem.New(problem.TooLarge, "the %s has %d bytes; at most %d are allowed", what, len(text), maxBytes)
	}
	var lines []string
	sections, number := 0, 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		if len(line) > maxLineBytes {
			return nil, problem.New(problem.TooLarge, "line %d of the %s has %d bytes; at most %d are allowed", number, what, len(line), maxLineBytes)
		}
		if len(line) < 2 || line[1] != '=' || line[0] < 'a' || line[0] > 'z' || strings.ContainsAny(line, "\x00\r") {
			return nil, problem.New(problem.InvalidArgument, "line %d of the %s is not SDP: it must begin with a letter and \"=\" (RFC 8866)", number, what)
		}
		if line[0] == 'm' {
			sections++
		}
		if strings.IndexByte("vosiuepcbtrzkam", line[0]) >= 0 {
			lines = append(lines, line)
		}
	}
	if sections > maxSections {
		return nil, problem.New(problem.TooLarge, "the %s has %d m-lines; at most %d are allowed", what, sections, maxSections)
	}
	return lines, nil
}

// Bounds of ICE credentials (RFC 8839 §5.4).
func validICE(what, ufrag, pwd string) error {
	if n := len(ufrag); n < 4 || n > 256 || strings.ContainsAny(ufrag, " \t") {
		return problem.New(problem.InvalidArgument, "a=ice-ufrag of the %s has %d characters; 4 to 256 without blanks are allowed", what, n).WithField("ice-ufrag")
	}
	if n := len(pwd); n < 22 || n > 256 || strings.ContainsAny(pwd, " \t") {
		return problem.New(problem.InvalidArgument, "a=ice-pwd of the %s has %d characters; 22 to 256 without blanks are allowed", what, n).WithField("ice-pwd")
	}
	return nil
}
