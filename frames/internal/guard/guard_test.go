//go:build unix

package guard

import (
	"runtime/debug"
	"testing"
	"unsafe"
)

// touch reads the byte at distance d from p and reports whether the machine let it.
func touch(p *byte, d int) (ok bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { ok = recover() == nil }()
	sink = *(*byte)(unsafe.Add(unsafe.Pointer(p), d))
	return true
}

var sink byte

func TestGuardForbidsTheNextByte(t *testing.T) {
	for _, n := range []int{1, 100, 4096, 4097, 641 * 481} {
		tail, head := Tail(t, n), Head(t, n)
		tail[0], tail[n-1], head[0], head[n-1] = 1, 2, 3, 4
		if touch(&tail[0], n) {
			t.Errorf("%d bytes: the byte after the tail can be read", n)
		}
		if touch(&head[0], -1) {
			t.Errorf("%d bytes: the byte before the head can be read", n)
		}
		if !touch(&tail[0], n-1) || !touch(&head[0], 0) {
			t.Errorf("%d bytes: their own cannot be read", n)
		}
	}
}
