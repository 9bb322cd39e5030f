// Makes the synthetic clips of this folder: VP8 in IVF, from nothing but arithmetic.
//   cc -O2 -o makeclip makeclip.c -lvpx && ./makeclip 641 481 20 moving >odd641.vp8.ivf && ./makeclip 640 480 12 black >black480.vp8.ivf
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vpx/vp8cx.h>
#include <vpx/vpx_encoder.h>

static void le(FILE *f, unsigned long long v, int n) {
  while (n--) { fputc(v & 255, f); v >>= 8; }
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  int w = atoi(argv[1]), h = atoi(argv[2]), n = atoi(argv[3]), moving = !strcmp(argv[4], "moving");
  vpx_codec_enc_cfg_t cfg;
  vpx_codec_enc_config_default(vpx_codec_vp8_cx(), &cfg, 0);
  cfg.g_w = w, cfg.g_h = h, cfg.g_timebase.num = 1, cfg.g_timebase.den = 30, cfg.g_threads = 1;
  cfg.rc_target_bitrate = 600, cfg.rc_end_usage = VPX_CBR, cfg.kf_mode = VPX_KF_DISABLED, cfg.g_lag_in_frames = 0;
  vpx_codec_ctx_t c;
  vpx_image_t img;
  if (vpx_codec_enc_init(&c, vpx_codec_vp8_cx(), &cfg, 0) || !vpx_img_alloc(&img, VPX_IMG_FMT_I420, w, h, 16)) return 1;
  fputs("DKIF", stdout), le(stdout, 0, 2), le(stdout, 32, 2), fputs("VP80", stdout), le(stdout, w, 2), le(stdout, h, 2);
  le(stdout, 30, 4), le(stdout, 1, 4), le(stdout, n, 4), le(stdout, 0, 4);
  for (int i = 0; i < n; i++) {
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) img.planes[0][y * img.stride[0] + x] = moving ? 32 + ((x + 4 * i) / 3 + y / 2) % 192 : 16;
    for (int p = 1; p < 3; p++)
      for (int y = 0; y < (h + 1) / 2; y++)
        for (int x = 0; x < (w + 1) / 2; x++) img.planes[p][y * img.stride[p] + x] = moving ? 64 + (p == 1 ? x + i : y) / 4 % 128 : 128;
    if (vpx_codec_encode(&c, &img, i, 1, i % 10 ? 0 : VPX_EFLAG_FORCE_KF, VPX_DL_REALTIME)) return 1;
    const vpx_codec_cx_pkt_t *pkt;
    for (vpx_codec_iter_t it = NULL; (pkt = vpx_codec_get_cx_data(&c, &it));)
      if (pkt->kind == VPX_CODEC_CX_FRAME_PKT) {
        le(stdout, pkt->data.frame.sz, 4), le(stdout, i, 8);
        fwrite(pkt->data.frame.buf, 1, pkt->data.frame.sz, stdout);
      }
  }
  return 0;
}
