// One real-time VP8 encoder, set as browsers set theirs. For benchmarks and tests.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <vpx/vpx_encoder.h>

typedef struct {
  vpx_codec_ctx_t codec;
  vpx_codec_enc_cfg_t cfg;
  int layers;
  int64_t n, pts;
} slbench_vp8;

slbench_vp8 *slbench_vp8_new(int w, int h, int kbps, int screen, int layers);
void slbench_vp8_free(slbench_vp8 *e);
// Encodes one I420 picture. out is good until the next call. Returns its length, 0 when the encoder left the picture out, -1 for an error.
long slbench_vp8_encode(slbench_vp8 *e, const uint8_t *y, const uint8_t *u, const uint8_t *v, int ystride, int cstride, int key, const uint8_t **out, int *layer, int *sync);
