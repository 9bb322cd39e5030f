#!/usr/bin/python3
"""policy_peers.py POLICY_COMMAND CLIP.ivf SECONDS ONE.ivf LONG.ivf [ROUNDS]: one image a second of 30 frames/s, whole tracks: ours under
auto against what people use today, which decode every frame.

Ours is the CPU of tracks in real time, from packets to images (POLICY_COMMAND -only auto CLIP). Theirs is that of whole processes on the
stream which ours was sent (LONG.ivf, without its packets), less that of one frame (ONE.ivf). Rounds alternate, medians. Prints a table."""
import os
import shutil
import statistics
import subprocess
import sys

command, clip, seconds, one, long = sys.argv[1:6]
seconds, rounds = float(seconds), int(sys.argv[6]) if len(sys.argv) > 6 else 3
here = os.path.dirname(os.path.abspath(__file__))
python = "/usr/bin/python3"

GST = ["!", "videorate", "!", "video/x-raw,framerate=1/1", "!", "videoscale", "n-threads=1", "!", "video/x-raw,width=1024,height=1024", "!", "jpegenc", "quality=75"]


def gst(f):
    return ["gst-launch-1.0", "-q", "filesrc", f"location={f}", "!", "ivfparse", "!", "vp8dec", "threads=1"] + GST + ["!", "fakesink", "sync=false"]


def ffmpeg(f):
    return ["ffmpeg", "-v", "error", "-nostdin", "-y", "-threads", "1", "-filter_threads", "1", "-i", f, "-vf", "fps=1,scale=1024:1024", "-q:v", "4",
            "-threads", "1", "-c:v", "mjpeg", "-f", "image2pipe", "/dev/null"]


def imports(*modules):
    return subprocess.run([python, "-c", "import " + ", ".join(modules)], stderr=subprocess.DEVNULL).returncode == 0


# name, is it here, command, times that ours is to be cheaper
PEERS = [
    ("PyAV → Pillow, optimize (the seeds' path)", imports("av", "PIL"), lambda f: [python, f"{here}/ref_pillow.py", f, "30"], 15),
    ("aiortc's decoder → Pillow, optimize", imports("aiortc", "PIL"), lambda f: [python, f"{here}/ref_aiortc.py", f, "30"], 15),
    ("GStreamer vp8dec, videorate, videoscale, jpegenc", shutil.which("gst-launch-1.0"), gst, 12),
    ("ffmpeg -vf fps,scale, mjpeg", shutil.which("ffmpeg"), ffmpeg, 12),
]


def cpu(argv):
    """CPU seconds of one run, its children included."""
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ, OMP_NUM_THREADS="1"))
    error = p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        sys.exit(f"policy_peers.py: {' '.join(argv)}: exit {p.returncode}: {error.decode(errors='replace')[-300:]}")
    return usage.ru_utime + usage.ru_stime


present = [p for p in PEERS if p[1]]
for p in PEERS:
    if not p[1]:
        print(f"not installed, left out: {p[0]}", file=sys.stderr)
ours, theirs = [], {p[0]: [] for p in present}
for r in range(rounds):
    def own():
        ours.append(float(subprocess.run([command, "-only", "auto", clip], check=True, stdout=subprocess.PIPE).stdout))

    def others():
        for name, _, make, _ in present:
            theirs[name].append((cpu(make(long)) - cpu(make(one))) / seconds * 1e3)
    for step in (own, others) if r % 2 else (others, own):
        step()

mine = statistics.median(ours)
print("| one image a second of 1280×720 at 30 frames/s | CPU, ms of a core for 1 s of video | ÷ ours | wanted |")
print("|---|---|---|---|")
print(f"| Sightline, a whole track under `auto` | **{mine:.2f}** | 1.0 | |")
for name, _, _, times in present:
    ms = statistics.median(theirs[name])
    print(f"| {name} | {ms:.1f} | **{ms / mine:.1f}** | at least {times}{'' if ms / mine >= times else ': **missed**'} |")
