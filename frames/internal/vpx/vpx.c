#include "vpx.h"
#include <stdlib.h>
#include <string.h>
#include <vpx/vp8dx.h>

// The most that one picture of 4096×2176 takes with its borders of 160 pixels, and some.
static const size_t most = (size_t)(4096 + 384) * (2176 + 384) * 3 / 2;

// VP9's pictures are allocated here, so that none is larger than allowed: a header is checked before decoding, but libvpx decodes what
// follows the first frame of a chunk too.
static int get_buffer(void *priv, size_t min, vpx_codec_frame_buffer_t *fb) {
  slvpx_decoder *d = priv;
  if (min > most) return -1;
  for (int i = 0; i < SLVPX_BUFFERS; i++) {
    slvpx_buffer *b = &d->buffers[i];
    if (b->used) continue;
    if (b->size < min || b->size > 2 * min) {
      free(b->data);
      d->held -= b->size;
      b->size = 0;
      if (!(b->data = calloc(1, min))) return -1; // libvpx wants zeros
      b->size = min;
      d->held += min;
    }
    b->used = 1;
    fb->data = b->data;
    fb->size = b->size;
    fb->priv = b;
    return 0;
  }
  return -1;
}

static int release_buffer(void *priv, vpx_codec_frame_buffer_t *fb) {
  (void)priv;
  slvpx_buffer *b = fb->priv;
  if (b) b->used = 0;
  return 0;
}

slvpx_decoder *slvpx_new(int vp9) {
  slvpx_decoder *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  d->vp9 = vp9;
  // One thread: senders use one token partition, where a second thread gains nothing, and sessions are many.
  vpx_codec_dec_cfg_t cfg = {.threads = 1};
  if (vpx_codec_dec_init(&d->codec, vp9 ? vpx_codec_vp9_dx() : vpx_codec_vp8_dx(), &cfg, 0)) {
    free(d);
    return NULL;
  }
  if (vp9 && vpx_codec_set_frame_buffer_functions(&d->codec, get_buffer, release_buffer, d)) {
    slvpx_free(d);
    return NULL;
  }
  return d;
}

void slvpx_free(slvpx_decoder *d) {
  if (!d) return;
  vpx_codec_destroy(&d->codec);
  for (int i = 0; i < SLVPX_BUFFERS; i++) free(d->buffers[i].data);
  free(d);
}

int slvpx_decode(slvpx_decoder *d, const uint8_t *data, size_t n, slvpx_picture *out) {
  out->vpx_error = vpx_codec_decode(&d->codec, data, (unsigned)n, NULL, 0);
  if (out->vpx_error) return SLVPX_ERROR;
  vpx_codec_iter_t it = NULL;
  vpx_image_t *im = vpx_codec_get_frame(&d->codec, &it);
  if (!im && d->vp9) return SLVPX_NO_PICTURE; // damage of it was an error above
  // libvpx gives pictures for truncated frames and for those that refer to them, and only tells when it is asked: VP9 of the picture
  // it has just given.
  int corrupt = 0;
  out->vpx_error = vpx_codec_control(&d->codec, VP8D_GET_FRAME_CORRUPTED, &corrupt);
  if (out->vpx_error) return SLVPX_ERROR;
  if (corrupt) return SLVPX_CORRUPT;
  if (!im) return SLVPX_NO_PICTURE;
  if (im->fmt != VPX_IMG_FMT_I420) return SLVPX_FORMAT;
  out->y = im->planes[VPX_PLANE_Y];
  out->u = im->planes[VPX_PLANE_U];
  out->v = im->planes[VPX_PLANE_V];
  out->w = (int32_t)im->d_w;
  out->h = (int32_t)im->d_h;
  out->ystride = im->stride[VPX_PLANE_Y];
  out->cstride = im->stride[VPX_PLANE_U];
  return SLVPX_OK;
}
