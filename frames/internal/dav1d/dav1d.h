// One call per temporal unit over dav1d.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct sldav1d_decoder sldav1d_decoder;

// A picture inside the decoder's memory: good until the next sldav1d_decode or sldav1d_free.
typedef struct {
  const uint8_t *y, *u, *v;
  int32_t w, h, ystride, cstride, full_range, matrix; // matrix: matrix_coefficients
  int32_t error; // errno, when the result is SLDAV1D_ERROR
} sldav1d_picture;

enum { SLDAV1D_OK = 0, SLDAV1D_NO_PICTURE = 1, SLDAV1D_ERROR = 2, SLDAV1D_FORMAT = 3 };

sldav1d_decoder *sldav1d_new(unsigned max_pixels);
void sldav1d_free(sldav1d_decoder *d);
int sldav1d_decode(sldav1d_decoder *d, const uint8_t *data, size_t n, sldav1d_picture *out);
