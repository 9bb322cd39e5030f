#include "vp8enc.h"
#include <stdlib.h>
#include <string.h>
#include <vpx/vp8cx.h>

// Three layers in time, 0 2 1 2: the base refers to itself, layer 1 to the base, layer 2 to both and to nothing of its own.
enum {
  BASE = VP8_EFLAG_NO_REF_GF | VP8_EFLAG_NO_REF_ARF | VP8_EFLAG_NO_UPD_GF | VP8_EFLAG_NO_UPD_ARF,
  MIDDLE = VP8_EFLAG_NO_REF_GF | VP8_EFLAG_NO_REF_ARF | VP8_EFLAG_NO_UPD_LAST | VP8_EFLAG_NO_UPD_ARF | VP8_EFLAG_NO_UPD_ENTROPY,
  TOP = VP8_EFLAG_NO_REF_ARF | VP8_EFLAG_NO_UPD_LAST | VP8_EFLAG_NO_UPD_GF | VP8_EFLAG_NO_UPD_ARF | VP8_EFLAG_NO_UPD_ENTROPY,
  TOP_SYNC = TOP | VP8_EFLAG_NO_REF_GF,
};
static const int flags[4] = {BASE, TOP_SYNC, MIDDLE, TOP}, ids[4] = {0, 2, 1, 2};

slbench_vp8 *slbench_vp8_new(int w, int h, int kbps, int screen, int layers) {
  slbench_vp8 *e = calloc(1, sizeof *e);
  if (!e || (layers != 1 && layers != 3)) return NULL;
  vpx_codec_enc_cfg_t *g = &e->cfg;
  vpx_codec_enc_config_default(vpx_codec_vp8_cx(), g, 0);
  e->layers = layers;
  g->g_w = w, g->g_h = h, g->g_timebase.num = 1, g->g_timebase.den = 30, g->g_threads = 1, g->g_lag_in_frames = 0;
  g->rc_end_usage = VPX_CBR, g->rc_target_bitrate = kbps, g->rc_min_quantizer = screen ? 12 : 2, g->rc_max_quantizer = 56;
  g->rc_undershoot_pct = 100, g->rc_overshoot_pct = 15, g->rc_dropframe_thresh = screen ? 0 : 30;
  g->rc_buf_sz = 1000, g->rc_buf_initial_sz = 500, g->rc_buf_optimal_sz = 600;
  g->kf_mode = VPX_KF_AUTO, g->kf_max_dist = 3000;
  if (layers == 3) {
    const int part[3] = {40, 60, 100}, decimate[3] = {4, 2, 1};
    g->ts_number_layers = 3, g->ts_periodicity = 4;
    for (int i = 0; i < 3; i++) g->ts_target_bitrate[i] = g->layer_target_bitrate[i] = kbps * part[i] / 100, g->ts_rate_decimator[i] = decimate[i];
    memcpy(g->ts_layer_id, ids, sizeof ids);
  }
  if (vpx_codec_enc_init(&e->codec, vpx_codec_vp8_cx(), g, 0)) {
    free(e);
    return NULL;
  }
  vpx_codec_control(&e->codec, VP8E_SET_CPUUSED, -6);
  vpx_codec_control(&e->codec, VP8E_SET_STATIC_THRESHOLD, screen ? 100 : 1);
  vpx_codec_control(&e->codec, VP8E_SET_MAX_INTRA_BITRATE_PCT, 900); // half the optimal buffer, in frames of 30/s
  vpx_codec_control(&e->codec, VP8E_SET_TOKEN_PARTITIONS, 0);
  vpx_codec_control(&e->codec, VP8E_SET_NOISE_SENSITIVITY, screen ? 0 : 1);
  vpx_codec_control(&e->codec, VP8E_SET_SCREEN_CONTENT_MODE, screen ? 1 : 0);
  return e;
}

void slbench_vp8_free(slbench_vp8 *e) {
  if (!e) return;
  vpx_codec_destroy(&e->codec);
  free(e);
}

long slbench_vp8_encode(slbench_vp8 *e, const uint8_t *y, const uint8_t *u, const uint8_t *v, int ystride, int cstride, int key, const uint8_t **out, int *layer, int *sync) {
  vpx_image_t im;
  memset(&im, 0, sizeof im);
  im.fmt = VPX_IMG_FMT_I420, im.w = im.d_w = e->cfg.g_w, im.h = im.d_h = e->cfg.g_h, im.bps = 12, im.x_chroma_shift = im.y_chroma_shift = 1;
  im.planes[0] = (uint8_t *)y, im.planes[1] = (uint8_t *)u, im.planes[2] = (uint8_t *)v;
  im.stride[0] = ystride, im.stride[1] = im.stride[2] = cstride;
  int f = 0;
  *layer = *sync = 0;
  if (e->layers == 3) {
    if (key) e->n = 0;
    int at = e->n % 4;
    f = flags[at], *layer = ids[at], *sync = at == 1 || at == 2;
    vpx_codec_control(&e->codec, VP8E_SET_TEMPORAL_LAYER_ID, ids[at]);
  }
  if (key) f = VPX_EFLAG_FORCE_KF;
  if (vpx_codec_encode(&e->codec, &im, e->pts++, 1, f, VPX_DL_REALTIME)) return -1;
  e->n++;
  const vpx_codec_cx_pkt_t *p;
  for (vpx_codec_iter_t it = NULL; (p = vpx_codec_get_cx_data(&e->codec, &it));)
    if (p->kind == VPX_CODEC_CX_FRAME_PKT) {
      *out = p->data.frame.buf;
      return (long)p->data.frame.sz;
    }
  return 0;
}
