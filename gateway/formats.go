package gateway

import (
	"context"
	"net/url"
	"time"

	chatctx "sightline/context"
	"sightline/context/project"
	"sightline/frames"
	"sightline/gateway/problem"
)

// contextAnswer is a conversation in one format. Losses are what the format cannot hold or its provider would refuse.
type contextAnswer struct {
	Session string         `json:"session"`
	Seq     uint64         `json:"seq"`
	Format  string         `json:"format"`
	Context any            `json:"context"`
	Losses  []project.Loss `json:"losses,omitempty"`
}

const contextFormats = "items, transport, openai, responses, realtime, anthropic, gemini and text"

// formatItems writes items in the format that the query names. The providers' formats carry images as their bytes; items and
// transport carry references, unless inline=true.
func formatItems(ctx context.Context, stills *frames.Stills, log *chatctx.Log, items chatctx.Items, q url.Values) (contextAnswer, error) {
	a := contextAnswer{Format: q.Get("format")}
	if a.Format == "" {
		a.Format = "items"
	}
	o := project.Options{
		Images: func(sha256 string) (string, []byte, error) {
			b, err := log.Blob(ctx, sha256)
			return b.MIME, b.Data, err
		},
		Downscale: downscale(ctx, stills), Now: time.Now(), ForAgent: q.Get("for_agent"),
	}
	switch a.Format {
	case "items", "transport":
		if q.Get("inline") == "true" {
			inlined, err := chatctx.Inline(ctx, log, items)
			if err != nil {
				return a, contextProblem(err)
			}
			items = inlined
		}
		a.Context = items
		if a.Format == "transport" {
			a.Context, a.Losses = chatctx.ToContextMessages(items), project.TransportLosses(items)
		}
	case "text":
		a.Context, a.Losses = project.Text(items, o)
	case "openai":
		a.Context, a.Losses = project.OpenAIChat(items, o)
	case "responses":
		a.Context, a.Losses = project.OpenAIResponses(items, o)
	case "realtime":
		a.Context, a.Losses = project.OpenAIRealtime(items, o)
	case "anthropic":
		a.Context, a.Losses = project.Anthropic(items, o)
	case "gemini":
		a.Context, a.Losses = project.Gemini(items, o)
	default:
		return a, problem.New(problem.InvalidArgument, "format %q: allowed are %s", a.Format, contextFormats).WithField("format")
	}
	return a, nil
}

// Downscale makes images fit a provider's bounds: fewer pixels first, then coarser.
func Downscale(stills *frames.Stills) func(mime string, data []byte, maxSide, maxBytes int) ([]byte, error) {
	return downscale(context.Background(), stills) // it waits no longer than stills lets it
}

func downscale(ctx context.Context, stills *frames.Stills) func(mime string, data []byte, maxSide, maxBytes int) ([]byte, error) {
	return func(_ string, data []byte, maxSide, maxBytes int) ([]byte, error) {
		return smaller(ctx, stills, data, maxSide, maxBytes)
	}
}

func smaller(ctx context.Context, stills *frames.Stills, data []byte, maxSide, maxBytes int) ([]byte, error) {
	o := frames.EncodeOptions{Format: frames.JPEG, Resize: &frames.ResizeOptions{Width: maxSide, Height: maxSide, Fit: frames.Contain}}
	var out []byte
	for _, o.Quality = range []int{85, 70, 50, 30} {
		var err error
		if out, err = stills.Encode(ctx, data, &o); err != nil || maxBytes <= 0 || len(out) <= maxBytes {
			return out, err
		}
	}
	return nil, problem.New(problem.TooLarge, "the image has %d bytes also at the lowest quality: at most %d are allowed", len(out), maxBytes)
}
