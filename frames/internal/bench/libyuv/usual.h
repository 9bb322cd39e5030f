// libyuv and libjpeg-turbo put together the usual way.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct bl_encoder bl_encoder;

bl_encoder *bl_new(int w, int h, int quality);
const uint8_t *bl_encode(bl_encoder *e, const uint8_t *y, const uint8_t *u, const uint8_t *v, int w, int h, int ys, int cs, int full, size_t *n);
void bl_planes(const bl_encoder *e, uint8_t *y, uint8_t *u, uint8_t *v);
