// Row scaler of one 8-bit plane: two or four taps an axis after averaging by powers of two, range step fused into the horizontal pass; rows to another matrix.
#pragma once
#include <stddef.h>
#include <stdint.h>

// A plane is averaged down by at most 2^8 an axis, so that the sums of 256 rows fit 16 bits; beyond that samples are skipped.
enum { SL_MAX_SRC = 16384, SL_MAX_DST = 4096, SL_MAX_HALVE = 8, SL_SLACK = 64 + (1 << SL_MAX_HALVE) };

// What happens to the values on the way: nothing, video range luma to full range, the same for chroma.
enum { SL_PLAIN = 0, SL_LUMA = 1, SL_CHROMA = 2 };

// One axis of one plane, averaged down by 2^halve. With two taps output i reads samples pos[i] and pos[i]+1 with weights 128-w1[i] and
// w1[i]; a w1 of 0 reads one sample only, so pos[i]+1 may lie outside then. With four it reads pos[i] to pos[i]+3 with weights
// w4[4i] to w4[4i+3] in 64ths, all inside.
typedef struct {
  int src, dst, sharp; // the key, with origin and step
  double origin, step;
  int taps;
  int halve;    // so often halved first: what remains is a ratio below 2
  int len;      // samples after halving
  int lo, hi;   // samples that are read at all: [lo, hi)
  int identity; // output i is sample lo+i
  int cap;      // outputs the tables have room for
  uint16_t *pos;
  uint8_t *w1;
  int8_t *w4;
  int groups, windows; // SIMD: groups of 8 outputs, an even number, read 1 or 2 windows of 16 samples; 0: plain C only
  uint16_t *off;       // where window k of group g begins: [g * windows + k]
  uint8_t *mask;       // 16 a window, those of two groups side by side: see sl_mask_at; behind all of them those of the other two taps
  int8_t *weight;      // 16 a group; behind all of them those of the other two taps
} sl_axis;

// Where the mask of window k of group g begins, and how far on that of the other two taps is.
static inline size_t sl_mask_at(const sl_axis *a, int g, int k) { return (size_t)(g / 2 * a->windows + k) * 32 + g % 2 * 16; }
static inline size_t sl_mask_more(const sl_axis *a) { return (size_t)a->groups * a->windows * 16; }

struct sl_simd; // the inner loops for a kind of processor, in simd.h

// A plane being scaled: where it comes from and the newest halved rows of it.
typedef struct {
  const uint8_t *p;
  int stride, w, h;
  const sl_axis *x, *y;
  int range;
  uint8_t *half[4];
  int have[4]; // which row is in half[i], -1 none
  int cap;     // samples a half row has room for
} sl_plane;

typedef struct {
  const struct sl_simd *simd; // NULL: plain C
  uint8_t *row; // one vertically blended row, stays in L1
  uint16_t *acc; // sums down the columns
  uint32_t *sum; // sums of those across
  int cap;       // samples there is room for
  uint8_t luma[256], chroma[256];
} sl_scaler;

// The kinds of inner loops. All of them agree bit for bit.
enum { SL_C = 0, SL_SSSE3 = 1, SL_AVX2 = 2 };

int sl_best(void); // what this machine has
void sl_scaler_init(sl_scaler *s, int kind);
int sl_scaler_reserve(sl_scaler *s, int w); // 0, or -1 out of memory
void sl_scaler_free(sl_scaler *s);
size_t sl_scaler_bytes(const sl_scaler *s);

// Output i looks at origin + (i + 1/2) * step, in samples of the source; sharp: by four taps where there is anything to scale. 0, or -1
// out of memory.
int sl_axis_build(sl_axis *a, int src, int dst, double origin, double step, int sharp);
void sl_axis_free(sl_axis *a);
size_t sl_axis_bytes(const sl_axis *a);

int sl_plane_begin(sl_plane *pl, const uint8_t *p, int stride, int w, int h, const sl_axis *x, const sl_axis *y, int range);
void sl_plane_free(sl_plane *pl);
// Output row i into d, which has room for x->dst rounded up to 16.
void sl_plane_row(sl_scaler *s, sl_plane *pl, int i, uint8_t *d);

// From one matrix to another on full-range values, k in 2^-14: of n chroma samples what their luma has to be given (add), and what they
// are themselves then; after that n luma samples, each of which has the chroma sample of its own block of 2×2.
void sl_matrix_chroma(const sl_scaler *s, uint8_t *u, uint8_t *v, int8_t *add, int n, const int16_t k[6]);
void sl_matrix_luma(const sl_scaler *s, uint8_t *y, const int8_t *add, int n);

// Sum and sum of squares of n samples.
void sl_moments(const sl_scaler *s, const uint8_t *p, int n, uint64_t *sum, uint64_t *squares);
