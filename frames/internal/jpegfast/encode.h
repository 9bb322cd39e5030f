// Picture to JPEG in one call: scale, range, matrix and libjpeg-turbo's raw data path, sixteen rows at a time.
#pragma once
#include "scale.h"

typedef struct sl_encoder sl_encoder;

// What to do, and what came of it. It holds no Go pointers: the planes are arguments of their own.
typedef struct {
  int32_t sw, sh, ystride, cstride, full_range; // the picture
  int32_t dw, dh;                               // the image
  int32_t ix, iy, iw, ih;                       // where the picture goes in the image; black around it. ix and iy are even
  double cx, cy, cw, ch;                        // the part of the picture that goes there, in its pixels
  int32_t quality, optimize;
  int32_t sharp;  // luma by four taps
  int32_t matrix; // the picture's matrix is not JPEG's: k of sl_matrix_chroma
  int16_t k[6];

  const uint8_t *out; // the JPEG, in the encoder's memory until the next call
  size_t n;
  double mean, variance; // of the picture's luma as it came
  int32_t jpeg_code;     // libjpeg's message code when the result is SL_JPEG
} sl_job;

enum { SL_OK = 0, SL_MEMORY = 1, SL_JPEG = 2 };

sl_encoder *sl_new(int kind); // of inner loops: SL_C, SL_SSSE3, SL_AVX2; one that the machine does not have is SL_C
void sl_free(sl_encoder *e);
int sl_encode(sl_encoder *e, const uint8_t *y, const uint8_t *u, const uint8_t *v, sl_job *j);
// The image's planes, full range and without padding between rows, instead of a JPEG.
int sl_scale(sl_encoder *e, const uint8_t *y, const uint8_t *u, const uint8_t *v, sl_job *j, uint8_t *dy, uint8_t *du, uint8_t *dv);
size_t sl_bytes(const sl_encoder *e);
// Mean and variance of a plane, from at most 128 of its rows.
void sl_luma(const sl_scaler *s, const uint8_t *y, int stride, int w, int h, double *mean, double *variance);
