package gateway

import (
	"context"
	"fmt"
	"strings"

	chatctx "sightline/context"
)

// maxFetches bounds the images that one operation may have fetched; further ones stay references.
const maxFetches = 4

// fetchImages puts the bytes of http(s) images into an operation, where the operator allows that. An image that cannot be had
// stays the reference that it is, and a warning says why: nothing is lost.
func (s *Session) fetchImages(ctx context.Context, op chatctx.Op) (chatctx.Op, []string) {
	if s.cfg.Fetch == nil {
		return op, nil
	}
	switch m, ok := op.Item.(*chatctx.Message); {
	case op.Kind == chatctx.OpAppend && ok:
		content, warnings := s.fetchContent(ctx, m.Content)
		c := *m
		c.Content = content
		op.Item = &c
		return op, warnings
	case op.Kind == chatctx.OpUpdate && op.Changes.Content != nil:
		content, warnings := s.fetchContent(ctx, *op.Changes.Content)
		op.Changes.Content = &content
		return op, warnings
	}
	return op, nil
}

func (s *Session) fetchContent(ctx context.Context, content chatctx.Content) (chatctx.Content, []string) {
	var warnings []string
	out := append(chatctx.Content(nil), content...)
	fetched := 0
	for n, part := range out {
		img, ok := part.(chatctx.ImageContent)
		if !ok || !strings.HasPrefix(img.URL, "https://") && !strings.HasPrefix(img.URL, "http://") {
			continue
		}
		if fetched++; fetched > maxFetches {
			warnings = append(warnings, fmt.Sprintf("content[%d]: not fetched: at most %d images of a message are", n, maxFetches))
			continue
		}
		data, info, err := s.cfg.Fetch.Fetch(ctx, img.URL)
		if err == nil && len(data) > s.cfg.MaxImageBytes {
			err = fmt.Errorf("it has %d bytes, at most %d are allowed", len(data), s.cfg.MaxImageBytes)
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("content[%d]: kept as a reference: %s", n, err))
			continue
		}
		img.URL = chatctx.DataURL(info.MIME, data)
		out[n] = img
	}
	return out, warnings
}
