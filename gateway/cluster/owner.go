package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	chatctx "sightline/context"
	"sightline/context/jetstream"
)

// OwnedElsewhere is why a claim fails: a node that is alive owns the session.
type OwnedElsewhere struct{ Node string }

func (e *OwnedElsewhere) Error() string { return "the session is on node " + e.Node }

// Claim makes this node the owner of a session and its writer: of a new one, of one that rests, or of one whose node is dead. A
// deleted session's id begins a new conversation; old is then what was there before. The error is *OwnedElsewhere when a node that is
// alive owns it.
func (n *Node) Claim(ctx context.Context, id string, now time.Time) (claimed, old jetstream.Owned, err error) {
	for {
		old, err = n.cfg.Store.SessionOwner(ctx, id)
		if err != nil {
			return claimed, old, err
		}
		if old.Revision > 0 && old.EndedAt.IsZero() && !old.Deleted && old.Node != "" && old.Node != n.cfg.ID && n.Alive(old.Node) {
			return claimed, old, &OwnedElsewhere{old.Node}
		}
		claimed = old
		if old.Revision == 0 || old.Deleted {
			claimed.SessionRecord = chatctx.SessionRecord{ID: id, Key: uuid.NewString(), CreatedAt: now}
		}
		claimed.EndedAt, claimed.Node, claimed.Term, claimed.Seq = time.Time{}, n.cfg.ID, old.Term+1, 0
		claimed, err = n.cfg.Store.ReplaceSession(ctx, claimed)
		if errors.Is(err, jetstream.ErrChanged) {
			continue
		}
		if err == nil {
			err = n.cfg.Store.Fence(ctx, claimed.Key, claimed.Term)
		}
		if err == nil && old.Node != "" && old.Node != n.cfg.ID && old.EndedAt.IsZero() {
			n.cfg.Log.Info("session taken over", "session", id, "from", old.Node, "term", claimed.Term)
		}
		return claimed, old, err
	}
}

// Yield changes the record of a session that this node owns under a term, as its end or its being let go of; only the owner of the
// latest term may (a node that has been replaced has nothing to say any more), and this node is its writer no more.
func (n *Node) Yield(ctx context.Context, id string, term uint64, change func(*jetstream.Owned)) error {
	for {
		o, err := n.cfg.Store.SessionOwner(ctx, id)
		if err != nil {
			return err
		}
		if o.Node != n.cfg.ID || o.Term != term {
			return fmt.Errorf("session %s: %w", id, jetstream.ErrFenced)
		}
		n.cfg.Store.Release(o.Key)
		change(&o)
		if _, err = n.cfg.Store.ReplaceSession(ctx, o); !errors.Is(err, jetstream.ErrChanged) {
			return err
		}
	}
}

// Owns says whether this node is still on record as the owner under a term.
func (n *Node) Owns(ctx context.Context, id string, term uint64) (bool, error) {
	o, err := n.cfg.Store.SessionOwner(ctx, id)
	return err == nil && o.Node == n.cfg.ID && o.Term == term, err
}
