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
	// A sound copy is enough; before one that no longer reads the later goes.
	if b, err := s.present(ctx, name, sum); err == nil && sumOf(b.Data) == sum {
		return nil
	}
	if _, err := s.put(ctx, &nats.Msg{Subject: s.blobSubject(name, sum), Data: b.Data, Header: nats.Header{headerMIME: {b.MIME}}}); err != nil {
		return err
	}
	s.heads.raise(name, 0, time.Now())
	return nil
}

// put publishes what may be published twice until it is stored.
func (s *Store) put(ctx context.Context, msg *nats.Msg) (seq uint64, err error) {
	for pause := firstRetry; ; pause = min(2*pause, longestRetry) {
		seq, err := s.publish(ctx, msg)
		if err == nil || final(err) {
			return seq, err
		}
		s.counters.retry(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return 0, unavailable("the store did not answer in time", errors.Join(ctx.Err(), err))
		}
	}
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
	b, err := s.blob(ctx, name, sum)
	if errors.Is(err, chatctx.ErrNoBlob) && s.cfg.clustered() { // perhaps it was a replica that lags
		b, err = s.present(ctx, name, sum)
		if err == nil && sumOf(b.Data) != sum {
			return chatctx.Blob{}, s.spoiled(sum)
		}
	}
	return b, err
}

// present is a blob as the stream's leader has it, which knows of every Put and Delete that was acknowledged.
func (s *Store) present(ctx context.Context, name, sum string) (b chatctx.Blob, err error) {
	if !s.cfg.clustered() {
		return s.blob(ctx, name, sum)
	}
	var answer struct {
		Message struct {
			Header []byte `json:"hdrs"`
			Data   []byte `json:"data"`
		} `json:"message"`
	}
	err = s.persist(ctx, func(ctx context.Context, r *running) error {
		return r.api(ctx, "STREAM.MSG.GET."+blobStream(s.partition(name)), map[string]any{"last_by_subj": s.blobSubject(name, sum)}, &answer)
	})
	switch {
	case hasCode(err, codeNoMessage):
		return b, chatctx.ErrNoBlob
	case err != nil:
		return b, err
	}
	header, err := nats.DecodeHeadersMsg(answer.Message.Header)
	if err != nil {
		return b, s.spoiled(sum)
	}
	return chatctx.Blob{MIME: header.Get(headerMIME), Data: answer.Message.Data}, nil
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
		return chatctx.Blob{}, s.spoiled(sum)
	}
	return b, err
}

func (s *Store) spoiled(sum string) error {
	s.counters.damaged.Add(1)
	return &chatctx.Error{Kind: chatctx.LogDamaged, Field: "sha256", Detail: "the image " + sum + " is not what was stored"}
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
