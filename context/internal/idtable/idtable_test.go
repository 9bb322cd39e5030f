package idtable

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// check asserts that every number is where it is looked for.
func (t *Table) check() error {
	n := 0
	for i := 0; i < len(t.segments); {
		s := t.segments[i]
		held := 0
		for _, sl := range s.slots {
			if sl.value == 0 {
				continue
			}
			held++
			if t.segment(sl.hash) != s {
				return fmt.Errorf("%d is in the segment of another hash", sl.value)
			}
			if _, ok := t.Find(sl.hash, func(v uint64) bool { return v == sl.value }); !ok {
				return fmt.Errorf("%d is not found", sl.value)
			}
		}
		if held != s.n || s.n == len(s.slots) && s.n > 0 {
			return fmt.Errorf("a segment of %d has %d, counted %d", len(s.slots), held, s.n)
		}
		for end := i + 1<<(t.depth-s.depth); i < end; i++ {
			if t.segments[i] != s {
				return fmt.Errorf("segment %d is not where its depth %d says", i, s.depth)
			}
		}
		n += held
	}
	if n != t.n {
		return fmt.Errorf("%d numbers, counted %d", n, t.n)
	}
	return nil
}

// TestAsAMap compares with a map, over random histories. The hashes are bad on purpose: few, and many with the same first bits.
func TestAsAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table, want := New(), map[uint64]uint64{} // value → hash
		spread := rapid.SampledFrom([]uint64{1, 0x9e3779b97f4a7c15, 1 << 40}).Draw(rt, "spread")
		hash := rapid.Map(rapid.Uint64Range(0, 200), func(n uint64) uint64 { return n * spread })
		next := uint64(0)
		same := func(rt *rapid.T, table *Table) {
			if err := table.check(); err != nil || table.Len() != len(want) {
				rt.Fatalf("%d numbers, want %d: %v", table.Len(), len(want), err)
			}
			for v, h := range want {
				if got, ok := table.Find(h, func(x uint64) bool { return x == v }); !ok || got != v {
					rt.Fatalf("%d is %d, %t", v, got, ok)
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put many": func(rt *rapid.T) {
				for _, h := range rapid.SliceOfN(hash, 1, 600).Draw(rt, "hashes") {
					next++
					table.Put(h, next)
					want[next] = h
				}
			},
			"delete some": func(rt *rapid.T) {
				v := rapid.Uint64Range(1, max(1, next)).Draw(rt, "from")
				for end := min(next, v+rapid.Uint64Range(0, 300).Draw(rt, "n")); v <= end; v++ {
					h, there := want[v]
					if !there {
						h = v * spread
					}
					if table.Delete(h, v); there {
						delete(want, v)
					}
				}
			},
			"clone": func(rt *rapid.T) {
				other := table.Clone()
				same(rt, other)
				for v, h := range want {
					other.Delete(h, v)
				}
				if err := other.check(); err != nil || other.Len() != 0 {
					rt.Fatalf("after all deletions %d: %v", other.Len(), err)
				}
			},
			"": func(rt *rapid.T) { same(rt, table) },
		})
	})
}

// TestLarge: real ids in a number that splits segments many times over, each found and none that is not there.
func TestLarge(t *testing.T) {
	table, ids := New(), make([]string, 1, 100_001)
	is := func(id string) func(uint64) bool { return func(v uint64) bool { return ids[v] == id } }
	for i := 1; i < cap(ids); i++ {
		id := fmt.Sprint("item-", i)
		ids = append(ids, id)
		table.Put(table.Hash(id), uint64(i))
	}
	if err := table.check(); err != nil || table.Len() != len(ids)-1 {
		t.Fatal(table.Len(), err)
	}
	for i, id := range ids[1:] {
		if v, ok := table.Find(table.Hash(id), is(id)); !ok || v != uint64(i+1) {
			t.Fatalf("%s: %d, %t", id, v, ok)
		}
		if v, ok := table.Find(table.Hash(id+"x"), is(id+"x")); ok {
			t.Fatalf("%sx: %d", id, v)
		}
	}
	if len(table.segments) < 64 {
		t.Errorf("%d segments", len(table.segments))
	}
}

// TestSharedHash: ids with one hash are told apart by the asker.
func TestSharedHash(t *testing.T) {
	table := New()
	for v := uint64(1); v <= 3*maxSlots; v++ {
		table.Put(42, v)
	}
	for v := uint64(1); v <= 3*maxSlots; v++ {
		if got, ok := table.Find(42, func(x uint64) bool { return x == v }); !ok || got != v {
			t.Fatalf("%d: %d, %t", v, got, ok)
		}
	}
	if len(table.segments) > 3*maxSlots/minShare {
		t.Errorf("%d segments", len(table.segments))
	}
}
