// One call per frame over libvpx's VP8 and VP9 decoders.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <vpx/vpx_decoder.h>
#include <vpx/vpx_frame_buffer.h>

// VP9 keeps 8 references, the picture in work and the one shown; libvpx asks for no more than this many at a time.
enum { SLVPX_BUFFERS = VP9_MAXIMUM_REF_BUFFERS + VPX_MAXIMUM_WORK_BUFFERS };

typedef struct {
  uint8_t *data;
  size_t size;
  int used;
} slvpx_buffer;

typedef struct {
  vpx_codec_ctx_t codec;
  int vp9;
  slvpx_buffer buffers[SLVPX_BUFFERS]; // VP9 only
  size_t held;                         // bytes in them
} slvpx_decoder;

// A picture inside the decoder's memory: good until the next slvpx_decode or slvpx_free.
typedef struct {
  const uint8_t *y, *u, *v;
  int32_t w, h, ystride, cstride;
  int32_t vpx_error; // libvpx's code when the result is SLVPX_ERROR
} slvpx_picture;

enum { SLVPX_OK = 0, SLVPX_NO_PICTURE = 1, SLVPX_CORRUPT = 2, SLVPX_ERROR = 3, SLVPX_FORMAT = 4 };

slvpx_decoder *slvpx_new(int vp9);
void slvpx_free(slvpx_decoder *d);
int slvpx_decode(slvpx_decoder *d, const uint8_t *data, size_t n, slvpx_picture *out);
