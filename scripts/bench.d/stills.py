#!/usr/bin/python3
"""stills.py STILL_COMMAND CLIP.ivf FOLDER [ROUNDS]: large stills to 1024x1024 JPEGs, ours beside Pillow's, CPU and memory.

The stills are made of the clip's first picture: enlarged, with a camera's noise. Rounds alternate, medians of CPU time; peaks of
resident memory above what there was before, one process each. Prints a table in Markdown."""
import io
import os
import statistics
import subprocess
import sys
import time

from PIL import Image, ImageOps
import numpy as np

SIZE = (1024, 1024)


def open_still(data, draft):
    m = Image.open(io.BytesIO(data))
    if draft:
        m.draft("RGB", SIZE)
    return m


def pillow(data, draft=False):
    m = open_still(data, draft)
    m.load()
    m = ImageOps.exif_transpose(m).convert("RGB").resize(SIZE)
    out = io.BytesIO()
    m.save(out, "JPEG", quality=75)
    return out.getvalue()


def status(field):
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field))


def memory(work):
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    before = status("VmRSS:")
    work()
    return (status("VmHWM:") - before) / 1024


def child(*args):
    return float(subprocess.run(args, check=True, capture_output=True, text=True).stdout)


def luma(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("L"), dtype=np.float32)


def psnr(a, b):
    return 10 * np.log10(255 ** 2 / np.mean((a - b) ** 2))


if sys.argv[1] == "--memory":
    with open(sys.argv[3], "rb") as f:
        still = f.read()
    pillow(open(sys.argv[4], "rb").read())  # what it loads once
    print(memory(lambda: pillow(still, sys.argv[2] == "draft")))
    sys.exit()

import av

command, clip, folder = sys.argv[1:4]
rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 9
picture = next(av.open(clip).decode(video=0)).to_image().resize((4032, 3024), Image.LANCZOS)
noise = np.random.default_rng(1).normal(0, 5, (3024, 4032, 1))
picture = Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))
small = os.path.join(folder, "small.jpg")
picture.resize((64, 64)).save(small)
exif = Image.Exif()
exif[0x0112] = 6
print("| still, 4032×3024 | MB | ours, ms | Pillow, ms | ratio | Pillow with `draft`, ms | ratio | memory, MB: ours | decoding all of it alone | ours ÷ that | "
      "Pillow · with `draft` | PSNR-Y, ours · Pillow with `draft`, dB |")
print("|---|---|---|---|---|---|---|---|---|---|---|---|")
for name, options in [("baseline", {}), ("baseline, upright in a phone", {"exif": exif}), ("progressive", {"progressive": True})]:
    path = os.path.join(folder, "still.jpg")
    picture.save(path, "JPEG", quality=90, **options)
    with open(path, "rb") as f:
        data = f.read()
    ours = subprocess.Popen([command, path, "time"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def go():
        ours.stdin.write("\n")
        return float(ours.stdout.readline())

    def py(draft):
        start = time.process_time()
        pillow(data, draft)
        return (time.process_time() - start) * 1e3

    sides = [go, lambda: py(False), lambda: py(True)]
    times = [[], [], []]
    for r in range(rounds + 1):
        for i in (0, 1, 2) if r % 2 else (2, 1, 0):
            took = sides[i]()
            if r:
                times[i].append(took)
    ours.stdin.close()
    ours.wait()
    mine, full, draft = map(statistics.median, times)
    image, whole = child(command, path, "memory"), child(command, path, "full")
    theirs = [child(sys.executable, __file__, "--memory", kind, path, small) for kind in ("full", "draft")]
    out = os.path.join(folder, "out.jpg")
    subprocess.run([command, path, out], check=True)
    with open(out, "rb") as f:
        want = luma(pillow(data))
        p, q = psnr(luma(f.read()), want), psnr(luma(pillow(data, True)), want)
    print(f"| {name} | {len(data) / 1e6:.1f} | {mine:.0f} | {full:.0f} | **{full / mine:.1f}×** | {draft:.0f} | {draft / mine:.1f}× | {image:.1f} | {whole:.1f} | "
          f"**{image / whole:.2f}** | {theirs[0]:.0f} · {theirs[1]:.0f} | {p:.1f} · {q:.1f} |")
