#!/usr/bin/python3
"""Publishes noise by GStreamer's webrtcbin and prints what it sends: sender_gstreamer.py WHIP-URL FILE WITHOUT, as sender_aiortc.py; FILE is not used."""
import json
import sys
import time
import urllib.request

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstWebRTC", "1.0")
gi.require_version("GstSdp", "1.0")
from gi.repository import GLib, Gst, GstSdp, GstWebRTC  # noqa: E402

url, _, without = sys.argv[1:4]
Gst.init(None)
pipe = Gst.parse_launch(
    "webrtcbin name=w bundle-policy=max-bundle "
    "videotestsrc is-live=true pattern=snow ! video/x-raw,format=I420,width=640,height=360,framerate=30/1 ! queue ! vp8enc deadline=1 cpu-used=8 target-bitrate=1500000 ! "
    "rtpvp8pay picture-id-mode=15-bit ! application/x-rtp,media=video,encoding-name=VP8,payload=96,clock-rate=90000 ! identity name=out ! w.")
w = pipe.get_by_name("w")
ice = w.get_property("ice-agent")  # kept: dropping a floating reference frees the agent
ice.emit("add-local-ip-address", "127.0.0.1")
kept, sent = [], {"bytes": 0, "frames": 0, "posted": False}


def cut(sdp, part):
    return "".join(line for line in sdp.splitlines(keepends=True) if part not in line)


def count(_, buffer):
    sent["bytes"] += buffer.get_size()


out = pipe.get_by_name("out")
out.set_property("signal-handoffs", True)
out.connect("handoff", count)


def offered(promise, *_):
    promise.wait()
    reply = promise.get_reply()
    offer = reply.get_value("offer")
    kept.extend((promise, reply, offer))
    w.emit("set-local-description", offer, Gst.Promise.new())


def gathered(*_):
    if sent["posted"] or w.get_property("ice-gathering-state") != GstWebRTC.WebRTCICEGatheringState.COMPLETE:
        return
    sent["posted"] = True
    offer = w.get_property("local-description").sdp.as_text()
    request = urllib.request.Request(url, data=offer.encode(), headers={"Content-Type": "application/sdp"}, method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        sdp = answer.read().decode()
    _, message = GstSdp.SDPMessage.new_from_text(cut(sdp, "b=") if "TIAS" in without else sdp)
    description = GstWebRTC.WebRTCSessionDescription.new(GstWebRTC.WebRTCSDPType.ANSWER, message)
    kept.extend((message, description))
    w.emit("set-remote-description", description, Gst.Promise.new())


def needed(element):
    transceiver = element.emit("get-transceiver", 0)
    transceiver.set_property("direction", GstWebRTC.WebRTCRTPTransceiverDirection.SENDONLY)
    element.emit("create-offer", None, Gst.Promise.new_with_change_func(offered, None, None))


def tell():
    if sent["bytes"]:
        print(json.dumps([time.monotonic() * 1000, sent["bytes"], 0, 0]), flush=True)
    return True


w.connect("on-negotiation-needed", needed)
w.connect("notify::ice-gathering-state", lambda *a: GLib.timeout_add(50, lambda: gathered() or False))
GLib.timeout_add(250, tell)
pipe.set_state(Gst.State.PLAYING)
GLib.MainLoop().run()
