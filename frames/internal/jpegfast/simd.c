#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>

#define SSSE3 __attribute__((target("ssse3")))
#define INLINE __attribute__((target("ssse3"), always_inline)) static inline

int sl_best(void) { return __builtin_cpu_supports("avx2") ? SL_AVX2 : __builtin_cpu_supports("ssse3") ? SL_SSSE3 : SL_C; }

const struct sl_simd *sl_simd_of(int kind) {
  if (kind > sl_best()) kind = SL_C;
  return kind == SL_AVX2 ? &sl_avx2 : kind == SL_SSSE3 ? &sl_ssse3 : NULL;
}

INLINE __m128i to_full(__m128i v, int range) {
  if (range == SL_LUMA) {
    v = _mm_subs_epu16(v, _mm_set1_epi16(16));
    return _mm_add_epi16(v, _mm_mulhrs_epi16(v, _mm_set1_epi16(SL_KY)));
  }
  if (range == SL_CHROMA) {
    __m128i c = _mm_sub_epi16(v, _mm_set1_epi16(128));
    return _mm_add_epi16(v, _mm_mulhrs_epi16(c, _mm_set1_epi16(SL_KC)));
  }
  return v;
}

SSSE3 static void blend(uint8_t *d, const uint8_t *a, const uint8_t *b, int w1, int n) {
  const __m128i w = _mm_set1_epi16((short)((w1 << 8) | (128 - w1))), half = _mm_set1_epi16(64);
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    __m128i x = _mm_loadu_si128((const void *)(a + i)), y = _mm_loadu_si128((const void *)(b + i));
    __m128i lo = _mm_maddubs_epi16(_mm_unpacklo_epi8(x, y), w), hi = _mm_maddubs_epi16(_mm_unpackhi_epi8(x, y), w);
    lo = _mm_srli_epi16(_mm_add_epi16(lo, half), 7);
    hi = _mm_srli_epi16(_mm_add_epi16(hi, half), 7);
    _mm_storeu_si128((void *)(d + i), _mm_packus_epi16(lo, hi));
  }
  for (; i < n; i++) d[i] = (a[i] * (128 - w1) + b[i] * w1 + 64) >> 7; // never reads past the row
}

SSSE3 static void blend4(uint8_t *d, const uint8_t *const r[4], const int8_t w[4], int n) {
  const __m128i ab = _mm_set1_epi16((short)(((unsigned)(uint8_t)w[1] << 8) | (uint8_t)w[0])), half = _mm_set1_epi16(32);
  const __m128i cd = _mm_set1_epi16((short)(((unsigned)(uint8_t)w[3] << 8) | (uint8_t)w[2]));
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    __m128i a = _mm_loadu_si128((const void *)(r[0] + i)), b = _mm_loadu_si128((const void *)(r[1] + i));
    __m128i c = _mm_loadu_si128((const void *)(r[2] + i)), e = _mm_loadu_si128((const void *)(r[3] + i));
    __m128i lo = _mm_add_epi16(_mm_maddubs_epi16(_mm_unpacklo_epi8(a, b), ab), _mm_maddubs_epi16(_mm_unpacklo_epi8(c, e), cd));
    __m128i hi = _mm_add_epi16(_mm_maddubs_epi16(_mm_unpackhi_epi8(a, b), ab), _mm_maddubs_epi16(_mm_unpackhi_epi8(c, e), cd));
    lo = _mm_srai_epi16(_mm_add_epi16(lo, half), 6);
    hi = _mm_srai_epi16(_mm_add_epi16(hi, half), 6);
    _mm_storeu_si128((void *)(d + i), _mm_packus_epi16(lo, hi));
  }
  for (; i < n; i++) {
    int v = (r[0][i] * w[0] + r[1][i] * w[1] + r[2][i] * w[2] + r[3][i] * w[3] + 32) >> 6;
    d[i] = v < 0 ? 0 : v > 255 ? 255 : (uint8_t)v;
  }
}

// 8 outputs at a time; the last group is gathered in a block of its own, never read past the row.
INLINE void copy_range(uint8_t *d, const uint8_t *r, int n, int range) {
  const __m128i zero = _mm_setzero_si128();
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i v = to_full(_mm_unpacklo_epi8(_mm_loadl_epi64((const void *)(r + i)), zero), range);
    _mm_storel_epi64((void *)(d + i), _mm_packus_epi16(v, v));
  }
  if (i == n) return;
  uint8_t t[8] = {0};
  for (int k = 0; i + k < n; k++) t[k] = r[i + k];
  __m128i v = to_full(_mm_unpacklo_epi8(_mm_loadl_epi64((const void *)t), zero), range);
  _mm_storel_epi64((void *)(d + i), _mm_packus_epi16(v, v));
}

INLINE void one_window(uint8_t *d, const uint8_t *r, const sl_axis *a, int range) {
  const __m128i half = _mm_set1_epi16(64);
  for (int g = 0; g < a->groups; g++) {
    __m128i v = _mm_loadu_si128((const void *)(r + a->off[g]));
    v = _mm_shuffle_epi8(v, _mm_loadu_si128((const void *)(a->mask + g * 16)));
    v = _mm_maddubs_epi16(v, _mm_loadu_si128((const void *)(a->weight + g * 16)));
    v = to_full(_mm_srli_epi16(_mm_add_epi16(v, half), 7), range);
    _mm_storel_epi64((void *)(d + g * 8), _mm_packus_epi16(v, v));
  }
}

INLINE void two_windows(uint8_t *d, const uint8_t *r, const sl_axis *a, int range) {
  const __m128i half = _mm_set1_epi16(64);
  for (int g = 0; g < a->groups; g++) {
    __m128i v = _mm_loadu_si128((const void *)(r + a->off[g * 2])), u = _mm_loadu_si128((const void *)(r + a->off[g * 2 + 1]));
    v = _mm_shuffle_epi8(v, _mm_loadu_si128((const void *)(a->mask + sl_mask_at(a, g, 0))));
    u = _mm_shuffle_epi8(u, _mm_loadu_si128((const void *)(a->mask + sl_mask_at(a, g, 1))));
    v = _mm_maddubs_epi16(_mm_or_si128(v, u), _mm_loadu_si128((const void *)(a->weight + g * 16)));
    v = to_full(_mm_srli_epi16(_mm_add_epi16(v, half), 7), range);
    _mm_storel_epi64((void *)(d + g * 8), _mm_packus_epi16(v, v));
  }
}

// Four taps: two pairs of them. What the cubic takes below 0 is 0 before the range step, as it would be in a picture.
INLINE void four_taps(uint8_t *d, const uint8_t *r, const sl_axis *a, int windows, int range) {
  const __m128i half = _mm_set1_epi16(32), zero = _mm_setzero_si128();
  const size_t more = sl_mask_more(a), weights = (size_t)a->groups * 16;
  for (int g = 0; g < a->groups; g++) {
    const uint8_t *mask = a->mask + sl_mask_at(a, g, 0);
    __m128i v = _mm_loadu_si128((const void *)(r + a->off[g * windows]));
    __m128i lo = _mm_shuffle_epi8(v, _mm_loadu_si128((const void *)mask)), hi = _mm_shuffle_epi8(v, _mm_loadu_si128((const void *)(mask + more)));
    if (windows == 2) {
      v = _mm_loadu_si128((const void *)(r + a->off[g * 2 + 1]));
      mask = a->mask + sl_mask_at(a, g, 1);
      lo = _mm_or_si128(lo, _mm_shuffle_epi8(v, _mm_loadu_si128((const void *)mask)));
      hi = _mm_or_si128(hi, _mm_shuffle_epi8(v, _mm_loadu_si128((const void *)(mask + more))));
    }
    lo = _mm_maddubs_epi16(lo, _mm_loadu_si128((const void *)(a->weight + g * 16)));
    hi = _mm_maddubs_epi16(hi, _mm_loadu_si128((const void *)(a->weight + weights + g * 16)));
    v = _mm_srai_epi16(_mm_add_epi16(_mm_add_epi16(lo, hi), half), 6);
    v = to_full(_mm_max_epi16(v, zero), range);
    _mm_storel_epi64((void *)(d + g * 8), _mm_packus_epi16(v, v));
  }
}

// The range is a constant inside each call, so that the loops carry no branch.
SSSE3 static void copy(uint8_t *d, const uint8_t *r, int n, int range) {
  if (range == SL_LUMA) copy_range(d, r, n, SL_LUMA);
  else if (range == SL_CHROMA) copy_range(d, r, n, SL_CHROMA);
  else copy_range(d, r, n, SL_PLAIN);
}

SSSE3 static void across(uint8_t *d, const uint8_t *r, const sl_axis *a, int range) {
  if (a->windows == 2) {
    if (range == SL_LUMA) two_windows(d, r, a, SL_LUMA);
    else if (range == SL_CHROMA) two_windows(d, r, a, SL_CHROMA);
    else two_windows(d, r, a, SL_PLAIN);
    return;
  }
  if (range == SL_LUMA) one_window(d, r, a, SL_LUMA);
  else if (range == SL_CHROMA) one_window(d, r, a, SL_CHROMA);
  else one_window(d, r, a, SL_PLAIN);
}

SSSE3 static void across4(uint8_t *d, const uint8_t *r, const sl_axis *a, int range) {
  if (a->windows == 2) {
    if (range == SL_LUMA) four_taps(d, r, a, 2, SL_LUMA);
    else if (range == SL_CHROMA) four_taps(d, r, a, 2, SL_CHROMA);
    else four_taps(d, r, a, 2, SL_PLAIN);
    return;
  }
  if (range == SL_LUMA) four_taps(d, r, a, 1, SL_LUMA);
  else if (range == SL_CHROMA) four_taps(d, r, a, 1, SL_CHROMA);
  else four_taps(d, r, a, 1, SL_PLAIN);
}

SSSE3 static int halve_both(uint8_t *d, const uint8_t *a, const uint8_t *b, int lo, int end) {
  const __m128i ones = _mm_set1_epi8(1), two = _mm_set1_epi16(2);
  int j = lo;
  for (; j + 8 <= end; j += 8) {
    __m128i x = _mm_maddubs_epi16(_mm_loadu_si128((const void *)(a + 2 * j)), ones);
    __m128i y = _mm_maddubs_epi16(_mm_loadu_si128((const void *)(b + 2 * j)), ones);
    x = _mm_srli_epi16(_mm_add_epi16(_mm_add_epi16(x, y), two), 2);
    _mm_storel_epi64((void *)(d + j), _mm_packus_epi16(x, x));
  }
  return j;
}

SSSE3 static int halve_columns(uint8_t *d, const uint8_t *a, int lo, int end) {
  const __m128i ones = _mm_set1_epi8(1), one = _mm_set1_epi16(1);
  int j = lo;
  for (; j + 8 <= end; j += 8) {
    __m128i x = _mm_maddubs_epi16(_mm_loadu_si128((const void *)(a + 2 * j)), ones);
    x = _mm_srli_epi16(_mm_add_epi16(x, one), 1);
    _mm_storel_epi64((void *)(d + j), _mm_packus_epi16(x, x));
  }
  return j;
}

SSSE3 static int halve_rows(uint8_t *d, const uint8_t *a, const uint8_t *b, int lo, int end) {
  int j = lo;
  for (; j + 16 <= end; j += 16) {
    __m128i x = _mm_avg_epu8(_mm_loadu_si128((const void *)(a + j)), _mm_loadu_si128((const void *)(b + j)));
    _mm_storeu_si128((void *)(d + j), x);
  }
  return j;
}

static int halve(uint8_t *d, const uint8_t *a, const uint8_t *b, int lo, int hi, int w, int kh, int kv) {
  int end = w >> kh; // outputs with all their columns
  if (end > hi) end = hi;
  if (kh && kv) return halve_both(d, a, b, lo, end);
  if (kh) return halve_columns(d, a, lo, end);
  return halve_rows(d, a, b, lo, end);
}

SSSE3 static int moments(const uint8_t *p, int n, uint64_t *sum, uint64_t *squares) {
  const __m128i zero = _mm_setzero_si128();
  __m128i a = zero, b = zero; // b: 4 lanes of 32 bits; 4 * 255² a step, so 16384 steps fit
  int i = 0;
  for (; i + 16 <= n && i < 16 * 16384; i += 16) {
    __m128i v = _mm_loadu_si128((const void *)(p + i));
    __m128i lo = _mm_unpacklo_epi8(v, zero), hi = _mm_unpackhi_epi8(v, zero);
    a = _mm_add_epi64(a, _mm_sad_epu8(v, zero));
    b = _mm_add_epi32(b, _mm_add_epi32(_mm_madd_epi16(lo, lo), _mm_madd_epi16(hi, hi)));
  }
  uint64_t s[2];
  uint32_t q[4];
  _mm_storeu_si128((void *)s, a);
  _mm_storeu_si128((void *)q, b);
  *sum += s[0] + s[1];
  *squares += (uint64_t)q[0] + q[1] + q[2] + q[3];
  return i;
}

// Two products and their sum in 32 bits for each of 8 samples, rounded and taken down by 14 bits.
INLINE __m128i mix(__m128i lo, __m128i hi, int a, int b) {
  const __m128i k = _mm_set1_epi32((int)(((unsigned)b << 16) | ((unsigned)a & 0xffff))), half = _mm_set1_epi32(8192);
  lo = _mm_srai_epi32(_mm_add_epi32(_mm_madd_epi16(lo, k), half), 14);
  hi = _mm_srai_epi32(_mm_add_epi32(_mm_madd_epi16(hi, k), half), 14);
  return _mm_packs_epi32(lo, hi);
}

SSSE3 static int matrix_chroma(uint8_t *u, uint8_t *v, int8_t *add, int n, const int16_t k[6]) {
  const __m128i zero = _mm_setzero_si128(), mid = _mm_set1_epi16(128);
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i cb = _mm_sub_epi16(_mm_unpacklo_epi8(_mm_loadl_epi64((const void *)(u + i)), zero), mid);
    __m128i cr = _mm_sub_epi16(_mm_unpacklo_epi8(_mm_loadl_epi64((const void *)(v + i)), zero), mid);
    __m128i lo = _mm_unpacklo_epi16(cb, cr), hi = _mm_unpackhi_epi16(cb, cr), a = mix(lo, hi, k[0], k[1]);
    cb = _mm_add_epi16(mix(lo, hi, k[2], k[3]), mid);
    cr = _mm_add_epi16(mix(lo, hi, k[4], k[5]), mid);
    _mm_storel_epi64((void *)(add + i), _mm_packs_epi16(a, a));
    _mm_storel_epi64((void *)(u + i), _mm_packus_epi16(cb, cb));
    _mm_storel_epi64((void *)(v + i), _mm_packus_epi16(cr, cr));
  }
  return i;
}

// Adding signed to unsigned bytes, saturated: with the sign bit turned it is signed to signed.
SSSE3 static int matrix_luma(uint8_t *y, const int8_t *add, int n) {
  const __m128i turn = _mm_set1_epi8((char)0x80);
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    __m128i a = _mm_loadl_epi64((const void *)(add + i / 2)), v = _mm_loadu_si128((const void *)(y + i));
    v = _mm_xor_si128(_mm_adds_epi8(_mm_xor_si128(v, turn), _mm_unpacklo_epi8(a, a)), turn);
    _mm_storeu_si128((void *)(y + i), v);
  }
  return i;
}

const struct sl_simd sl_ssse3 = {blend, blend4, copy, across, across4, halve, moments, matrix_chroma, matrix_luma};

#else // every other machine: plain C

int sl_best(void) { return SL_C; }
const struct sl_simd *sl_simd_of(int kind) {
  (void)kind;
  return NULL;
}
#endif
