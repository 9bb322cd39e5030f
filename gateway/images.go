package gateway

import (
	"context"
	"errors"
	"strings"
	"time"

	chatctx "sightline/context"
	"sightline/frames"
	"sightline/gateway/problem"
	"sightline/gateway/wire"
)

// Defaults and bounds of a request for one image.
const (
	defaultMaxAge = time.Second
	defaultWait   = 3 * time.Second
	maxWait       = 30 * time.Second
	maxMaxAge     = time.Hour
)

// What an image of a screen is by default: 1080p stays as it is, and text legible.
const (
	screenSide    = 1920
	screenQuality = 85
)

// defaultOptions are the seeds' DEFAULT_REALTIME_ENCODE_OPTIONS, or of a screen its own.
func defaultOptions(screen bool) frames.EncodeOptions {
	o := frames.DefaultRealtimeEncodeOptions()
	if screen {
		o.Resize = &frames.ResizeOptions{Width: screenSide, Height: screenSide, Fit: frames.Contain}
		o.Quality, o.Sharp = screenQuality, true
	}
	return o
}

// encodeOptions turns a wire's encode fields into options; zero fields are defaultOptions. Whether they are good does not depend on the source.
func encodeOptions(e wire.Encode, screen bool) (frames.EncodeOptions, error) {
	o := defaultOptions(screen)
	resize := *o.Resize
	if e.Width != 0 {
		resize.Width = e.Width
	}
	if e.Height != 0 {
		resize.Height = e.Height
	}
	if e.Fit != "" {
		resize.Fit = frames.Fit(e.Fit)
	}
	resize.Upscale = e.Upscale
	o.Resize = &resize
	o.Optimize, o.Sharp = e.Optimize, o.Sharp || e.Sharp
	if e.Quality != nil {
		o.Quality = *e.Quality
	}
	switch strings.ToLower(e.Format) {
	case "", "jpeg":
	case "png":
		o.Format = frames.PNG
	default:
		return o, problem.New(problem.InvalidArgument, "format %q: allowed are jpeg and png", e.Format).WithField("format")
	}
	if err := o.Validate(); err != nil {
		field, _, _ := strings.Cut(err.Error(), " ")
		return o, problem.New(problem.InvalidArgument, "%s", err).WithField(field)
	}
	return o, nil
}

// imageRequest is one wish for one image, from HTTP or a socket.
type imageRequest struct {
	source  string // "" = the first
	encode  *wire.Encode
	options frames.EncodeOptions // where encode is nil
	maxAge  time.Duration
	wait    time.Duration
}

func newImageRequest(source string, encode wire.Encode, maxAgeMS, waitMS *int) (imageRequest, error) {
	r := imageRequest{source: source, encode: &encode, maxAge: defaultMaxAge, wait: defaultWait}
	if _, err := encodeOptions(encode, false); err != nil {
		return r, err
	}
	if err := millis(&r.maxAge, "max_age_ms", maxAgeMS, maxMaxAge); err != nil {
		return r, err
	}
	return r, millis(&r.wait, "wait_ms", waitMS, maxWait)
}

func millis(d *time.Duration, field string, ms *int, limit time.Duration) error {
	if ms == nil {
		return nil
	}
	if *ms < 0 || time.Duration(*ms) > limit/time.Millisecond {
		return problem.New(problem.InvalidArgument, "%s %d: allowed are 0 to %d", field, *ms, limit/time.Millisecond).WithField(field)
	}
	*d = time.Duration(*ms) * time.Millisecond
	return nil
}

// captureError is the bound of a capture time in milliseconds, rounded up; nil: it is not known.
func captureError(d time.Duration) *int64 {
	if d <= 0 {
		return nil
	}
	ms := (d + time.Millisecond - 1).Milliseconds()
	return &ms
}

// image gives one image that is fresh enough, waiting for it as long as the request says.
func (s *Session) image(ctx context.Context, r imageRequest) (*frames.Image, error) {
	src := s.source(r.source)
	if src == nil {
		return nil, noSource(s, r.source)
	}
	track := src.current()
	if track == nil {
		return nil, noSource(s, r.source)
	}
	if r.encode != nil {
		r.options, _ = encodeOptions(*r.encode, src.screen())
	}
	src.askFor(r.options, time.Now())
	s.wantsChanged()
	img, err := track.Image(ctx, frames.Request{Options: r.options, MaxAge: r.maxAge, Wait: r.wait})
	switch {
	case err == nil:
		return img, nil
	case errors.Is(err, frames.ErrNoImage):
		return nil, problem.New(problem.ImageTimeout, "source %s (%s) gave no image younger than %d ms within %d ms",
			src.name, src.message().State, r.maxAge.Milliseconds(), r.wait.Milliseconds())
	case errors.Is(err, frames.ErrBusy):
		return nil, problem.New(problem.Overloaded, "%s", err).WithRetryAfter(time.Second)
	case ctx.Err() != nil:
		return nil, problem.New(problem.ImageTimeout, "the request ended before there was an image").WithCause(err)
	}
	return nil, problem.From(err)
}

// Image gives one image of a source ("" = the first) no older than maxAge, waiting up to wait for it. Errors are *problem.Error:
// not_found without such a source, image_timeout when none is fresh enough.
func (s *Session) Image(ctx context.Context, source string, o frames.EncodeOptions, maxAge, wait time.Duration) (*frames.Image, error) {
	img, err := s.image(ctx, imageRequest{source: source, options: o, maxAge: maxAge, wait: wait})
	return img, err
}

func noSource(s *Session, name string) error {
	var names []string
	for _, src := range s.allSources() {
		names = append(names, src.name)
	}
	if len(names) == 0 {
		return problem.New(problem.NotFound, "session %s has no video yet: publish to /whip/%s", s.id, s.id).WithField("source")
	}
	return problem.New(problem.NotFound, "no source %q in session %s: there is %s", name, s.id, strings.Join(names, ", ")).WithField("source")
}

// imageContent is the one place where an image becomes part of a conversation: its bytes are stored, then named.
func (s *Session) imageContent(ctx context.Context, img *frames.Image) (chatctx.ImageContent, error) {
	url, info, err := s.log.PutImage(ctx, img.Data)
	if err != nil {
		return chatctx.ImageContent{}, contextProblem(err)
	}
	return chatctx.ImageContent{
		URL: url, Detail: "auto", Source: img.Source, CapturedAt: chatctx.At(img.CapturedAt),
		Width: info.Width, Height: info.Height,
	}, nil
}

// attach appends an image to the conversation as a user message.
func (s *Session) attach(ctx context.Context, author, opID string, img *frames.Image) (chatctx.Ack, error) {
	content, err := s.imageContent(ctx, img)
	if err != nil {
		return chatctx.Ack{}, err
	}
	return s.append(ctx, author, chatctx.Op{
		ID: opID, Kind: chatctx.OpAppend,
		Item: &chatctx.Message{Role: chatctx.RoleUser, Content: chatctx.Content{content}},
	})
}

// contextProblem gives an error of the conversation its code on the wires.
func contextProblem(err error) error {
	var e *chatctx.Error
	if !errors.As(err, &e) {
		return err
	}
	return &problem.Error{Code: problem.Code(e.Kind), Detail: e.Detail, Field: e.Field, Cause: e.Cause}
}
