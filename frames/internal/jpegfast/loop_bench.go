//go:build bench

package jpegfast

/*
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "encode.h"

// The plain C limit: the steps of Encode in a C loop, the bytes copied to memory of their own as there. Seconds of the thread, or < 0.
static double sl_loop(sl_encoder *e, const uint8_t *pictures, size_t size, int n, const sl_job *like) {
  struct timespec a, b;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
  for (int i = 0; i < n; i++) {
    const uint8_t *y = pictures + i * size, *u = y + (size_t)like->ystride * like->sh;
    const uint8_t *v = u + (size_t)like->cstride * ((like->sh + 1) / 2);
    sl_job j = *like;
    if (sl_encode(e, y, u, v, &j)) return -1;
    uint8_t *own = malloc(j.n);
    if (!own) return -1;
    memcpy(own, j.out, j.n);
    __asm__ volatile("" : : "r"(own) : "memory"); // the copy is wanted
    free(own);
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
  return b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) * 1e-9;
}
*/
import "C"

import (
	"errors"

	"sightline/frames/internal/yuv"
)

// LoopC encodes n pictures that lie one after the other in memory, each laid out as like (Y, U, V without gaps), in a C loop, and
// returns the CPU seconds of the thread. It is there to be compared with as many calls of Encode.
func (e *Encoder) LoopC(memory []byte, n int, like *yuv.Picture, o Options) (float64, error) {
	g, err := e.check(like, o)
	if err != nil {
		return 0, err
	}
	_, ch := like.ChromaSize()
	size := like.YStride*like.Height + 2*like.CStride*ch
	if len(memory) < size*n {
		return 0, errors.New("jpegfast: memory is too short for the pictures")
	}
	job := newJob(like, g, o)
	t := float64(C.sl_loop(e.c, bytesPtr(memory), C.size_t(size), C.int(n), &job))
	if t < 0 {
		return 0, errors.New("jpegfast: C loop failed")
	}
	return t, nil
}
