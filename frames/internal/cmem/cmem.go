// Package cmem tells how much memory C code has taken from its allocator and not given back, and gives what is free back to the system.
package cmem

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
static long long in_use(void) {
	struct mallinfo2 m = mallinfo2();
	return (long long)m.uordblks + (long long)m.hblkhd;
}
static void trim(void) { malloc_trim(0); }
#else
static long long in_use(void) { return 0; }
static void trim(void) {}
#endif
*/
import "C"

// InUse is in bytes, over all arenas (mallinfo2(3)); 0 where the allocator is not glibc's.
func InUse() int64 { return int64(C.in_use()) }

// Trim gives free memory back to the system (malloc_trim(3)), as far as the allocator is glibc's.
func Trim() { C.trim() }
