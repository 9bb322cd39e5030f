package gateway

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	chatctx "sightline/context"
	"sightline/frames"
	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// appendContext takes context.append (also by default) and the other operations of the socket.
func (s *Server) appendContext(w http.ResponseWriter, r *http.Request) {
	ack, opID, err := s.append(w, r)
	if err != nil {
		problem.Write(w, err)
		return
	}
	writeJSON(w, http.StatusOK, ackMessage(opID, ack))
}

func (s *Server) append(w http.ResponseWriter, r *http.Request) (chatctx.Ack, string, error) {
	session, err := s.sessions.get(r.Context(), r.PathValue("id"))
	if err != nil {
		return chatctx.Ack{}, "", err
	}
	data, err := s.readBody(w, r)
	if err != nil {
		return chatctx.Ack{}, "", err
	}
	if err := validUTF8(data); err != nil {
		return chatctx.Ack{}, "", err
	}
	var head struct {
		Type wire.Type `json:"type"`
	}
	if err := decode(data, &head); err != nil {
		return chatctx.Ack{}, "", err
	}
	if head.Type == "" {
		head.Type = wire.TypeContextAppend
	}
	op, err := decodeOp(head.Type, data, authorOf(r.Context()))
	if err != nil {
		return chatctx.Ack{}, "", err
	}
	ack, err := session.append(r.Context(), authorOf(r.Context()), op)
	return ack, op.ID, err
}

// authorHTTP is who an append over HTTP is by that came without a token.
const authorHTTP = "http"

// getContext writes the conversation in a format. from_seq is inclusive; limits as in context.truncate.
func (s *Server) getContext(w http.ResponseWriter, r *http.Request) {
	answer, err := s.readContext(r)
	if err != nil {
		problem.Write(w, err)
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func (s *Server) readContext(r *http.Request) (contextAnswer, error) {
	id, q := r.PathValue("id"), r.URL.Query()
	log, closeLog, err := s.conversation(r.Context(), id)
	if err != nil {
		return contextAnswer{}, err
	}
	defer closeLog()
	chat := log.Chat()
	items, err := selectItems(chat, q)
	if err != nil {
		return contextAnswer{}, err
	}
	answer, err := formatItems(r.Context(), s.cfg.Stills, log, items, q)
	answer.Session, answer.Seq = id, chat.Seq()
	return answer, err
}

func selectItems(chat *chatctx.ChatContext, q url.Values) (chatctx.Items, error) {
	from, err := intQuery(q, "from_seq")
	if err != nil {
		return nil, err
	}
	items := chat.Items()
	if from != nil {
		if *from < 0 {
			return nil, problem.New(problem.InvalidArgument, "from_seq %d: allowed is 0 and above", *from).WithField("from_seq")
		}
		items = chat.ItemsFrom(uint64(*from))
	}
	maxItems, err := intQuery(q, "max_items")
	if err != nil {
		return nil, err
	}
	maxTokens, err := intQuery(q, "max_tokens")
	if err != nil || maxItems == nil && maxTokens == nil {
		return items, err
	}
	items, err = items.Truncate(maxItems, maxTokens)
	return items, contextProblem(err)
}

func intQuery(q url.Values, name string) (*int, error) {
	text := q.Get(name)
	if text == "" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, problem.New(problem.InvalidArgument, "%s %q is no whole number", name, text).WithField(name)
	}
	return &n, nil
}

// getBlob serves the bytes of an image of the conversation. They never change, so caches may keep them.
func (s *Server) getBlob(w http.ResponseWriter, r *http.Request) {
	log, closeLog, err := s.conversation(r.Context(), r.PathValue("id"))
	if err != nil {
		problem.Write(w, err)
		return
	}
	defer closeLog()
	blob, err := log.Blob(r.Context(), r.PathValue("sha256"))
	if err != nil {
		problem.Write(w, contextProblem(err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", blob.MIME)
	h.Set("Content-Length", strconv.Itoa(len(blob.Data)))
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox") // an image is never a page
	if r.Method != http.MethodHead {
		_, _ = w.Write(blob.Data)
	}
}

// getImage serves one image that is fresh enough.
func (s *Server) getImage(w http.ResponseWriter, r *http.Request) {
	img, err := s.findImage(r)
	if err != nil {
		problem.Write(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", img.MIME)
	h.Set("Content-Length", strconv.Itoa(len(img.Data)))
	h.Set("Cache-Control", "no-store")
	h.Set("Sightline-Captured-At", chatctx.At(img.CapturedAt).Format(chatctx.TimeFormat))
	h.Set("Sightline-Age-Ms", strconv.FormatInt(img.Age(time.Now()).Milliseconds(), 10))
	h.Set("Sightline-Source", img.Source)
	h.Set("Sightline-Capture-Clock", string(img.CaptureClock))
	if ms := captureError(img.CaptureError); ms != nil {
		h.Set("Sightline-Capture-Error-Ms", strconv.FormatInt(*ms, 10))
	}
	h.Set("Sightline-Seq", strconv.FormatUint(img.Seq, 10))
	if r.Method != http.MethodHead {
		_, _ = w.Write(img.Data)
	}
}

func (s *Server) findImage(r *http.Request) (*frames.Image, error) {
	session, err := s.sessions.get(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	encode := wire.Encode{Fit: q.Get("fit"), Format: q.Get("format"), Upscale: q.Get("upscale") == "true", Optimize: q.Get("optimize") == "true", Sharp: q.Get("sharp") == "true"}
	var maxAge, wait *int
	numbers := map[string]**int{"max_age_ms": &maxAge, "wait_ms": &wait, "quality": &encode.Quality}
	var width, height *int
	numbers["width"], numbers["height"] = &width, &height
	for name, target := range numbers {
		if *target, err = intQuery(q, name); err != nil {
			return nil, err
		}
	}
	for name, size := range map[string]*int{"width": width, "height": height} {
		if size != nil && *size == 0 { // 0 on a socket means the default; in a query it is a size
			return nil, problem.New(problem.InvalidArgument, "%s 0: must be 1 to 4096", name).WithField(name)
		}
	}
	if width != nil {
		encode.Width = *width
	}
	if height != nil {
		encode.Height = *height
	}
	request, err := newImageRequest(q.Get("source"), encode, maxAge, wait)
	if err != nil {
		return nil, err
	}
	return session.image(r.Context(), request)
}
