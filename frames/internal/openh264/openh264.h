// One call per frame over openh264's decoder.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct slh264_decoder slh264_decoder;

// A picture inside the decoder's memory: good until the next slh264_decode or slh264_free.
typedef struct {
  const uint8_t *y, *u, *v;
  int32_t w, h, ystride, cstride;
  int32_t state; // openh264's DECODING_STATE when the result is SLH264_ERROR
} slh264_picture;

enum { SLH264_OK = 0, SLH264_NO_PICTURE = 1, SLH264_ERROR = 2 };

slh264_decoder *slh264_new(void);
void slh264_free(slh264_decoder *d);
int slh264_decode(slh264_decoder *d, const uint8_t *data, size_t n, slh264_picture *out);
