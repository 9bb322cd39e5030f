//go:build bench

package vpx

/*
#include <time.h>
#include "vpx.h"

// The plain C limit: the frames decoded in a C loop. Seconds of the thread, or < 0.
static double slvpx_loop(slvpx_decoder *d, const uint8_t *data, const uint32_t *len, int n) {
  struct timespec a, b;
  slvpx_picture out;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
  for (int i = 0; i < n; data += len[i++])
    if (slvpx_decode(d, data, len[i], &out)) return -1;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
  return b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) * 1e-9;
}
*/
import "C"

import (
	"errors"
	"unsafe"
)

// LoopC decodes frames in a C loop and returns the CPU seconds of the thread. It is there to be compared with as many calls of Decode.
func (d *Decoder) LoopC(frames [][]byte) (float64, error) {
	var all []byte
	lens := make([]C.uint32_t, len(frames))
	for i, f := range frames {
		all = append(all, f...)
		lens[i] = C.uint32_t(len(f))
	}
	t := float64(C.slvpx_loop(d.c, (*C.uint8_t)(unsafe.Pointer(&all[0])), &lens[0], C.int(len(frames))))
	if t < 0 {
		return 0, errors.New("vpx: C loop failed")
	}
	return t, nil
}
