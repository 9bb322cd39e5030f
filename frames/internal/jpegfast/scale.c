#include "scale.h"
#include "simd.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- memory ----

void sl_scaler_init(sl_scaler *s, int kind) {
  memset(s, 0, sizeof *s);
  s->simd = sl_simd_of(kind);
  for (int i = 0; i < 256; i++) {
    double y = (i - 16) * 255.0 / 219 + .5, c = (i - 128) * 255.0 / 224 + 128.5;
    s->luma[i] = y < 0 ? 0 : y > 255 ? 255 : (uint8_t)y;
    s->chroma[i] = c < 0 ? 0 : c > 255 ? 255 : (uint8_t)c;
  }
}

int sl_scaler_reserve(sl_scaler *s, int w) {
  if (w <= s->cap) return 0;
  sl_scaler_free(s);
  s->row = malloc((size_t)w + SL_SLACK);
  s->acc = malloc(((size_t)w + SL_SLACK) * sizeof *s->acc);
  s->sum = malloc(((size_t)w + SL_SLACK) / 2 * sizeof *s->sum);
  if (!s->row || !s->acc || !s->sum) {
    sl_scaler_free(s);
    return -1;
  }
  s->cap = w;
  return 0;
}

void sl_scaler_free(sl_scaler *s) {
  free(s->row);
  free(s->acc);
  free(s->sum);
  s->row = NULL;
  s->acc = NULL;
  s->sum = NULL;
  s->cap = 0;
}

size_t sl_scaler_bytes(const sl_scaler *s) { return s->cap ? ((size_t)s->cap + SL_SLACK) * 5 : 0; }

void sl_axis_free(sl_axis *a) {
  free(a->pos);
  free(a->w1);
  free(a->w4);
  free(a->off);
  free(a->mask);
  free(a->weight);
  memset(a, 0, sizeof *a);
}

size_t sl_axis_bytes(const sl_axis *a) { return (size_t)a->cap * (2 + 1 + 4) + (size_t)(a->cap / 8) * (4 + 64 + 32); }

static int axis_reserve(sl_axis *a, int dst) {
  int cap = (dst + 15) & ~15;
  if (cap <= a->cap) return 0;
  sl_axis_free(a);
  a->pos = malloc(cap * 2);
  a->w1 = malloc(cap);
  a->w4 = malloc(cap * 4);
  a->off = malloc(cap / 8 * 4);
  a->mask = malloc(cap / 8 * 64);
  a->weight = malloc(cap / 8 * 32);
  if (!a->pos || !a->w1 || !a->w4 || !a->off || !a->mask || !a->weight) {
    sl_axis_free(a);
    return -1;
  }
  a->cap = cap;
  return 0;
}

// ---- taps ----

// The samples and weights of taps 2*pair and 2*pair+1 of output o.
static void pair_of(const sl_axis *a, int o, int pair, int x[2], int8_t w[2]) {
  x[0] = a->pos[o] + 2 * pair;
  x[1] = x[0] + 1;
  if (a->taps == 4) {
    w[0] = a->w4[o * 4 + 2 * pair];
    w[1] = a->w4[o * 4 + 2 * pair + 1];
  } else if (a->w1[o]) {
    w[0] = (int8_t)(128 - a->w1[o]);
    w[1] = (int8_t)a->w1[o];
  } else { // 128 does not fit the signed byte: the one sample twice, half each
    x[1] = x[0];
    w[0] = w[1] = 64;
  }
}

// Fills the SIMD tables with the given number of windows a group; 0 when 16 samples do not span what a window must serve.
static int axis_windows(sl_axis *a, int windows) {
  int per = 8 / windows, pairs = a->taps / 2;
  a->windows = windows;
  memset(a->mask, 0x80, sl_mask_more(a) * pairs); // 0x80: pshufb gives 0
  for (int g = 0; g < a->groups; g++) {
    for (int i = 0; i < 8; i++) {
      int o = g * 8 + i < a->dst ? g * 8 + i : a->dst - 1, k = i / per;
      uint16_t *base = a->off + g * windows + k;
      if (i % per == 0) *base = a->pos[o] < a->len - 16 ? a->pos[o] : a->len - 16;
      for (int p = 0; p < pairs; p++) {
        int x[2];
        pair_of(a, o, p, x, a->weight + (p * a->groups + g) * 16 + i * 2);
        if (x[1] - *base > 15) return 0;
        uint8_t *m = a->mask + p * sl_mask_more(a) + sl_mask_at(a, g, k) + i * 2;
        m[0] = x[0] - *base;
        m[1] = x[1] - *base;
      }
    }
  }
  return 1;
}

// Keys' cubic with a slope of -3/4 at 1: crisp text without more ringing than Lanczos.
static double cubic(double x) {
  const double s = -.75;
  x = fabs(x);
  if (x < 1) return ((s + 2) * x - (s + 3)) * x * x + 1;
  if (x < 2) return ((s * x - 5 * s) * x + 8 * s) * x - 4 * s;
  return 0;
}

// Four taps around c: going down the cubic is as wide as four taps can serve. What lies outside counts as the sample at the edge.
static void four_taps(sl_axis *a, int i, double c, double ratio) {
  double wide = ratio < 1 ? 1 : ratio > 1.3 ? 1.3 : ratio, k[4], sum = 0;
  int x0 = (int)floor(c) - 1, base = x0 < 0 ? 0 : x0 > a->len - 4 ? a->len - 4 : x0, left = 64, most = 0, w[4] = {0};
  for (int j = 0; j < 4; j++) sum += k[j] = cubic((c - x0 - j) / wide);
  for (int j = 0; j < 4; j++) {
    int x = x0 + j - base, v = (int)lrint(k[j] / sum * 64);
    w[x < 0 ? 0 : x > 3 ? 3 : x] += v;
    left -= v;
  }
  for (int j = 1; j < 4; j++)
    if (w[j] > w[most]) most = j;
  w[most] += left; // they add up to 64: a flat field stays as it is
  a->pos[i] = base;
  for (int j = 0; j < 4; j++) a->w4[i * 4 + j] = (int8_t)w[j];
}

static void two_taps(sl_axis *a, int i, double c) {
  if (c < 0) c = 0;
  if (c > a->len - 1) c = a->len - 1;
  int x0 = (int)c, w1 = (int)((c - x0) * 128 + .5);
  if (w1 == 128) {
    x0++;
    w1 = 0;
  }
  a->pos[i] = x0;
  a->w1[i] = w1;
  if (w1 || x0 != a->pos[0] + i) a->identity = 0;
}

int sl_axis_build(sl_axis *a, int src, int dst, double origin, double step, int sharp) {
  if (a->cap && a->src == src && a->dst == dst && a->origin == origin && a->step == step && a->sharp == sharp) return 0;
  if (axis_reserve(a, dst)) return -1;
  a->src = src;
  a->dst = dst;
  a->origin = origin;
  a->step = step;
  a->sharp = sharp;
  a->halve = 0;
  while (step / (1 << a->halve) >= 2 && (src >> a->halve) > 1 && a->halve < SL_MAX_HALVE) a->halve++;
  double unit = 1.0 / (1 << a->halve);
  a->len = (src + (1 << a->halve) - 1) >> a->halve;
  int exact = step * unit == 1 && origin * unit == floor(origin * unit); // every output is a sample
  a->taps = sharp && !exact && a->len >= 4 ? 4 : 2;
  a->identity = a->taps == 2;
  for (int i = 0; i < dst; i++) {
    double c = (origin + (i + .5) * step) * unit - .5;
    if (a->taps == 4) four_taps(a, i, c, step * unit);
    else two_taps(a, i, c);
  }
  a->lo = a->pos[0];
  a->hi = a->pos[dst - 1] + (a->taps == 4 ? 4 : a->w1[dst - 1] ? 2 : 1);
  a->groups = (dst + 15) / 16 * 2;
  if (a->len < 16 || !(axis_windows(a, 1) || axis_windows(a, 2))) a->groups = 0;
  else { // a window may begin before the first tap and end after the last
    for (int i = 0; i < a->groups * a->windows; i++) {
      if (a->off[i] < a->lo) a->lo = a->off[i];
      if (a->off[i] + 16 > a->hi) a->hi = a->off[i] + 16;
    }
  }
  return 0;
}

// ---- planes ----

int sl_plane_begin(sl_plane *pl, const uint8_t *p, int stride, int w, int h, const sl_axis *x, const sl_axis *y, int range) {
  pl->p = p;
  pl->stride = stride;
  pl->w = w;
  pl->h = h;
  pl->x = x;
  pl->y = y;
  pl->range = range;
  for (int i = 0; i < 4; i++) pl->have[i] = -1;
  if ((x->halve || y->halve) && x->len > pl->cap) {
    sl_plane_free(pl);
    for (int i = 0; i < 4; i++)
      if (!(pl->half[i] = malloc((size_t)x->len + SL_SLACK))) {
        sl_plane_free(pl);
        return -1;
      }
    pl->cap = x->len;
  }
  return 0;
}

void sl_plane_free(sl_plane *pl) {
  for (int i = 0; i < 4; i++) {
    free(pl->half[i]);
    pl->half[i] = NULL;
  }
  pl->cap = 0;
}

static const uint8_t *source_row(const sl_plane *pl, int y) {
  return pl->p + (size_t)(y < pl->h ? y : pl->h - 1) * pl->stride;
}

// Row i of the halved plane: the mean of 2^kh × 2^kv samples each. Rows and columns that are missing at the edge repeat the last one.
// Simple loops in memory order, which the compiler makes SIMD of; the usual case of one halving an axis is written out.
static void halve_row(sl_scaler *s, const sl_plane *pl, int i, uint8_t *d) {
  int kh = pl->x->halve, kv = pl->y->halve, lo = pl->x->lo, hi = pl->x->hi;
  if (kh <= 1 && kv <= 1 && s->simd) lo = s->simd->halve(d, source_row(pl, i << kv), source_row(pl, (i << kv) + kv), lo, hi, pl->w, kh, kv);
  if (lo == hi) return;
  int first = lo << kh, n = (hi - lo) << kh, have = pl->w - first < n ? pl->w - first : n;
  uint16_t *restrict acc = s->acc;
  const uint8_t *restrict r = source_row(pl, i << kv) + first;
  for (int x = 0; x < have; x++) acc[x] = r[x];
  for (int k = 1; k < 1 << kv; k++) {
    r = source_row(pl, (i << kv) + k) + first;
    for (int x = 0; x < have; x++) acc[x] += r[x];
  }
  for (int x = have; x < n; x++) acc[x] = acc[have - 1];
  uint32_t *sum = s->sum, round = kh + kv ? 1u << (kh + kv - 1) : 0;
  d += lo;
  if (!kh) {
    for (int x = 0; x < n; x++) d[x] = (uint8_t)((acc[x] + round) >> kv);
    return;
  }
  n /= 2;
  for (int x = 0; x < n; x++) sum[x] = (uint32_t)acc[2 * x] + acc[2 * x + 1];
  for (int k = 1; k < kh; k++) {
    n /= 2;
    for (int x = 0; x < n; x++) sum[x] = sum[2 * x] + sum[2 * x + 1];
  }
  for (int x = 0; x < n; x++) d[x] = (uint8_t)((sum[x] + round) >> (kh + kv));
}

static const uint8_t *plane_row(sl_scaler *s, sl_plane *pl, int i) {
  if (!pl->x->halve && !pl->y->halve) return source_row(pl, i);
  if (pl->have[i & 3] != i) {
    halve_row(s, pl, i, pl->half[i & 3]);
    pl->have[i & 3] = i;
  }
  return pl->half[i & 3];
}

static uint8_t clip(int v) { return v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v; }

static void blend(uint8_t *d, const uint8_t *a, const uint8_t *b, int w1, int n) {
  for (int i = 0; i < n; i++) d[i] = (a[i] * (128 - w1) + b[i] * w1 + 64) >> 7;
}

static void blend4(uint8_t *d, const uint8_t *const r[4], const int8_t w[4], int n) {
  for (int i = 0; i < n; i++) d[i] = clip((r[0][i] * w[0] + r[1][i] * w[1] + r[2][i] * w[2] + r[3][i] * w[3] + 32) >> 6);
}

static void across4(uint8_t *d, const uint8_t *r, const sl_axis *a) {
  for (int i = 0; i < a->dst; i++) {
    const uint8_t *p = r + a->pos[i];
    const int8_t *w = a->w4 + i * 4;
    d[i] = clip((p[0] * w[0] + p[1] * w[1] + p[2] * w[2] + p[3] * w[3] + 32) >> 6);
  }
}

static void across(uint8_t *d, const uint8_t *r, const sl_axis *a) {
  for (int i = 0; i < a->dst; i++) {
    int x0 = a->pos[i], w1 = a->w1[i];
    d[i] = w1 ? (r[x0] * (128 - w1) + r[x0 + 1] * w1 + 64) >> 7 : r[x0];
  }
}

static void ranged(uint8_t *d, int n, const uint8_t *lut) {
  for (int i = 0; i < n; i++) d[i] = lut[d[i]];
}

// The source's row, or rows blended, for output row i.
static const uint8_t *down(sl_scaler *s, sl_plane *pl, int i) {
  const sl_axis *x = pl->x, *y = pl->y;
  int y0 = y->pos[i], lo = x->lo, n = x->hi - lo;
  if (y->taps == 4) {
    const uint8_t *r[4];
    for (int k = 0; k < 4; k++) r[k] = plane_row(s, pl, y0 + k) + lo;
    if (s->simd) s->simd->blend4(s->row + lo, r, y->w4 + i * 4, n);
    else blend4(s->row + lo, r, y->w4 + i * 4, n);
    return s->row;
  }
  const uint8_t *r = plane_row(s, pl, y0);
  int w1 = y->w1[i];
  if (!w1) return r;
  const uint8_t *below = plane_row(s, pl, y0 + 1);
  if (s->simd) s->simd->blend(s->row + lo, r + lo, below + lo, w1, n);
  else blend(s->row + lo, r + lo, below + lo, w1, n);
  return s->row;
}

void sl_plane_row(sl_scaler *s, sl_plane *pl, int i, uint8_t *d) {
  const sl_axis *x = pl->x;
  const uint8_t *r = down(s, pl, i);
  if (s->simd && x->identity) {
    s->simd->copy(d, r + x->pos[0], x->dst, pl->range);
    return;
  }
  if (s->simd && x->groups) {
    if (x->taps == 4) s->simd->across4(d, r, x, pl->range);
    else s->simd->across(d, r, x, pl->range);
    return;
  }
  if (x->taps == 4) across4(d, r, x);
  else across(d, r, x);
  if (pl->range != SL_PLAIN) ranged(d, x->dst, pl->range == SL_LUMA ? s->luma : s->chroma);
}

void sl_moments(const sl_scaler *s, const uint8_t *p, int n, uint64_t *sum, uint64_t *squares) {
  uint64_t a = 0, b = 0;
  int i = s->simd ? s->simd->moments(p, n, &a, &b) : 0;
  for (; i < n; i++) {
    a += p[i];
    b += (uint32_t)p[i] * p[i];
  }
  *sum += a;
  *squares += b;
}

void sl_matrix_chroma(const sl_scaler *s, uint8_t *u, uint8_t *v, int8_t *add, int n, const int16_t k[6]) {
  int i = s->simd ? s->simd->matrix_chroma(u, v, add, n, k) : 0;
  for (; i < n; i++) {
    int cb = u[i] - 128, cr = v[i] - 128;
    add[i] = (int8_t)((k[0] * cb + k[1] * cr + 8192) >> 14);
    u[i] = clip(128 + ((k[2] * cb + k[3] * cr + 8192) >> 14));
    v[i] = clip(128 + ((k[4] * cb + k[5] * cr + 8192) >> 14));
  }
}

void sl_matrix_luma(const sl_scaler *s, uint8_t *y, const int8_t *add, int n) {
  int i = s->simd ? s->simd->matrix_luma(y, add, n) : 0;
  for (; i < n; i++) y[i] = clip(y[i] + add[i / 2]);
}
