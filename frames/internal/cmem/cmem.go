// Package cmem tells how much memory C code has taken from glibc and not given back: for leak checks of tests.
package cmem

/*
#include <malloc.h>
static long long in_use(void) {
	struct mallinfo2 m = mallinfo2();
	return (long long)m.uordblks + (long long)m.hblkhd;
}
*/
import "C"

// InUse is in bytes, over all arenas (mallinfo2(3)).
func InUse() int64 { return int64(C.in_use()) }
