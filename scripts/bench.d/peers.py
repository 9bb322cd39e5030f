#!/usr/bin/python3
"""peers.py CLIP_COMMAND ONE.ivf LONG.ivf FRAMES [ROUNDS]: ours and what people use today on the same VP8 clip.

CPU (user + system, from wait4) of whole processes with one thread, rounds that alternate between the peers, medians.
An image costs (JPEG of every 4th picture - decode only) / images; a decode (decode only - the same of one frame) / frames.
Prints a table in Markdown; what is not installed is named on stderr."""
import os
import shutil
import statistics
import subprocess
import sys

command, one, long = sys.argv[1:4]
frames, rounds = int(sys.argv[4]), int(sys.argv[5]) if len(sys.argv) > 5 else 5
here = os.path.dirname(os.path.abspath(__file__))
python = "/usr/bin/python3"


def gst(clip, tail):
    source = ["gst-launch-1.0", "-q", "filesrc", f"location={clip}", "!", "ivfparse", "!", "vp8dec", "threads=1"]
    return source + tail + ["!", "fakesink", "sync=false"]


GST_IMAGE = ["!", "videorate", "!", "video/x-raw,framerate=15/2", "!", "videoscale", "n-threads=1", "!",
             "video/x-raw,width=1024,height=1024", "!", "jpegenc", "quality=75"]


def ffmpeg(clip, tail):
    return ["ffmpeg", "-v", "error", "-nostdin", "-y", "-threads", "1", "-filter_threads", "1", "-i", clip] + tail


FFMPEG_IMAGE = ["-vf", "fps=7.5,scale=1024:1024", "-q:v", "4", "-threads", "1", "-c:v", "mjpeg", "-f", "image2pipe", "/dev/null"]


def script(name):
    return (lambda clip: [python, f"{here}/{name}", clip, "0"]), (lambda clip: [python, f"{here}/{name}", clip, "4"])


def imports(*modules):
    return subprocess.run([python, "-c", "import " + ", ".join(modules)], stderr=subprocess.DEVNULL).returncode == 0


def elements(*names):
    return shutil.which("gst-inspect-1.0") and all(
        subprocess.run(["gst-inspect-1.0", n], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0 for n in names)


# name, is it here, decode-only command, command that makes images
PEERS = [
    ("Sightline", True, lambda c: [command, c, "0"], lambda c: [command, c, "4"]),
    ("Sightline, `Optimize`", True, lambda c: [command, c, "0"], lambda c: [command, c, "4", "optimize"]),
    ("PyAV → Pillow, optimize (the seeds' path)", imports("av", "PIL"), *script("ref_pillow.py")),
    ("aiortc's decoder → Pillow, optimize", imports("aiortc", "PIL"), *script("ref_aiortc.py")),
    ("GStreamer vp8dec, videoscale, jpegenc", elements("ivfparse", "vp8dec", "videoscale", "jpegenc"), lambda c: gst(c, []),
     lambda c: gst(c, GST_IMAGE)),
    ("ffmpeg -vf scale, mjpeg", shutil.which("ffmpeg"), lambda c: ffmpeg(c, ["-f", "null", "-"]), lambda c: ffmpeg(c, FFMPEG_IMAGE)),
]


def cpu(argv):
    """CPU seconds of one run, its children included."""
    env = dict(os.environ, GOMAXPROCS="1", OMP_NUM_THREADS="1")
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
    error = p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        sys.exit(f"peers.py: {' '.join(argv)}: exit {p.returncode}: {error.decode(errors='replace')[-300:]}")
    return usage.ru_utime + usage.ru_stime


present = []
for peer in PEERS:
    if peer[1]:
        present.append(peer)
    else:
        print(f"not installed, left out: {peer[0]}", file=sys.stderr)
images = frames // 4
image, decode = {p[0]: [] for p in present}, {p[0]: [] for p in present}
for r in range(rounds + 1):
    for name, _, plain, make in present if r % 2 else reversed(present):
        start, dec, some = cpu(plain(one)), cpu(plain(long)), cpu(make(long))
        if r:  # the first round warms the caches
            image[name].append((some - dec) / images * 1e3)
            decode[name].append((dec - start) / (frames - 1) * 1e3)

print("| | image: I420 → 1024×1024 JPEG, ms | ÷ ours | frame: VP8 → I420, ms | 1 image/s, all 30 frames decoded: ms an image | ÷ ours |")
print("|---|---|---|---|---|---|")
ours = None
for name, *_ in present:
    i, d = statistics.median(image[name]), statistics.median(decode[name])
    whole = i + 30 * d
    ours = ours or (i, whole)
    print(f"| {name} | {i:.2f} | {i / ours[0]:.1f} | {d:.2f} | {whole:.0f} | {whole / ours[1]:.2f} |")
