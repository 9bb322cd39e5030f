package whip

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"sightline/gateway/problem"
)

// action is what a PATCH asks for.
type action int

const (
	trickle action = iota
	restart
)

// patch trickles candidates or restarts ICE.
func (h *Handler) patch(w http.ResponseWriter, r *http.Request, res *resource) {
	frag, err := readBody(w, r, mediaFragment, "fragment", maxFragmentBytes)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	select {
	case res.turn <- struct{}{}:
		defer func() { <-res.turn }()
	case <-r.Context().Done():
		h.fail(w, r, problem.New(problem.Internal, "the request ended before its turn").WithCause(r.Context().Err()))
		return
	}
	current := res.pub.RemoteUfrag()
	ufrag := fragmentUfrag(frag)
	do, err := decide(r.Header.Values("If-Match"), res.etag, ufrag == "" || ufrag == current, h.cfg.Strict)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if do == trickle {
		if err := res.pub.Trickle(r.Context(), frag); err != nil {
			h.fail(w, r, err)
			return
		}
		w.WriteHeader(http.StatusNoContent) // without an ETag (RFC 9725 §4.3.2)
		return
	}
	answer, err := res.pub.Restart(r.Context(), frag)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	res.etag = newTag()
	w.Header().Set("ETag", res.etag)
	w.Header().Set("Content-Type", mediaFragment)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, answer) // a client that is gone restarts again or vanishes
}

// decide is the table of the package comment; pure. same: the fragment belongs to the ICE generation in force.
func decide(ifMatch []string, etag string, same, strict bool) (action, error) {
	tags := splitTags(ifMatch)
	if len(tags) == 0 {
		if strict {
			return 0, problem.New(problem.PreconditionRequired, "If-Match is needed: the ETag of this ICE session to trickle, * to restart ICE")
		}
		if !same {
			return 0, problem.New(problem.PreconditionRequired, "the fragment has a new ice-ufrag; an ICE restart needs If-Match: *")
		}
		return trickle, nil
	}
	for _, tag := range tags {
		switch {
		case tag == "*" || tag == `"*"`: // the quoted form stands in RFC 9725's example
			if same && strict {
				return 0, problem.New(problem.InvalidArgument, "If-Match: * restarts ICE, which needs a new ice-ufrag; to trickle, send the ETag").WithField("ice-ufrag")
			}
			if same {
				return trickle, nil
			}
			return restart, nil
		case tag == etag:
			if same {
				return trickle, nil
			}
			// Not a restart even when lenient: it may be a candidate of the next generation, sent ahead of the restart,
			// by a client that would not look at our answer.
			return 0, problem.New(problem.PreconditionFailed, "the fragment has a new ice-ufrag, but the ETag is of the generation in force; an ICE restart needs If-Match: *")
		}
	}
	return 0, problem.New(problem.PreconditionFailed, "If-Match names another ICE session than the one in force; it has been restarted since")
}

// splitTags reads a list of entity tags (RFC 9110 §13.1.1); tags of ours have no comma in them.
func splitTags(values []string) []string {
	var tags []string
	for _, v := range values {
		for tag := range strings.SplitSeq(v, ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				tags = append(tags, tag)
			}
		}
	}
	return tags
}

// fragmentUfrag finds the first a=ice-ufrag; empty: none. Whether the rest is right is Publication's business.
func fragmentUfrag(frag string) string {
	for line := range strings.Lines(frag) {
		if v, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "a=ice-ufrag:"); ok {
			return v
		}
	}
	return ""
}

// readBody wants a body of one media type and bounded length.
func readBody(w http.ResponseWriter, r *http.Request, media, what string, limit int64) (string, error) {
	got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || got != media {
		return "", problem.New(problem.UnsupportedMediaType, "the Content-Type of %s must be %s", article(what), media).WithField("Content-Type")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return "", problem.New(problem.TooLarge, "the %s is longer than %d bytes", what, limit)
	case err != nil:
		return "", problem.New(problem.InvalidArgument, "the %s could not be read to its end", what).WithCause(fmt.Errorf("read body: %w", err))
	case len(body) == 0:
		return "", problem.New(problem.InvalidArgument, "the %s is empty", what)
	}
	return string(body), nil
}

func article(what string) string {
	if what == "offer" {
		return "an offer"
	}
	return "a " + what
}
