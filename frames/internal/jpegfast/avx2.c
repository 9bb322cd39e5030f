#include "simd.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>

// The loops of simd.c, twice as wide. What is left at the end of a row goes the same way as there.

#define AVX2 __attribute__((target("avx2")))
#define INLINE __attribute__((target("avx2"), always_inline)) static inline

INLINE __m256i to_full(__m256i v, int range) {
  if (range == SL_LUMA) {
    v = _mm256_subs_epu16(v, _mm256_set1_epi16(16));
    return _mm256_add_epi16(v, _mm256_mulhrs_epi16(v, _mm256_set1_epi16(SL_KY)));
  }
  if (range == SL_CHROMA) {
    __m256i c = _mm256_sub_epi16(v, _mm256_set1_epi16(128));
    return _mm256_add_epi16(v, _mm256_mulhrs_epi16(c, _mm256_set1_epi16(SL_KC)));
  }
  return v;
}

// 16 lanes of 16 bits to 16 bytes.
INLINE __m128i narrow(__m256i v) {
  return _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

// Two windows of 16 samples side by side.
INLINE __m256i both(const uint8_t *lo, const uint8_t *hi) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)lo)), _mm_loadu_si128((const void *)hi), 1);
}

AVX2 static void blend(uint8_t *d, const uint8_t *a, const uint8_t *b, int w1, int n) {
  const __m256i w = _mm256_set1_epi16((short)((w1 << 8) | (128 - w1))), half = _mm256_set1_epi16(64);
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i x = _mm256_loadu_si256((const void *)(a + i)), y = _mm256_loadu_si256((const void *)(b + i));
    __m256i lo = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(x, y), w), hi = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(x, y), w);
    lo = _mm256_srli_epi16(_mm256_add_epi16(lo, half), 7);
    hi = _mm256_srli_epi16(_mm256_add_epi16(hi, half), 7);
    _mm256_storeu_si256((void *)(d + i), _mm256_packus_epi16(lo, hi));
  }
  sl_ssse3.blend(d + i, a + i, b + i, w1, n - i);
}

AVX2 static void blend4(uint8_t *d, const uint8_t *const r[4], const int8_t w[4], int n) {
  const __m256i ab = _mm256_set1_epi16((short)(((unsigned)(uint8_t)w[1] << 8) | (uint8_t)w[0])), half = _mm256_set1_epi16(32);
  const __m256i cd = _mm256_set1_epi16((short)(((unsigned)(uint8_t)w[3] << 8) | (uint8_t)w[2]));
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i a = _mm256_loadu_si256((const void *)(r[0] + i)), b = _mm256_loadu_si256((const void *)(r[1] + i));
    __m256i c = _mm256_loadu_si256((const void *)(r[2] + i)), e = _mm256_loadu_si256((const void *)(r[3] + i));
    __m256i lo = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_unpacklo_epi8(a, b), ab), _mm256_maddubs_epi16(_mm256_unpacklo_epi8(c, e), cd));
    __m256i hi = _mm256_add_epi16(_mm256_maddubs_epi16(_mm256_unpackhi_epi8(a, b), ab), _mm256_maddubs_epi16(_mm256_unpackhi_epi8(c, e), cd));
    lo = _mm256_srai_epi16(_mm256_add_epi16(lo, half), 6);
    hi = _mm256_srai_epi16(_mm256_add_epi16(hi, half), 6);
    _mm256_storeu_si256((void *)(d + i), _mm256_packus_epi16(lo, hi));
  }
  const uint8_t *const rest[4] = {r[0] + i, r[1] + i, r[2] + i, r[3] + i};
  sl_ssse3.blend4(d + i, rest, w, n - i);
}

INLINE void copy_range(uint8_t *d, const uint8_t *r, int n, int range) {
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    __m256i v = to_full(_mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(r + i))), range);
    _mm_storeu_si128((void *)(d + i), narrow(v));
  }
  if (i < n) sl_ssse3.copy(d + i, r + i, n - i, range);
}

INLINE void one_window(uint8_t *d, const uint8_t *r, const sl_axis *a, int range) {
  const __m256i half = _mm256_set1_epi16(64);
  for (int g = 0; g < a->groups; g += 2) {
    __m256i v = both(r + a->off[g], r + a->off[g + 1]);
    v = _mm256_shuffle_epi8(v, _mm256_loadu_si256((const void *)(a->mask + g * 16)));
    v = _mm256_maddubs_epi16(v, _mm256_loadu_si256((const void *)(a->weight + g * 16)));
    v = to_full(_mm256_srli_epi16(_mm256_add_epi16(v, half), 7), range);
    _mm_storeu_si128((void *)(d + g * 8), narrow(v));
  }
}

INLINE void two_windows(uint8_t *d, const uint8_t *r, const sl_axis *a, int range) {
  const __m256i half = _mm256_set1_epi16(64);
  for (int g = 0; g < a->groups; g += 2) {
    const uint16_t *off = a->off + g * 2;
    __m256i v = both(r + off[0], r + off[2]), u = both(r + off[1], r + off[3]);
    v = _mm256_shuffle_epi8(v, _mm256_loadu_si256((const void *)(a->mask + sl_mask_at(a, g, 0))));
    u = _mm256_shuffle_epi8(u, _mm256_loadu_si256((const void *)(a->mask + sl_mask_at(a, g, 1))));
    v = _mm256_maddubs_epi16(_mm256_or_si256(v, u), _mm256_loadu_si256((const void *)(a->weight + g * 16)));
    v = to_full(_mm256_srli_epi16(_mm256_add_epi16(v, half), 7), range);
    _mm_storeu_si128((void *)(d + g * 8), narrow(v));
  }
}

INLINE void four_taps(uint8_t *d, const uint8_t *r, const sl_axis *a, int windows, int range) {
  const __m256i half = _mm256_set1_epi16(32), zero = _mm256_setzero_si256();
  const size_t more = sl_mask_more(a), weights = (size_t)a->groups * 16;
  for (int g = 0; g < a->groups; g += 2) {
    const uint16_t *off = a->off + g * windows;
    const uint8_t *mask = a->mask + sl_mask_at(a, g, 0);
    __m256i v = both(r + off[0], r + off[windows]);
    __m256i lo = _mm256_shuffle_epi8(v, _mm256_loadu_si256((const void *)mask)), hi = _mm256_shuffle_epi8(v, _mm256_loadu_si256((const void *)(mask + more)));
    if (windows == 2) {
      v = both(r + off[1], r + off[3]);
      mask = a->mask + sl_mask_at(a, g, 1);
      lo = _mm256_or_si256(lo, _mm256_shuffle_epi8(v, _mm256_loadu_si256((const void *)mask)));
      hi = _mm256_or_si256(hi, _mm256_shuffle_epi8(v, _mm256_loadu_si256((const void *)(mask + more))));
    }
    lo = _mm256_maddubs_epi16(lo, _mm256_loadu_si256((const void *)(a->weight + g * 16)));
    hi = _mm256_maddubs_epi16(hi, _mm256_loadu_si256((const void *)(a->weight + weights + g * 16)));
    v = _mm256_srai_epi16(_mm256_add_epi16(_mm256_add_epi16(lo, hi), half), 6);
    _mm_storeu_si128((void *)(d + g * 8), narrow(to_full(_mm256_max_epi16(v, zero), range)));
  }
}

// The range is a constant inside each call, so that the loops carry no branch.
AVX2 static void copy(uint8_t *d, const uint8_t *r, int n, int range) {
  if (range == SL_LUMA) copy_range(d, r, n, SL_LUMA);
  else if (range == SL_CHROMA) copy_range(d, r, n, SL_CHROMA);
  else copy_range(d, r, n, SL_PLAIN);
}

AVX2 static void across(uint8_t *d, const uint8_t *r, const sl_axis *a, int range) {
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

AVX2 static void across4(uint8_t *d, const uint8_t *r, const sl_axis *a, int range) {
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

// By two an axis, the most frequent; the rest as in simd.c.
AVX2 static int halve(uint8_t *d, const uint8_t *a, const uint8_t *b, int lo, int hi, int w, int kh, int kv) {
  if (!kh || !kv) return sl_ssse3.halve(d, a, b, lo, hi, w, kh, kv);
  const __m256i ones = _mm256_set1_epi8(1), two = _mm256_set1_epi16(2);
  int j = lo, end = w / 2 < hi ? w / 2 : hi; // outputs with all their columns
  for (; j + 16 <= end; j += 16) {
    __m256i x = _mm256_maddubs_epi16(_mm256_loadu_si256((const void *)(a + 2 * j)), ones);
    __m256i y = _mm256_maddubs_epi16(_mm256_loadu_si256((const void *)(b + 2 * j)), ones);
    x = _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(x, y), two), 2);
    _mm_storeu_si128((void *)(d + j), narrow(x));
  }
  return sl_ssse3.halve(d, a, b, j, hi, w, kh, kv);
}

AVX2 static int moments(const uint8_t *p, int n, uint64_t *sum, uint64_t *squares) {
  const __m256i zero = _mm256_setzero_si256();
  __m256i a = zero, b = zero; // b: 8 lanes of 32 bits; 4 * 255² a step, so 16384 steps fit
  int i = 0;
  for (; i + 32 <= n && i < 32 * 16384; i += 32) {
    __m256i v = _mm256_loadu_si256((const void *)(p + i));
    __m256i lo = _mm256_unpacklo_epi8(v, zero), hi = _mm256_unpackhi_epi8(v, zero);
    a = _mm256_add_epi64(a, _mm256_sad_epu8(v, zero));
    b = _mm256_add_epi32(b, _mm256_add_epi32(_mm256_madd_epi16(lo, lo), _mm256_madd_epi16(hi, hi)));
  }
  uint64_t s[4];
  uint32_t q[8];
  _mm256_storeu_si256((void *)s, a);
  _mm256_storeu_si256((void *)q, b);
  for (int k = 0; k < 4; k++) *sum += s[k];
  for (int k = 0; k < 8; k++) *squares += q[k];
  return i + sl_ssse3.moments(p + i, n - i, sum, squares);
}

INLINE __m256i mix(__m256i lo, __m256i hi, int a, int b) {
  const __m256i k = _mm256_set1_epi32((int)(((unsigned)b << 16) | ((unsigned)a & 0xffff))), half = _mm256_set1_epi32(8192);
  lo = _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(lo, k), half), 14);
  hi = _mm256_srai_epi32(_mm256_add_epi32(_mm256_madd_epi16(hi, k), half), 14);
  return _mm256_packs_epi32(lo, hi);
}

AVX2 static int matrix_chroma(uint8_t *u, uint8_t *v, int8_t *add, int n, const int16_t k[6]) {
  const __m256i mid = _mm256_set1_epi16(128);
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    __m256i cb = _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(u + i))), mid);
    __m256i cr = _mm256_sub_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(v + i))), mid);
    __m256i lo = _mm256_unpacklo_epi16(cb, cr), hi = _mm256_unpackhi_epi16(cb, cr), a = mix(lo, hi, k[0], k[1]);
    _mm_storeu_si128((void *)(add + i), _mm_packs_epi16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1)));
    _mm_storeu_si128((void *)(u + i), narrow(_mm256_add_epi16(mix(lo, hi, k[2], k[3]), mid)));
    _mm_storeu_si128((void *)(v + i), narrow(_mm256_add_epi16(mix(lo, hi, k[4], k[5]), mid)));
  }
  return i + sl_ssse3.matrix_chroma(u + i, v + i, add + i, n - i, k);
}

AVX2 static int matrix_luma(uint8_t *y, const int8_t *add, int n) {
  const __m256i turn = _mm256_set1_epi8((char)0x80);
  int i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(add + i / 2))), v = _mm256_loadu_si256((const void *)(y + i));
    a = _mm256_or_si256(a, _mm256_slli_epi16(a, 8)); // each twice
    v = _mm256_xor_si256(_mm256_adds_epi8(_mm256_xor_si256(v, turn), a), turn);
    _mm256_storeu_si256((void *)(y + i), v);
  }
  return i + sl_ssse3.matrix_luma(y + i, add + i / 2, n - i);
}

const struct sl_simd sl_avx2 = {blend, blend4, copy, across, across4, halve, moments, matrix_chroma, matrix_luma};
#endif
