#include "openh264.h"
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <wels/codec_api.h>

struct slh264_decoder {
  ISVCDecoder *codec;
};

slh264_decoder *slh264_new(void) {
  slh264_decoder *d = calloc(1, sizeof *d);
  if (!d) return NULL;
  if (WelsCreateDecoder(&d->codec) || !d->codec) {
    free(d);
    return NULL;
  }
  int quiet = WELS_LOG_QUIET;
  (*d->codec)->SetOption(d->codec, DECODER_OPTION_TRACE_LEVEL, &quiet);
  SDecodingParam p;
  memset(&p, 0, sizeof p);
  p.uiTargetDqLayer = UCHAR_MAX;
  p.eEcActiveIdc = ERROR_CON_DISABLE; // a picture that was patched up is not the sender's
  p.sVideoProperty.size = sizeof p.sVideoProperty;
  p.sVideoProperty.eVideoBsType = VIDEO_BITSTREAM_AVC;
  if ((*d->codec)->Initialize(d->codec, &p)) {
    WelsDestroyDecoder(d->codec);
    free(d);
    return NULL;
  }
  return d;
}

void slh264_free(slh264_decoder *d) {
  if (!d) return;
  (*d->codec)->Uninitialize(d->codec);
  WelsDestroyDecoder(d->codec);
  free(d);
}

int slh264_decode(slh264_decoder *d, const uint8_t *data, size_t n, slh264_picture *out) {
  unsigned char *planes[3] = {NULL, NULL, NULL};
  SBufferInfo info;
  memset(&info, 0, sizeof info);
  out->state = (int)(*d->codec)->DecodeFrameNoDelay(d->codec, data, (int)n, planes, &info);
  if (out->state != dsErrorFree && out->state != dsFramePending) return SLH264_ERROR;
  if (info.iBufferStatus != 1) {
    // Main and high profile are held back to be put in order of display. No sender of a call reorders: what is there is shown at once.
    int end = 1, more = 0;
    (*d->codec)->SetOption(d->codec, DECODER_OPTION_END_OF_STREAM, &end);
    memset(&info, 0, sizeof info);
    int state = (int)(*d->codec)->FlushFrame(d->codec, planes, &info);
    (*d->codec)->SetOption(d->codec, DECODER_OPTION_END_OF_STREAM, &more);
    if (state != dsErrorFree) {
      out->state = state;
      return SLH264_ERROR;
    }
  }
  if (info.iBufferStatus != 1 || !planes[0] || !planes[1] || !planes[2]) return SLH264_NO_PICTURE;
  out->y = planes[0];
  out->u = planes[1];
  out->v = planes[2];
  out->w = info.UsrData.sSystemBuffer.iWidth;
  out->h = info.UsrData.sSystemBuffer.iHeight;
  out->ystride = info.UsrData.sSystemBuffer.iStride[0];
  out->cstride = info.UsrData.sSystemBuffer.iStride[1];
  return SLH264_OK;
}
