#!/usr/bin/python3
"""ref_pillow.py CLIP EVERY: the seeds' path: PyAV decode -> to_image() -> Pillow resize -> JPEG q75 optimize.

EVERY 0 only decodes. Prints how many pictures and JPEGs, and the CPU of each stage in us."""
import io
import sys
import time

import av

clip, every = sys.argv[1], int(sys.argv[2])
cpu = time.process_time
container = av.open(clip)
stream = container.streams.video[0]
stream.thread_type = "NONE"
stream.codec_context.thread_count = 1
frames = jpegs = size = 0
spent = {"decode": 0.0, "to_image": 0.0, "resize": 0.0, "save": 0.0}

start = cpu()
for frame in container.decode(stream):
    spent["decode"] += cpu() - start
    frames += 1
    if every and frames % every == 0:
        t0 = cpu()
        image = frame.to_image()
        t1 = cpu()
        image = image.resize((1024, 1024))
        t2 = cpu()
        out = io.BytesIO()
        image.save(out, "JPEG", quality=75, optimize=True)
        t3 = cpu()
        spent["to_image"] += t1 - t0
        spent["resize"] += t2 - t1
        spent["save"] += t3 - t2
        jpegs += 1
        size += out.tell()
    start = cpu()

each = {k: v / max(frames if k == "decode" else jpegs, 1) * 1e6 for k, v in spent.items()}
print(frames, "frames", jpegs, "jpegs", size, "bytes; us each:", ", ".join(f"{k} {v:.0f}" for k, v in each.items()))
