// SIMD forms of the scaler's inner loops. They agree bit for bit with the plain C ones in scale.c. Those that return a number leave the
// rest to plain C.
#pragma once
#include "scale.h"

struct sl_simd {
  void (*blend)(uint8_t *d, const uint8_t *a, const uint8_t *b, int w1, int n);
  void (*blend4)(uint8_t *d, const uint8_t *const r[4], const int8_t w[4], int n);
  void (*copy)(uint8_t *d, const uint8_t *r, int n, int range);
  void (*across)(uint8_t *d, const uint8_t *r, const sl_axis *a, int range);
  void (*across4)(uint8_t *d, const uint8_t *r, const sl_axis *a, int range);
  // Averages by 2^kh columns and 2^kv rows (each 0 or 1); returns the first output it left.
  int (*halve)(uint8_t *d, const uint8_t *a, const uint8_t *b, int lo, int hi, int w, int kh, int kv);
  int (*moments)(const uint8_t *p, int n, uint64_t *sum, uint64_t *squares); // returns how many of the n it has counted
  int (*matrix_chroma)(uint8_t *u, uint8_t *v, int8_t *add, int n, const int16_t k[6]);
  int (*matrix_luma)(uint8_t *y, const int8_t *add, int n);
};

const struct sl_simd *sl_simd_of(int kind); // NULL for SL_C, and for what the machine does not have

#if defined(__x86_64__) || defined(__i386__)
extern const struct sl_simd sl_ssse3, sl_avx2;
#endif

// Video range to full range, on 16-bit lanes holding 0–255; mulhrs multiplies, rounds and takes the product down by 15 bits:
//   luma   y' = y + y*(255/219 - 1),        y = max(v - 16, 0)
//   chroma c' = 128 + c + c*(255/224 - 1),  c = v - 128
// With these factors every one of the 256 values comes out as the exact formula rounded (tested).
enum { SL_KY = 5387, SL_KC = 4533 };
