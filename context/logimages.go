package chatctx

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// takeImages puts references in the place of the data: URLs in op's content and gives the bytes they stand for.
func (l *Log) takeImages(op Op) (Op, []pendingBlob, []string, error) {
	var blobs []pendingBlob
	var warnings []string
	var err error
	switch {
	case op.Kind == OpAppend && op.Item != nil:
		op.Item, blobs, warnings, err = extractImages(op.Item, l.cfg.MaxImageBytes)
	case op.Kind == OpUpdate && op.Changes.Content != nil:
		var content Content
		content, blobs, warnings, err = extractContent(*op.Changes.Content, l.cfg.MaxImageBytes)
		op.Changes.Content = &content
	}
	return op, blobs, warnings, err
}

// storeImages makes sure that every blob URL in op's content can be resolved: what came with op is stored, and what it refers
// to must be there.
func (l *Log) storeImages(ctx context.Context, op Op, blobs []pendingBlob) error {
	if err := l.checkReferences(ctx, op, blobs); err != nil {
		return err
	}
	for _, b := range blobs {
		if err := l.putBlob(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) checkReferences(ctx context.Context, op Op, pending []pendingBlob) error {
	var content Content
	if m, ok := op.Item.(*Message); ok && op.Kind == OpAppend {
		content = m.Content
	} else if op.Kind == OpUpdate && op.Changes.Content != nil {
		content = *op.Changes.Content
	}
	for _, img := range content.Images() {
		sha, ok := strings.CutPrefix(img.URL, BlobPrefix)
		if !ok || slices.ContainsFunc(pending, func(b pendingBlob) bool { return b.sha256 == sha }) {
			continue
		}
		if _, known := l.stored.Load(sha); known {
			continue
		}
		if _, err := l.Blob(ctx, sha); err != nil {
			if e := (*Error)(nil); errors.As(err, &e) && e.Kind == NotFound {
				return fail(InvalidImage, "content.url", "this session has no image %s%s: send it as a data: URL", BlobPrefix, sha)
			}
			return err
		}
	}
	return nil
}

// putBlob stores an image unless the store is known to have it.
func (l *Log) putBlob(ctx context.Context, b pendingBlob) error {
	if _, known := l.stored.Load(b.sha256); known {
		return nil
	}
	if err := l.cfg.Store.PutBlob(ctx, l.cfg.Session, b.sha256, b.blob); err != nil {
		return unavailable(err)
	}
	l.stored.Store(b.sha256, struct{}{})
	return nil
}

// PutImage stores image bytes and returns the URL that an ImageContent names them by. It takes data over: the caller must not
// write to it any more.
func (l *Log) PutImage(ctx context.Context, data []byte) (url string, info ImageInfo, err error) {
	if len(data) > l.cfg.MaxImageBytes {
		return "", ImageInfo{}, tooLarge(len(data), l.cfg.MaxImageBytes)
	}
	info, err = InspectImage(data)
	if err != nil {
		return "", ImageInfo{}, err
	}
	b := pendingBlob{sha256Hex(data), Blob{MIME: info.MIME, Data: data}}
	return BlobPrefix + b.sha256, info, l.putBlob(ctx, b)
}

// Blob finds image bytes by the SHA-256 in lower-case hex.
func (l *Log) Blob(ctx context.Context, sha256 string) (Blob, error) {
	if !validSHA256(sha256) {
		return Blob{}, fail(NotFound, "sha256", "an image is named by its SHA-256 in lower-case hex")
	}
	b, err := l.cfg.Store.GetBlob(ctx, l.cfg.Session, sha256)
	if errors.Is(err, ErrNoBlob) {
		return Blob{}, fail(NotFound, "sha256", "this session has no image %s", sha256)
	}
	if err != nil {
		return Blob{}, unavailable(err)
	}
	l.stored.Store(sha256, struct{}{})
	return b, nil
}
