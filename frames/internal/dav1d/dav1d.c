#include "dav1d.h"
#include <dav1d/dav1d.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sldav1d_decoder {
  Dav1dContext *codec;
  Dav1dPicture pic;
  int have;
};

sldav1d_decoder *sldav1d_new(unsigned max_pixels) {
  sldav1d_decoder *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  Dav1dSettings s;
  dav1d_default_settings(&s);
  s.n_threads = 1; // sessions are many
  s.max_frame_delay = 1;
  s.all_layers = 1; // upper spatial layers are gone before: nothing is held back to wait for them
  s.frame_size_limit = max_pixels;
  s.logger.callback = NULL;
  if (dav1d_open(&d->codec, &s)) {
    free(d);
    return NULL;
  }
  return d;
}

static void forget(sldav1d_decoder *d) {
  if (d->have) dav1d_picture_unref(&d->pic);
  d->have = 0;
}

void sldav1d_free(sldav1d_decoder *d) {
  if (!d) return;
  forget(d);
  dav1d_close(&d->codec);
  free(d);
}

// drain keeps the newest picture there is; 0 or an error.
static int drain(sldav1d_decoder *d) {
  for (;;) {
    Dav1dPicture p;
    memset(&p, 0, sizeof p);
    int r = dav1d_get_picture(d->codec, &p);
    if (r == DAV1D_ERR(EAGAIN)) return 0;
    if (r) return r;
    forget(d);
    d->pic = p;
    d->have = 1;
  }
}

static int feed(sldav1d_decoder *d, const uint8_t *data, size_t n) {
  Dav1dData in;
  memset(&in, 0, sizeof in);
  uint8_t *p = dav1d_data_create(&in, n);
  if (!p) return DAV1D_ERR(ENOMEM);
  memcpy(p, data, n);
  int r = 0;
  while (in.sz > 0 && !r) {
    size_t left = in.sz;
    r = dav1d_send_data(d->codec, &in);
    if (r == DAV1D_ERR(EAGAIN)) r = 0;
    if (!r) r = drain(d);
    if (!r && in.sz == left) r = DAV1D_ERR(EINVAL); // no progress
  }
  if (in.sz > 0) dav1d_data_unref(&in);
  return r ? r : drain(d);
}

int sldav1d_decode(sldav1d_decoder *d, const uint8_t *data, size_t n, sldav1d_picture *out) {
  forget(d);
  int r = feed(d, data, n);
  if (r) {
    forget(d);
    dav1d_flush(d->codec); // the references are worth nothing now
    out->error = -r;
    return SLDAV1D_ERROR;
  }
  if (!d->have) return SLDAV1D_NO_PICTURE;
  if (d->pic.p.layout != DAV1D_PIXEL_LAYOUT_I420 || d->pic.p.bpc != 8) return SLDAV1D_FORMAT;
  out->y = d->pic.data[0];
  out->u = d->pic.data[1];
  out->v = d->pic.data[2];
  out->w = d->pic.p.w;
  out->h = d->pic.p.h;
  out->ystride = (int32_t)d->pic.stride[0];
  out->cstride = (int32_t)d->pic.stride[1];
  out->full_range = d->pic.seq_hdr ? d->pic.seq_hdr->color_range : 0;
  out->matrix = d->pic.seq_hdr ? (int32_t)d->pic.seq_hdr->mtrx : DAV1D_MC_UNKNOWN;
  return SLDAV1D_OK;
}
