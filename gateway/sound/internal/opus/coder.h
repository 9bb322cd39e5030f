// Thin calls over libopus, mono only: what is variadic there (ctl) is plain here.
#pragma once
#include <opus.h>
#include <stdint.h>

typedef struct {
  int32_t bitrate, complexity, dtx, fec, loss;
} slopus_settings;

// Both give NULL and libopus's code in *err when they fail.
OpusEncoder *slopus_encoder_new(int32_t rate, const slopus_settings *s, int *err);
OpusDecoder *slopus_decoder_new(int32_t rate, int *err);

int slopus_encode(OpusEncoder *e, const int16_t *pcm, int samples, uint8_t *out, int32_t room);
int slopus_encoder_loss(OpusEncoder *e, int32_t percent);
int slopus_encoder_complexity(OpusEncoder *e, int32_t complexity);
int slopus_encoder_bitrate(OpusEncoder *e, int32_t bits);
int slopus_encoder_reset(OpusEncoder *e);
int32_t slopus_encoder_lookahead(OpusEncoder *e);

// data NULL: concealment of exactly `samples`.
int slopus_decode(OpusDecoder *d, const uint8_t *data, int32_t n, int16_t *pcm, int samples, int fec);
int slopus_decoder_reset(OpusDecoder *d);
int slopus_samples(const uint8_t *data, int32_t n, int32_t rate);
