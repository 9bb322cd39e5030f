// Package idtable finds numbers by the ids that they belong to, without keeping the ids; it is no map, since whoever asks must say whether a number found is really the id's.
//
// It is for tables that grow with a conversation: a slot is 16 bytes without a pointer, so that the garbage collector does not look
// into it, and growing reads no id again. It is extendible hashing: what one Put moves is bounded by the size of a segment, however
// large the table is, but for the list of segments, which is doubled as often as the table and has one pointer for some 400 ids.
package idtable

import "hash/maphash"

const (
	minSlots = 8
	maxSlots = 1024 // of a segment before it becomes two, 16 KiB
	// minShare is how many numbers there are at least for each place in the list of segments. Only hashes that are far from random
	// come near; their segments grow beyond maxSlots instead.
	minShare = 64
)

// Table is a multiset of numbers, none of them 0, by the hashes of their ids. The zero Table is not ready: see New. It is not safe
// for concurrent use, except that several may read at once.
type Table struct {
	seed     maphash.Seed
	segments []*segment // by the first depth bits of the hash
	depth    uint8
	n        int
}

// segment is a linear-probing table of the hashes that begin with its depth bits.
type segment struct {
	slots []slot // a power of two
	n     int
	depth uint8
}

type slot struct{ hash, value uint64 } // value 0 = free

// New makes an empty table.
func New() *Table { return &Table{seed: maphash.MakeSeed(), segments: []*segment{{}}} }

// Len is how many numbers there are.
func (t *Table) Len() int { return t.n }

// Hash is what the other methods know an id by; it differs between tables.
func (t *Table) Hash(id string) uint64 { return maphash.String(t.seed, id) }

func (t *Table) segment(hash uint64) *segment { return t.segments[hash>>(64-t.depth)] }

// Find gives the number under hash that is the one meant. Ids that share a hash are very rare, so that is hardly ever asked of a
// wrong one.
func (t *Table) Find(hash uint64, is func(value uint64) bool) (value uint64, ok bool) {
	s := t.segment(hash)
	mask := uint64(len(s.slots) - 1)
	if len(s.slots) == 0 {
		return 0, false
	}
	for i := hash & mask; ; i = (i + 1) & mask {
		switch sl := &s.slots[i]; {
		case sl.value == 0:
			return 0, false
		case sl.hash == hash && is(sl.value):
			return sl.value, true
		}
	}
}

// Put adds a number, which must not be 0, under the hash of an id that has none.
func (t *Table) Put(hash, value uint64) {
	s := t.segment(hash)
	for s.full() {
		t.grow(s)
		s = t.segment(hash)
	}
	s.put(slot{hash, value})
	t.n++
}

// Delete takes a number away; one that is not there is no matter.
func (t *Table) Delete(hash, value uint64) {
	if t.segment(hash).delete(slot{hash, value}) {
		t.n--
	}
}

// Clone is an independent copy.
func (t *Table) Clone() *Table {
	c := &Table{seed: t.seed, segments: make([]*segment, len(t.segments)), depth: t.depth, n: t.n}
	for i := 0; i < len(t.segments); {
		s := *t.segments[i]
		s.slots = append([]slot(nil), s.slots...)
		for end := i + 1<<(t.depth-s.depth); i < end; i++ {
			c.segments[i] = &s
		}
	}
	return c
}

// grow makes room in s: a small segment becomes larger, a large one becomes two.
func (t *Table) grow(s *segment) {
	wider := s.depth == t.depth // the list must be, for s to become two
	if len(s.slots) < maxSlots || wider && t.n/minShare < 2*len(t.segments) {
		old := s.slots
		s.slots, s.n = make([]slot, max(minSlots, 2*len(old))), 0
		for _, sl := range old {
			if sl.value != 0 {
				s.put(sl)
			}
		}
		return
	}
	if wider {
		wide := make([]*segment, 0, 2*len(t.segments))
		for _, each := range t.segments {
			wide = append(wide, each, each)
		}
		t.segments = wide
		t.depth++
	}
	t.split(s)
}

// split leaves in s what has 0 as the next bit of its hash.
func (t *Table) split(s *segment) {
	var stack [maxSlots]slot
	old := append(stack[:0], s.slots...)
	clear(s.slots)
	s.n = 0
	s.depth++
	upper := &segment{slots: make([]slot, len(s.slots)), depth: s.depth}
	var any uint64
	for i := range old {
		sl := &old[i]
		if sl.value == 0 {
			continue
		}
		any = sl.hash
		if sl.hash>>(64-s.depth)&1 == 0 {
			s.put(*sl)
		} else {
			upper.put(*sl)
		}
	}
	// The places of s are those that begin with its old bits; the upper half of them is now upper's.
	width := 1 << (t.depth - s.depth)
	first := int(any>>(65-s.depth)<<1|1) * width
	for i := first; i < first+width; i++ {
		t.segments[i] = upper
	}
}

// full reports whether no more may be put in: three quarters keep the runs short.
func (s *segment) full() bool { return s.n*4 >= len(s.slots)*3 }

func (s *segment) put(sl slot) {
	mask := uint64(len(s.slots) - 1)
	i := sl.hash & mask
	for s.slots[i].value != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = sl
	s.n++
}

func (s *segment) delete(sl slot) bool {
	if len(s.slots) == 0 {
		return false
	}
	mask := uint64(len(s.slots) - 1)
	i := sl.hash & mask
	for s.slots[i] != sl {
		if s.slots[i].value == 0 {
			return false
		}
		i = (i + 1) & mask
	}
	// What follows without a gap moves up, where its own place allows it, so that no run has a hole.
	for j := (i + 1) & mask; s.slots[j].value != 0; j = (j + 1) & mask {
		if (j-s.slots[j].hash)&mask >= (j-i)&mask {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot{}
	s.n--
	return true
}
