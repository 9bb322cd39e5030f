package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	chatctx "sightline/context"
)

const headerMIME = "Mime"

// PutBlob implements chatctx.Store.
func (s *Store) PutBlob(ctx context.Context, name, sum string, b chatctx.Blob) error {
	if err := checkSession(name); err != nil {
		return err
	}
	switch {
	case sum != sumOf(b.Data):
		return &chatctx.Error{Kind: chatctx.InvalidArgument, Field: "sha256", Detail: "the name of a blob must be the SHA-256 of its bytes in lower-case hex"}
	case len(b.Data) > maxMessage-1024:
		return &chatctx.Error{Kind: chatctx.TooLarge, Field: "data", Detail: fmt.Sprintf("a blob of %d bytes; allowed are %d", len(b.Data), maxMessage-1024)}
	case len(b.MIME) > 128 || strings.ContainsAny(b.MIME, "\r\n"):
		return &chatctx.Error{Kind: chatctx.InvalidArgument, Field: "mime", Detail: "a type is at most 128 bytes on one line"}
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	msg := &nats.Msg{Subject: s.blobSubject(name, sum), Data: b.Data, Header: nats.Header{headerMIME: {b.MIME}}}
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		_, err := s.publish(ctx, msg)
		if err == nil {
			break
		}
		if final(err) {
			return err
		}
		// Also when it was there before: the stream takes one message per subject.
		if _, there := s.blob(ctx, name, sum); there == nil {
			break
		}
		s.counters.retry(err)
		if err := s.healBlob(ctx, name, sum, err); err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return unavailable("the conversation's store did not answer in time", errors.Join(ctx.Err(), err))
		}
	}
	s.heads.raise(name, 0, time.Now())
	return nil
}

// healBlob makes room for bytes whose stored copy no longer reads: the server refuses a second one, and the name says that the new
// ones are the same.
func (s *Store) healBlob(ctx context.Context, name, sum string, cause error) error {
	if !hasCode(cause, codeStoreFailed) {
		return nil
	}
	r, _, err := s.engine.writer(ctx)
	if err != nil {
		return err
	}
	if err := r.purge(ctx, blobStream(s.partition(name)), s.blobSubject(name, sum)); err != nil {
		return unavailable("an image that no longer reads could not be replaced", err)
	}
	return nil
}

// GetBlob implements chatctx.Store. Bytes that are not what was stored are an error of kind LogDamaged.
func (s *Store) GetBlob(ctx context.Context, name, sum string) (chatctx.Blob, error) {
	if err := checkSession(name); err != nil {
		return chatctx.Blob{}, err
	}
	if _, err := hex.DecodeString(sum); err != nil || len(sum) != 2*sha256.Size || sum != strings.ToLower(sum) {
		return chatctx.Blob{}, chatctx.ErrNoBlob
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.blob(ctx, name, sum)
}

func (s *Store) blob(ctx context.Context, name, sum string) (chatctx.Blob, error) {
	var b chatctx.Blob
	err := s.persist(ctx, func(ctx context.Context, r *running) error {
		subject := "$JS.API.DIRECT.GET." + blobStream(s.partition(name)) + "." + s.blobSubject(name, sum)
		msg, err := ask(ctx, r.alive, r.images, &nats.Msg{Subject: subject})
		if err != nil {
			return err
		}
		switch status := msg.Header.Get("Status"); status {
		case "":
			b = chatctx.Blob{MIME: msg.Header.Get(headerMIME), Data: msg.Data}
			return nil
		case "404":
			return chatctx.ErrNoBlob
		default:
			return fmt.Errorf("the store's server answers %s", status)
		}
	})
	if err == nil && sumOf(b.Data) != sum {
		s.counters.damaged.Add(1)
		return chatctx.Blob{}, &chatctx.Error{Kind: chatctx.LogDamaged, Field: "sha256", Detail: "the image " + sum + " is not what was stored"}
	}
	return b, err
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
