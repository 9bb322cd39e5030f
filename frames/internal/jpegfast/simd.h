// The SSSE3 forms of the scaler's inner loops. They agree bit for bit with the plain C ones in scale.c.
#pragma once
#include "scale.h"

void sl_simd_blend(uint8_t *d, const uint8_t *a, const uint8_t *b, int w1, int n);
void sl_simd_copy(uint8_t *d, const uint8_t *r, int n, int range);
void sl_simd_across(uint8_t *d, const uint8_t *r, const sl_axis *a, int range);
// Averages by 2^kh columns and 2^kv rows (each 0 or 1); returns the first output it left to plain C.
int sl_simd_halve(uint8_t *d, const uint8_t *a, const uint8_t *b, int lo, int hi, int w, int kh, int kv);
// Returns how many of the n samples it has counted.
int sl_simd_moments(const uint8_t *p, int n, uint64_t *sum, uint64_t *squares);
