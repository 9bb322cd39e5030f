#!/usr/bin/python3
"""ref_aiortc.py CLIP.ivf EVERY: aiortc's own VP8 decoder on the frames of a clip (no network), then Pillow as in ref_pillow.py."""
import io
import struct
import sys
import time

from aiortc.codecs.vpx import Vp8Decoder
from aiortc.jitterbuffer import JitterFrame

data, every = open(sys.argv[1], "rb").read(), int(sys.argv[2])
cpu = time.process_time
decoder = Vp8Decoder()
frames = jpegs = size = 0
decoding = snapshots = 0.0
pos = struct.unpack("<H", data[6:8])[0]
while pos + 12 <= len(data):
    length = struct.unpack("<I", data[pos:pos + 4])[0]
    start = cpu()
    pictures = decoder.decode(JitterFrame(data=data[pos + 12:pos + 12 + length], timestamp=frames * 3000))
    decoding += cpu() - start
    pos += 12 + length
    frames += 1
    if every and pictures and frames % every == 0:
        start = cpu()
        out = io.BytesIO()
        pictures[0].to_image().resize((1024, 1024)).save(out, "JPEG", quality=75, optimize=True)
        snapshots += cpu() - start
        jpegs += 1
        size += out.tell()
print(frames, "frames", jpegs, "jpegs", size, f"bytes; us each: decode {decoding / max(frames, 1) * 1e6:.0f}, "
      f"snapshot {snapshots / max(jpegs, 1) * 1e6:.0f}")
