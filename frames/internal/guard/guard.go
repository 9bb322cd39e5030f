//go:build unix

// Package guard gives tests memory that ends (and begins) at a page nobody may touch: a read past a plane is a crash at once, which
// neither the race detector nor an address sanitizer sees in libjpeg or libvpx. The product does not use it.
package guard

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// Tail returns n bytes whose last one is the last before a forbidden page. The memory lives until the test ends.
func Tail(t testing.TB, n int) []byte {
	t.Helper()
	block := mapped(t, n)
	return block[len(block)-n : len(block) : len(block)]
}

// Head returns n bytes whose first one is the first after a forbidden page. The memory lives until the test ends.
func Head(t testing.TB, n int) []byte {
	t.Helper()
	return mapped(t, n)[:n:n]
}

// mapped returns whole pages, at least n bytes, with a forbidden page on either side.
func mapped(t testing.TB, n int) []byte {
	t.Helper()
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	all, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(fmt.Errorf("guard: map %d bytes: %w", size+2*page, err))
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(all); err != nil {
			t.Error(err)
		}
	})
	for _, fence := range [][]byte{all[:page], all[len(all)-page:]} {
		if err := syscall.Mprotect(fence, syscall.PROT_NONE); err != nil {
			t.Fatal(fmt.Errorf("guard: forbid a page: %w", err))
		}
	}
	return all[page : len(all)-page]
}
