package agentclient

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	chatctx "sightline/context"
	"sightline/gateway/wire"
)

// call is one operation or image request that waits for its answer.
type call struct {
	id      string
	message any
	answer  chan result // capacity 1: the answer never waits for the caller
}

type result struct {
	ack   wire.Ack
	image Image
	err   error
}

// Append adds an item to the conversation and waits until the gateway has made it durable. Over a lost connection it goes
// on with the same op_id. opID "" makes one. The error is a *Refused, or ctx's.
func (c *Client) Append(ctx context.Context, opID string, item chatctx.Item) (wire.Ack, error) {
	raw, err := json.Marshal(item)
	if err != nil {
		return wire.Ack{}, fmt.Errorf("item: %w", err)
	}
	if opID == "" {
		opID = uuid.NewString()
	}
	return c.Do(ctx, opID, wire.ContextAppend{Type: wire.TypeContextAppend, OpID: opID, Item: raw})
}

// Do sends any operation (a wire type with this op_id) and waits for its ack, as Append does.
func (c *Client) Do(ctx context.Context, opID string, operation any) (wire.Ack, error) {
	if err := c.slot(ctx); err != nil {
		return wire.Ack{}, err
	}
	defer func() { <-c.slots }()
	op := &call{id: opID, message: operation, answer: make(chan result, 1)}
	c.mu.Lock()
	c.ops = append(c.ops, op)
	k := c.conn
	c.mu.Unlock()
	defer c.dropOp(op)
	if k != nil {
		k.send(operation) // without a connection the next welcome sends it
	}
	r, err := op.wait(ctx)
	return r.ack, err
}

// RequestImage asks for one image now. RequestID "" makes one. The error is a *Refused (image_timeout, not_found …),
// ErrNotAttached, ErrDetached, or ctx's.
func (c *Client) RequestImage(ctx context.Context, request wire.ImageRequest) (Image, error) {
	if err := c.slot(ctx); err != nil {
		return Image{}, err
	}
	defer func() { <-c.slots }()
	request.Type = wire.TypeImageRequest
	if request.RequestID == "" {
		request.RequestID = uuid.NewString()
	}
	ask := &call{id: request.RequestID, message: request, answer: make(chan result, 1)}
	c.mu.Lock()
	k := c.conn
	if k != nil {
		c.asks[ask.id] = ask
	}
	c.mu.Unlock()
	if k == nil {
		return Image{}, ErrNotAttached
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asks, ask.id)
	}()
	k.send(request)
	r, err := ask.wait(ctx)
	return r.image, err
}

// SetWant changes what the gateway sends, from now on and after reconnects.
func (c *Client) SetWant(want wire.Want) {
	c.mu.Lock()
	c.cfg.Want = want
	k := c.conn
	c.mu.Unlock()
	if k != nil {
		k.send(wire.WantMessage{Type: wire.TypeWant, Want: want})
	}
}

// slot waits for one of the maxInFlight places.
func (c *Client) slot(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *call) wait(ctx context.Context) (result, error) {
	select {
	case r := <-k.answer:
		return r, r.err
	case <-ctx.Done():
		return result{}, ctx.Err()
	}
}

// deliver hands over the first answer; a second one (the operation was sent twice) says the same and is left out.
func (k *call) deliver(r result) {
	select {
	case k.answer <- r:
	default:
	}
}

func (c *Client) dropOp(op *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.ops {
		if other == op {
			c.ops = append(c.ops[:i], c.ops[i+1:]...)
			return
		}
	}
}

func (c *Client) acked(a wire.Ack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range c.ops {
		if op.id == a.OpID {
			op.deliver(result{ack: a})
			return
		}
	}
}

func (c *Client) answered(image Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ask, ok := c.asks[image.RequestID]; ok {
		ask.deliver(result{image: image})
	}
}

func (c *Client) refused(e wire.Error) {
	r := result{err: &Refused{Answer: e}}
	c.mu.Lock()
	ask, ours := c.asks[e.RequestID]
	for _, op := range c.ops {
		if e.OpID != "" && op.id == e.OpID {
			ask, ours = op, true
		}
	}
	c.mu.Unlock()
	if ours {
		ask.deliver(r)
		return
	}
	call1(c.cfg.Handler.Refused, e)
}

func (c *Client) failAsks(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ask := range c.asks {
		ask.deliver(result{err: err})
	}
}
