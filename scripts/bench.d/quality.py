#!/usr/bin/python3
"""quality.py CLIP_COMMAND CLIP.ivf...: our images beside the seeds' path (PyAV -> to_image() -> Pillow resize -> JPEG q75 optimize) of
the same pictures: PSNR of the luma against the picture scaled by Lanczos in floating point and not encoded, and bytes.

Prints rows of a table in Markdown."""
import glob
import io
import os
import subprocess
import sys
import tempfile

import av
import numpy as np
from PIL import Image

EVERY = 10
WEIGHTS = np.array([.299, .587, .114], dtype=np.float32)


def luma(image):
    return np.asarray(image.convert("RGB"), dtype=np.float32) @ WEIGHTS


def truth(frame):
    """The picture's luma, full range, 1024x1024."""
    y = frame.to_ndarray(format="yuv420p")[:frame.height, :frame.width].astype(np.float32)
    y = Image.fromarray((y - 16) * (255 / 219), mode="F").resize((1024, 1024), Image.LANCZOS)
    return np.clip(np.asarray(y), 0, 255)


def psnr(a, b):
    return 10 * np.log10(255 ** 2 / np.mean((a - b) ** 2))


def seeds(frame):
    out = io.BytesIO()
    frame.to_image().resize((1024, 1024)).save(out, "JPEG", quality=75, optimize=True)
    return out.getvalue()


command = sys.argv[1]
for clip in sys.argv[2:]:
    ours, crisp, theirs, sizes = [], [], [], [0, 0, 0, 0]
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as fine, tempfile.TemporaryDirectory() as sharp:
        for folder, kind in (plain, "plain"), (fine, "optimize"), (sharp, "sharp"):
            subprocess.run([command, clip, str(EVERY), kind, folder], check=True, stdout=subprocess.DEVNULL)
        for i, frame in enumerate(av.open(clip).decode(video=0)):
            if (i + 1) % EVERY:
                continue
            name, want = f"{i:04d}.jpg", truth(frame)
            other = seeds(frame)
            ours.append(psnr(luma(Image.open(os.path.join(plain, name))), want))
            crisp.append(psnr(luma(Image.open(os.path.join(sharp, name))), want))
            theirs.append(psnr(luma(Image.open(io.BytesIO(other))), want))
            for k, n in enumerate([os.path.getsize(os.path.join(f, name)) for f in (plain, fine, sharp)] + [len(other)]):
                sizes[k] += n
    a, b, c = np.mean(ours), np.mean(theirs), np.mean(crisp)
    of = [n / sizes[3] for n in sizes]
    print(f"| {os.path.basename(clip).split('.')[0]} | {a:.2f} | {c:.2f} | {b:.2f} | {a - b:+.2f} | {c - b:+.2f} | {of[0]:.2f} | {of[1]:.2f} | {of[2]:.2f} |")
