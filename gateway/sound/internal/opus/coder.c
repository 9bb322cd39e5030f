#include "coder.h"
#include <stddef.h>

OpusEncoder *slopus_encoder_new(int32_t rate, const slopus_settings *s, int *err) {
  OpusEncoder *e = opus_encoder_create(rate, 1, OPUS_APPLICATION_VOIP, err);
  if (!e) return NULL;
  *err = opus_encoder_ctl(e, OPUS_SET_BITRATE(s->bitrate));
  if (!*err) *err = opus_encoder_ctl(e, OPUS_SET_COMPLEXITY(s->complexity));
  if (!*err) *err = opus_encoder_ctl(e, OPUS_SET_DTX(s->dtx));
  if (!*err) *err = opus_encoder_ctl(e, OPUS_SET_INBAND_FEC(s->fec));
  if (!*err) *err = opus_encoder_ctl(e, OPUS_SET_PACKET_LOSS_PERC(s->loss));
  if (!*err) *err = opus_encoder_ctl(e, OPUS_SET_SIGNAL(OPUS_SIGNAL_VOICE));
  if (!*err) return e;
  opus_encoder_destroy(e);
  return NULL;
}

OpusDecoder *slopus_decoder_new(int32_t rate, int *err) { return opus_decoder_create(rate, 1, err); }

int slopus_encode(OpusEncoder *e, const int16_t *pcm, int samples, uint8_t *out, int32_t room) {
  return opus_encode(e, pcm, samples, out, room);
}

int slopus_encoder_loss(OpusEncoder *e, int32_t percent) { return opus_encoder_ctl(e, OPUS_SET_PACKET_LOSS_PERC(percent)); }

int slopus_encoder_complexity(OpusEncoder *e, int32_t complexity) { return opus_encoder_ctl(e, OPUS_SET_COMPLEXITY(complexity)); }

int slopus_encoder_bitrate(OpusEncoder *e, int32_t bits) { return opus_encoder_ctl(e, OPUS_SET_BITRATE(bits)); }

int slopus_encoder_reset(OpusEncoder *e) { return opus_encoder_ctl(e, OPUS_RESET_STATE); }

int32_t slopus_encoder_lookahead(OpusEncoder *e) {
  opus_int32 n = 0;
  return opus_encoder_ctl(e, OPUS_GET_LOOKAHEAD(&n)) ? 0 : n;
}

int slopus_decode(OpusDecoder *d, const uint8_t *data, int32_t n, int16_t *pcm, int samples, int fec) {
  return opus_decode(d, data, n, pcm, samples, fec);
}

int slopus_decoder_reset(OpusDecoder *d) { return opus_decoder_ctl(d, OPUS_RESET_STATE); }

int slopus_samples(const uint8_t *data, int32_t n, int32_t rate) {
  // The framing inside is checked too: its count byte may promise more than there is.
  const unsigned char *frames[48];
  opus_int16 sizes[48];
  int count = opus_packet_parse(data, n, NULL, frames, sizes, NULL);
  return count < 0 ? count : count * opus_packet_get_samples_per_frame(data, rate);
}
