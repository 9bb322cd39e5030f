#include "net.h"
#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-math-errno") // sqrtf as one instruction
#endif

// Vectors of GCC's own kind: AVX2 below a function that has it, what the machine has (SSE2, NEON) otherwise.
typedef float v8 __attribute__((vector_size(32)));
typedef float v8u __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t v8i __attribute__((vector_size(32)));
#define INLINE __attribute__((always_inline)) static inline

INLINE v8 load(const float *p) { return *(const v8u *)p; }
INLINE void store(float *p, v8 v) { *(v8u *)p = v; }
INLINE v8 all(float x) { return (v8){x, x, x, x, x, x, x, x}; }

INLINE v8 larger(v8 a, v8 b) {
  v8i m = a > b;
  return (v8)(((v8i)a & m) | ((v8i)b & ~m));
}

// ---- layers ----

// layer sets the `steps` rows of y to the products of a matrix with the vectors that begin at x, x + xstride ... A matrix is cut in
// blocks of 8*wide outputs: their biases, then their weights of the first input, of the second and so on. So each weight is read
// once for all steps, outputs share the lanes, and steps*wide = 8 sums do not wait for each other. Gives what follows the matrix.
INLINE const float *layer(const float *w, int in, int out, const int steps, const int wide, const float *x, int xstride, float *y, int ystride, const int relu) {
  for (int o = 0; o < out; o += 8 * wide) {
    v8 sum[8];
    for (int v = 0; v < wide; v++)
      for (int t = 0; t < steps; t++) sum[t * wide + v] = load(w + 8 * v);
    w += 8 * wide;
    for (int i = 0; i < in; i++, w += 8 * wide)
      for (int t = 0; t < steps; t++)
        for (int v = 0; v < wide; v++) sum[t * wide + v] += load(w + 8 * v) * all(x[t * xstride + i]);
    for (int t = 0; t < steps; t++)
      for (int v = 0; v < wide; v++) {
        v8 s = sum[t * wide + v];
        if (relu) s = larger(s, all(0));
        store(y + t * ystride + o + 8 * v, s);
      }
  }
  return w;
}

// exponential is right to about 1e-7 of the result: e^x = 2^n e^r, |r| <= ln 2 / 2, and a polynomial (Cephes' expf).
INLINE v8 exponential(v8 x) {
  x = larger(-larger(-x, all(-87)), all(-87)); // within ±87
  const v8 round = all(12582912.f); // 1.5 * 2^23: what is added to it loses its fraction
  v8 n = (x * all(1.44269504088896341f) + round) - round;
  v8 r = (x - n * all(0.693359375f)) - n * all(-2.12194440e-4f);
  v8 p = all(1.9875691500e-4f);
  p = p * r + all(1.3981999507e-3f);
  p = p * r + all(8.3334519073e-3f);
  p = p * r + all(4.1665795894e-2f);
  p = p * r + all(1.6666665459e-1f);
  p = p * r + all(5.0000001201e-1f);
  p = p * r * r + r + all(1);
  return p * (v8)((__builtin_convertvector(n, v8i) + 127) << 23);
}

INLINE v8 logistic(v8 x) { return all(1) / (all(1) + exponential(-x)); }
INLINE v8 hyperbolic(v8 x) { return all(2) * logistic(x + x) - all(1); }

// ---- spectrum ----

// fft16 transforms eight columns of sixteen rows in place.
INLINE void fft16(v8 *re, v8 *im) {
  static const float cosine[8] = {1, 0.92387953251f, 0.70710678119f, 0.38268343236f, 0, -0.38268343236f, -0.70710678119f, -0.92387953251f};
  static const float sine[8] = {0, 0.38268343236f, 0.70710678119f, 0.92387953251f, 1, 0.92387953251f, 0.70710678119f, 0.38268343236f};
  static const uint8_t reversed[16] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
  v8 a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = re[reversed[i]], b[i] = im[reversed[i]];
#pragma GCC unroll 4
  for (int half = 1; half < 16; half *= 2)
#pragma GCC unroll 8
    for (int start = 0; start < 16; start += 2 * half)
#pragma GCC unroll 8
      for (int k = 0; k < half; k++) {
        int p = start + k, q = p + half;
        v8 c = all(cosine[k * 8 / half]), s = all(sine[k * 8 / half]);
        v8 u = a[q] * c + b[q] * s, v = b[q] * c - a[q] * s;
        a[q] = a[p] - u, b[q] = b[p] - v;
        a[p] += u, b[p] += v;
      }
  for (int i = 0; i < 16; i++) re[i] = a[i], im[i] = b[i];
}

// magnitudes writes the magnitudes of two real windows, which share one complex transform of 16 x 16 points: columns, a turn of each
// point, columns of the transposed.
INLINE void magnitudes(const float *tables, const float *a, const float *b, float *ya, float *yb) {
  const float *cosine = tables + SL_POINTS, *sine = cosine + SL_POINTS;
  v8 re[2][16], im[2][16];
  float x[SL_POINTS + 1], y[SL_POINTS + 1];
  for (int c = 0; c < 2; c++) {
    for (int i = 0; i < 16; i++) {
      int at = 16 * i + 8 * c;
      v8 w = load(tables + at);
      re[c][i] = load(a + at) * w;
      im[c][i] = load(b + at) * w;
    }
    fft16(re[c], im[c]);
    for (int i = 0; i < 16; i++) {
      int at = 16 * i + 8 * c;
      v8 co = load(cosine + at), si = load(sine + at);
      store(x + at, re[c][i] * co + im[c][i] * si);
      store(y + at, im[c][i] * co - re[c][i] * si);
    }
  }
  for (int c = 0; c < 2; c++)
    for (int i = 0; i < 16; i++)
      for (int k = 0; k < 8; k++) re[c][i][k] = x[16 * (8 * c + k) + i], im[c][i][k] = y[16 * (8 * c + k) + i];
  for (int c = 0; c < 2; c++) {
    fft16(re[c], im[c]);
    for (int i = 0; i < 16; i++) store(x + 16 * i + 8 * c, re[c][i]), store(y + 16 * i + 8 * c, im[c][i]);
  }
  x[SL_POINTS] = x[0], y[SL_POINTS] = y[0];
  for (int k = 0; k < SL_BINS; k++) {
    int m = SL_POINTS - k;
    float ar = (x[k] + x[m]) / 2, ai = (y[k] - y[m]) / 2, br = (y[k] + y[m]) / 2, bi = (x[m] - x[k]) / 2;
    ya[k] = sqrtf(ar * ar + ai * ai);
    yb[k] = sqrtf(br * br + bi * bi);
  }
}

// ---- the net ----

INLINE float judge(const float *w, const int16_t *past, const int16_t *pcm, float *hidden, float *cell) {
  enum { END = SL_PAST + SL_FRAME, MIRRORED = 64, HOP = 128 };
  float x[END + MIRRORED];
  for (int i = 0; i < SL_PAST; i++) x[i] = past[i] / 32768.f;
  for (int i = 0; i < SL_FRAME; i++) x[SL_PAST + i] = pcm[i] / 32768.f;
  for (int i = 0; i < MIRRORED; i++) x[END + i] = x[END - 2 - i];

  // A convolution sees three steps, and zeros before the first and behind the last.
  float spectra[(SL_STEPS + 2) * SL_BINS], a[(SL_STEPS + 1) * 128], b[2 * 64], c[64], both[2 * SL_UNITS], gates[4 * SL_UNITS];
  memset(spectra, 0, SL_BINS * sizeof *spectra);
  memset(spectra + (SL_STEPS + 1) * SL_BINS, 0, SL_BINS * sizeof *spectra);
  memset(a, 0, 128 * sizeof *a);
  for (int t = 0; t < SL_STEPS; t += 2)
    magnitudes(w, x + t * HOP, x + (t + 1) * HOP, spectra + (t + 1) * SL_BINS, spectra + (t + 2) * SL_BINS);
  w += 3 * SL_POINTS;
  w = layer(w, 3 * SL_BINS, 128, 4, SL_BLOCK_0 / 8, spectra, SL_BINS, a + 128, 128, 1);
  w = layer(w, 3 * 128, 64, 2, SL_BLOCK_1 / 8, a, 2 * 128, b, 64, 1);
  w = layer(w, 2 * 64, 64, 1, SL_BLOCK / 8, b, 0, c, 0, 1);    // the first tap would see zeros only
  w = layer(w, 64, 128, 1, SL_BLOCK / 8, c, 0, both, 0, 1); // the first and the last tap would

  memcpy(both + SL_UNITS, hidden, SL_UNITS * sizeof *hidden);
  w = layer(w, 2 * SL_UNITS, 4 * SL_UNITS, 1, SL_BLOCK / 8, both, 0, gates, 0, 0);
  v8 sum = all(0);
  for (int i = 0; i < SL_UNITS; i += 8) {
    v8 in = logistic(load(gates + i)), forget = logistic(load(gates + SL_UNITS + i));
    v8 candidate = hyperbolic(load(gates + 2 * SL_UNITS + i)), out = logistic(load(gates + 3 * SL_UNITS + i));
    v8 kept = forget * load(cell + i) + in * candidate, h = out * hyperbolic(kept);
    store(cell + i, kept);
    store(hidden + i, h);
    sum += load(w + i) * larger(h, all(0));
  }
  float s = w[SL_UNITS];
  for (int k = 0; k < 8; k++) s += sum[k];
  return logistic(all(s))[0];
}

static float judge_plain(const float *net, const int16_t *past, const int16_t *pcm, float *state) {
  return judge(net, past, pcm, state, state + SL_UNITS);
}

#if defined(__x86_64__) || defined(__i386__)
int slvad_has_simd(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

__attribute__((target("avx2,fma"))) static float judge_simd(const float *net, const int16_t *past, const int16_t *pcm, float *state) {
  return judge(net, past, pcm, state, state + SL_UNITS);
}
#else
int slvad_has_simd(void) { return 0; }
#define judge_simd judge_plain
#endif

float slvad_judge(const float *net, const int16_t *past, const int16_t *pcm, float *state, int simd) {
  return simd ? judge_simd(net, past, pcm, state) : judge_plain(net, past, pcm, state);
}
