package chatctx

import "sightline/context/internal/idtable"

// answers are the first answers to all operations of a session, for its life, and the ids of the items that are no more. There is
// one answer for each seq, so that the tables need no id of their own.
type answers struct {
	blocks  []*[answerBlock]answer // by seq-1; they never move
	n       uint64
	ops     *idtable.Table // op_id → seq
	removed *idtable.Table // id of an item that is no more → seq of its append
}

const answerBlock = 64

// answer is what is kept of an operation and its Ack.
type answer struct {
	opID   string
	itemID string
}

func newAnswers() answers { return answers{ops: idtable.New(), removed: idtable.New()} }

// add remembers the answer that has the next seq.
func (a *answers) add(opID, itemID string) {
	if a.n%answerBlock == 0 {
		a.blocks = append(a.blocks, new([answerBlock]answer))
	}
	a.n++
	*a.at(a.n) = answer{opID, itemID}
	a.ops.Put(a.ops.Hash(opID), a.n)
}

// at is the answer of a seq that there is.
func (a *answers) at(seq uint64) *answer {
	return &a.blocks[(seq-1)/answerBlock][(seq-1)%answerBlock]
}

// find gives the seq of an op_id.
func (a *answers) find(opID string) (seq uint64, ok bool) {
	return a.ops.Find(a.ops.Hash(opID), func(seq uint64) bool { return a.at(seq).opID == opID })
}

// remove remembers that the item of an append is no more.
func (a *answers) remove(seq uint64) { a.removed.Put(a.removed.Hash(a.at(seq).itemID), seq) }

// wasRemoved reports whether an item with this id was there and is no more.
func (a *answers) wasRemoved(id string) bool {
	if a.removed.Len() == 0 {
		return false
	}
	_, ok := a.removed.Find(a.removed.Hash(id), func(seq uint64) bool { return a.at(seq).itemID == id })
	return ok
}
