package logfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	chatctx "sightline/context"
)

func (b blobChecker) PutBlob(ctx context.Context, key, sum string, blob chatctx.Blob) error {
	if got := sha256.Sum256(blob.Data); hex.EncodeToString(got[:]) != sum {
		return errors.New("the bytes are not those of the name")
	}
	return b.Store.PutBlob(ctx, key, sum, blob)
}

type noBlobs struct{ chatctx.Store }

func (noBlobs) GetBlob(context.Context, string, string) (chatctx.Blob, error) {
	return chatctx.Blob{}, chatctx.ErrNoBlob
}

type otherBlobs struct{ chatctx.Store }

func (otherBlobs) GetBlob(context.Context, string, string) (chatctx.Blob, error) {
	return chatctx.Blob{MIME: "image/png", Data: []byte("another")}, nil
}

// hole leaves entry 3 out.
type hole struct{ chatctx.Store }

func (h hole) Read(ctx context.Context, key string, after uint64, limit int) ([]chatctx.Entry, error) {
	all, err := h.Store.Read(ctx, key, after, limit)
	var left []chatctx.Entry
	for _, e := range all {
		if e.Seq != 3 {
			left = append(left, e)
		}
	}
	return left, err
}
