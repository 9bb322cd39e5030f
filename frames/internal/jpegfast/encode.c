#include "encode.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>

enum {
  STRIP = 16,              // rows of one MCU row
  OUT_START = 256 << 10,   // bytes; a 1024² camera image at quality 75 is about 50 KB
  OUT_KEEP = 1 << 20,      // a larger buffer goes when the next image has not needed it
  LUMA_ROWS = 128,         // rows looked at for the mean
  STRIDE_MAX = SL_MAX_DST + 2 * SL_SLACK
};

struct sl_encoder {
  sl_scaler s;
  sl_axis lx, ly, cx, cy; // luma and chroma, across and down
  sl_plane plane[3];
  uint8_t *strip; // 16 luma rows, 8 and 8 chroma rows of STRIDE_MAX
  struct jpeg_compress_struct c;
  struct jpeg_error_mgr err;
  jmp_buf jb;
  struct jpeg_destination_mgr dst;
  uint8_t *out;
  size_t cap, n;
  int open, quality, optimized;
};

// ---- libjpeg's destination and errors ----

static void on_error(j_common_ptr c) { longjmp(((sl_encoder *)c->client_data)->jb, 1); }
static void on_message(j_common_ptr c) { (void)c; }

static void dst_init(j_compress_ptr c) {
  sl_encoder *e = c->client_data;
  e->dst.next_output_byte = e->out;
  e->dst.free_in_buffer = e->cap;
}

static boolean dst_grow(j_compress_ptr c) {
  sl_encoder *e = c->client_data;
  uint8_t *b = realloc(e->out, e->cap * 2);
  if (!b) ERREXIT(c, JERR_OUT_OF_MEMORY);
  e->dst.next_output_byte = b + e->cap;
  e->dst.free_in_buffer = e->cap;
  e->out = b;
  e->cap *= 2;
  return TRUE;
}

static void dst_done(j_compress_ptr c) {
  sl_encoder *e = c->client_data;
  e->n = e->cap - e->dst.free_in_buffer;
}

static void close_jpeg(sl_encoder *e) {
  if (e->open) jpeg_destroy_compress(&e->c);
  e->open = 0;
}

static int open_jpeg(sl_encoder *e) {
  memset(&e->c, 0, sizeof e->c);
  e->c.err = jpeg_std_error(&e->err);
  e->err.error_exit = on_error;
  e->err.output_message = on_message;
  e->c.client_data = e;
  if (setjmp(e->jb)) { // out of memory while it was being made
    jpeg_destroy_compress(&e->c);
    return -1;
  }
  jpeg_create_compress(&e->c);
  e->dst.init_destination = dst_init;
  e->dst.empty_output_buffer = dst_grow;
  e->dst.term_destination = dst_done;
  e->c.dest = &e->dst;
  e->open = 1;
  e->quality = -1;
  e->optimized = 0;
  return 0;
}

// ---- life ----

sl_encoder *sl_new(int kind) {
  sl_encoder *e = calloc(1, sizeof *e);
  if (!e) return NULL;
  sl_scaler_init(&e->s, kind);
  e->strip = malloc((size_t)STRIDE_MAX * STRIP * 2);
  e->cap = OUT_START;
  e->out = malloc(e->cap);
  if (!e->strip || !e->out || open_jpeg(e)) {
    sl_free(e);
    return NULL;
  }
  return e;
}

void sl_free(sl_encoder *e) {
  if (!e) return;
  close_jpeg(e);
  sl_axis_free(&e->lx);
  sl_axis_free(&e->ly);
  sl_axis_free(&e->cx);
  sl_axis_free(&e->cy);
  for (int i = 0; i < 3; i++) sl_plane_free(&e->plane[i]);
  sl_scaler_free(&e->s);
  free(e->strip);
  free(e->out);
  free(e);
}

size_t sl_bytes(const sl_encoder *e) {
  size_t n = sizeof *e + e->cap + (size_t)STRIDE_MAX * STRIP * 2 + sl_scaler_bytes(&e->s);
  n += sl_axis_bytes(&e->lx) + sl_axis_bytes(&e->ly) + sl_axis_bytes(&e->cx) + sl_axis_bytes(&e->cy);
  for (int i = 0; i < 3; i++) n += e->plane[i].cap ? 4 * ((size_t)e->plane[i].cap + SL_SLACK) : 0;
  return n;
}

// ---- one image ----

static int prepare(sl_encoder *e, const uint8_t *y, const uint8_t *u, const uint8_t *v, const sl_job *j) {
  int sw = (j->sw + 1) / 2, sh = (j->sh + 1) / 2, iw = (j->iw + 1) / 2, ih = (j->ih + 1) / 2;
  double px = j->cw / j->iw, py = j->ch / j->ih; // one chroma output steps as many chroma samples as luma steps pixels
  if (sl_scaler_reserve(&e->s, j->sw) || sl_axis_build(&e->lx, j->sw, j->iw, j->cx, px, j->sharp) ||
      sl_axis_build(&e->ly, j->sh, j->ih, j->cy, py, j->sharp) || sl_axis_build(&e->cx, sw, iw, j->cx / 2, px, 0) ||
      sl_axis_build(&e->cy, sh, ih, j->cy / 2, py, 0))
    return -1;
  int luma = j->full_range ? SL_PLAIN : SL_LUMA, chroma = j->full_range ? SL_PLAIN : SL_CHROMA;
  return sl_plane_begin(&e->plane[0], y, j->ystride, j->sw, j->sh, &e->lx, &e->ly, luma) ||
         sl_plane_begin(&e->plane[1], u, j->cstride, sw, sh, &e->cx, &e->cy, chroma) ||
         sl_plane_begin(&e->plane[2], v, j->cstride, sw, sh, &e->cx, &e->cy, chroma);
}

// Row y of a component of the image: the picture's where it is, black elsewhere, the last column repeated to the end of the MCU, so
// that neither old bytes nor ringing show at the right edge.
static void image_row(sl_encoder *e, int comp, const sl_job *j, int y, uint8_t *d) {
  int half = comp != 0, black = half ? 128 : 0;
  int w = half ? (j->dw + 1) / 2 : j->dw, end = ((j->dw + 15) & ~15) >> half;
  int ix = j->ix >> half, iy = j->iy >> half;
  int iw = half ? (j->iw + 1) / 2 : j->iw, ih = half ? (j->ih + 1) / 2 : j->ih;
  if (y < iy || y >= iy + ih) {
    memset(d, black, end);
    return;
  }
  memset(d, black, ix);
  sl_plane_row(&e->s, &e->plane[comp], y - iy, d + ix);
  if (ix + iw < w) memset(d + ix + iw, black, w - ix - iw);
  if (w < end) memset(d + w, d[w - 1], end - w);
}

// Rows r to r+15 of the image, in cache; below the last row it is repeated, by pointer. n is how many rows of luma are the image's own.
typedef struct {
  JSAMPROW y[STRIP], u[STRIP / 2], v[STRIP / 2];
  int n;
} rows;

static void fill_rows(sl_encoder *e, const sl_job *j, int r, rows *o) {
  uint8_t *p = e->strip;
  int end = (j->dw + 15) & ~15;
  o->n = j->dh - r < STRIP ? j->dh - r : STRIP;
  for (int i = 0; i < STRIP / 2; i++) {
    if (2 * i >= o->n) {
      o->u[i] = o->u[i - 1];
      o->v[i] = o->v[i - 1];
      continue;
    }
    o->u[i] = p + (size_t)(STRIP + i) * STRIDE_MAX;
    o->v[i] = p + (size_t)(STRIP + STRIP / 2 + i) * STRIDE_MAX;
    image_row(e, 1, j, r / 2 + i, o->u[i]);
    image_row(e, 2, j, r / 2 + i, o->v[i]);
  }
  int8_t add[SL_MAX_DST / 2 + 16];
  for (int i = 0; i < STRIP; i++) {
    if (i >= o->n) {
      o->y[i] = o->y[i - 1];
      continue;
    }
    o->y[i] = p + (size_t)i * STRIDE_MAX;
    image_row(e, 0, j, r + i, o->y[i]);
    if (!j->matrix) continue;
    if (i % 2 == 0) sl_matrix_chroma(&e->s, o->u[i / 2], o->v[i / 2], add, end / 2, j->k);
    sl_matrix_luma(&e->s, o->y[i], add, end);
  }
}

static void shrink_out(sl_encoder *e) {
  if (e->cap <= OUT_KEEP || e->n * 4 > e->cap) return;
  uint8_t *b = realloc(e->out, OUT_KEEP);
  if (!b) return;
  e->out = b;
  e->cap = OUT_KEEP;
}

static int write_jpeg(sl_encoder *e, sl_job *j) {
  j_compress_ptr c = &e->c;
  // jpeg_set_defaults() keeps the tables made for an earlier optimised image, and a plain one would come out with codes missing
  // and no error: such a compressor is made anew.
  if (e->optimized && !j->optimize) close_jpeg(e);
  if (!e->open && open_jpeg(e)) return SL_MEMORY;
  shrink_out(e);
  if (setjmp(e->jb)) { // in this very function: a jmp_buf of a function that returned must never be jumped to
    j->jpeg_code = e->err.msg_code;
    close_jpeg(e);
    return SL_JPEG;
  }
  c->image_width = (JDIMENSION)j->dw;
  c->image_height = (JDIMENSION)j->dh;
  c->input_components = 3;
  c->in_color_space = JCS_YCbCr;
  if (e->quality != j->quality) {
    jpeg_set_defaults(c);
    jpeg_set_quality(c, j->quality, TRUE);
    e->quality = j->quality;
  }
  c->raw_data_in = TRUE;
  c->dct_method = JDCT_ISLOW; // as fast as IFAST here: both are SIMD
  c->optimize_coding = e->optimized = j->optimize != 0;
  jpeg_start_compress(c, TRUE);
  for (int r = 0; r < j->dh; r += STRIP) {
    rows o;
    fill_rows(e, j, r, &o);
    JSAMPARRAY mcu[3] = {o.y, o.u, o.v};
    jpeg_write_raw_data(c, mcu, STRIP);
  }
  jpeg_finish_compress(c);
  j->out = e->out;
  j->n = e->n;
  return SL_OK;
}

int sl_encode(sl_encoder *e, const uint8_t *y, const uint8_t *u, const uint8_t *v, sl_job *j) {
  j->out = NULL;
  j->n = 0;
  if (prepare(e, y, u, v, j)) return SL_MEMORY;
  sl_luma(&e->s, y, j->ystride, j->sw, j->sh, &j->mean, &j->variance);
  return write_jpeg(e, j);
}

int sl_scale(sl_encoder *e, const uint8_t *y, const uint8_t *u, const uint8_t *v, sl_job *j, uint8_t *dy, uint8_t *du, uint8_t *dv) {
  if (prepare(e, y, u, v, j)) return SL_MEMORY;
  sl_luma(&e->s, y, j->ystride, j->sw, j->sh, &j->mean, &j->variance);
  size_t w = j->dw, half = (w + 1) / 2;
  for (int r = 0; r < j->dh; r += STRIP) { // by way of the strip: a row is written to the end of its last group of 16
    rows o;
    fill_rows(e, j, r, &o);
    for (int i = 0; i < o.n; i++) memcpy(dy + (r + i) * w, o.y[i], w);
    for (int i = 0; 2 * i < o.n; i++) {
      memcpy(du + (r / 2 + i) * half, o.u[i], half);
      memcpy(dv + (r / 2 + i) * half, o.v[i], half);
    }
  }
  return SL_OK;
}

void sl_luma(const sl_scaler *s, const uint8_t *y, int stride, int w, int h, double *mean, double *variance) {
  int step = (h + LUMA_ROWS - 1) / LUMA_ROWS, rows = 0;
  uint64_t sum = 0, squares = 0;
  for (int i = step / 2; i < h; i += step, rows++) sl_moments(s, y + (size_t)i * stride, w, &sum, &squares);
  double n = (double)rows * w, m = sum / n;
  *mean = m;
  *variance = squares / n - m * m;
}
