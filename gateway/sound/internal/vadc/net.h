// The Silero net (16 kHz): one frame judged in one call.
#pragma once
#include <stdint.h>

enum {
  SL_PAST = 64,   // samples before the frame
  SL_FRAME = 512, // samples of the frame
  SL_UNITS = 128, // of the LSTM cell
  SL_BINS = 129,
  SL_POINTS = 256, // of a Fourier transform
  SL_STEPS = 4,    // windows of a frame
};

// Outputs of a layer that lie together: see net.c.
enum { SL_BLOCK_0 = 16, SL_BLOCK_1 = 32, SL_BLOCK = 64 };

// floats of a layer
#define SL_LAYER(in, out, block) ((out) / (block) * ((in) + 1) * (block))

// What the net is made of, in this order: the tables of the transform (window, cosines, sines), the layers, the last unit's weights
// and its bias.
enum {
  SL_NET = 3 * SL_POINTS + SL_LAYER(3 * SL_BINS, 128, SL_BLOCK_0) + SL_LAYER(3 * 128, 64, SL_BLOCK_1) + SL_LAYER(2 * 64, 64, SL_BLOCK) +
           SL_LAYER(64, 128, SL_BLOCK) + SL_LAYER(2 * SL_UNITS, 4 * SL_UNITS, SL_BLOCK) + SL_UNITS + 1
};

int slvad_has_simd(void);
// Says how likely somebody speaks in the SL_FRAME samples of pcm, which follow the SL_PAST of past, and moves state on: SL_UNITS of
// hidden, SL_UNITS of cell. simd only where slvad_has_simd.
float slvad_judge(const float *net, const int16_t *past, const int16_t *pcm, float *state, int simd);
