package main

import "slices"

// common gives the places of a longest list of keys that stand in both sides in the same order. What both begin and end with is
// taken at once; the rest goes by keys that occur once on each side (patience), and small remainders by table.
func common(old, now []shade) [][2]int {
	var pairs [][2]int
	match(old, now, 0, 0, func(i, k int) { pairs = append(pairs, [2]int{i, k}) })
	return pairs
}

// maxTable is how many cells a table may have.
const maxTable = 4 << 20

func match(old, now []shade, i0, k0 int, f func(i, k int)) {
	for len(old) > 0 && len(now) > 0 && old[0].key == now[0].key {
		f(i0, k0)
		old, now, i0, k0 = old[1:], now[1:], i0+1, k0+1
	}
	tail := 0
	for tail < len(old) && tail < len(now) && old[len(old)-1-tail].key == now[len(now)-1-tail].key {
		tail++
	}
	a, b := old[:len(old)-tail], now[:len(now)-tail]
	if len(a) > 0 && len(b) > 0 {
		if anchors := unique(a, b); len(anchors) > 0 && (len(a)+1)*(len(b)+1) > maxTable/64 {
			ia, kb := 0, 0
			for _, p := range anchors {
				match(a[ia:p[0]], b[kb:p[1]], i0+ia, k0+kb, f)
				f(i0+p[0], k0+p[1])
				ia, kb = p[0]+1, p[1]+1
			}
			match(a[ia:], b[kb:], i0+ia, k0+kb, f)
		} else if (len(a)+1)*(len(b)+1) <= maxTable {
			table(a, b, i0, k0, f)
		}
	}
	for t := tail; t > 0; t-- {
		f(i0+len(old)-t, k0+len(now)-t)
	}
}

// unique gives the longest rising list of keys that occur once on each side.
func unique(a, b []shade) [][2]int {
	type seen struct{ na, nb, ia, ib int }
	keys := map[string]*seen{}
	for i, s := range a {
		e := keys[s.key]
		if e == nil {
			e = &seen{}
			keys[s.key] = e
		}
		e.na, e.ia = e.na+1, i
	}
	for k, s := range b {
		if e := keys[s.key]; e != nil {
			e.nb, e.ib = e.nb+1, k
		}
	}
	var piles [][2]int // the last pair of each length
	var at []int       // for each pile, its pair's place in all
	var all [][2]int
	var before []int
	for i, s := range a {
		e := keys[s.key]
		if e.na != 1 || e.nb != 1 {
			continue
		}
		p, _ := slices.BinarySearchFunc(piles, e.ib, func(x [2]int, k int) int { return x[1] - k })
		prev := -1
		if p > 0 {
			prev = at[p-1]
		}
		all, before = append(all, [2]int{i, e.ib}), append(before, prev)
		if p == len(piles) {
			piles, at = append(piles, [2]int{}), append(at, 0)
		}
		piles[p], at[p] = [2]int{i, e.ib}, len(all)-1
	}
	var way [][2]int
	if len(at) > 0 {
		for n := at[len(at)-1]; n >= 0; n = before[n] {
			way = append(way, all[n])
		}
	}
	slices.Reverse(way)
	return way
}

// table is the textbook's longest common subsequence.
func table(a, b []shade, i0, k0 int, f func(i, k int)) {
	w := len(b) + 1
	best := make([]int32, (len(a)+1)*w)
	for i := len(a) - 1; i >= 0; i-- {
		for k := len(b) - 1; k >= 0; k-- {
			if a[i].key == b[k].key {
				best[i*w+k] = best[(i+1)*w+k+1] + 1
			} else {
				best[i*w+k] = max(best[(i+1)*w+k], best[i*w+k+1])
			}
		}
	}
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch {
		case a[i].key == b[k].key:
			f(i0+i, k0+k)
			i, k = i+1, k+1
		case best[(i+1)*w+k] >= best[i*w+k+1]:
			i++
		default:
			k++
		}
	}
}
