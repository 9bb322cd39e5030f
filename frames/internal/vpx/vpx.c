#include "vpx.h"
#include <stdlib.h>
#include <string.h>
#include <vpx/vp8dx.h>

slvpx_decoder *slvpx_new(void) {
  slvpx_decoder *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  // One thread: senders use one token partition, where a second thread gains nothing, and sessions are many.
  vpx_codec_dec_cfg_t cfg = {.threads = 1};
  if (vpx_codec_dec_init(&d->codec, vpx_codec_vp8_dx(), &cfg, 0)) {
    free(d);
    return NULL;
  }
  return d;
}

void slvpx_free(slvpx_decoder *d) {
  if (!d) return;
  vpx_codec_destroy(&d->codec);
  free(d);
}

int slvpx_decode(slvpx_decoder *d, const uint8_t *data, size_t n, slvpx_picture *out) {
  out->vpx_error = vpx_codec_decode(&d->codec, data, (unsigned)n, NULL, 0);
  if (out->vpx_error) return SLVPX_ERROR;
  // libvpx gives pictures for truncated frames and for those that refer to them, and only tells when it is asked.
  int corrupt = 0;
  out->vpx_error = vpx_codec_control(&d->codec, VP8D_GET_FRAME_CORRUPTED, &corrupt);
  if (out->vpx_error) return SLVPX_ERROR;
  vpx_codec_iter_t it = NULL;
  vpx_image_t *im = vpx_codec_get_frame(&d->codec, &it);
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
  out->full_range = im->range == VPX_CR_FULL_RANGE;
  return SLVPX_OK;
}
