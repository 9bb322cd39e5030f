#!/usr/bin/python3
"""Publishes a file by aiortc and prints what it sends: sender_aiortc.py WHIP-URL FILE WITHOUT; WITHOUT names what of the gateway's wishes it is kept from."""
import asyncio
import json
import sys
import time
import urllib.request

import aioice.ice
from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpSender, RTCSessionDescription
from aiortc.contrib.media import MediaPlayer

url, file, without = sys.argv[1:4]
aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]  # it leaves loopback out by itself


def cut(sdp, part):
    return "".join(line for line in sdp.splitlines(keepends=True) if part not in line)


def post(offer):
    request = urllib.request.Request(url, data=offer.encode(), headers={"Content-Type": "application/sdp"}, method="POST")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


async def main():
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    player = MediaPlayer(file, loop=True)
    transceiver = pc.addTransceiver(player.video, direction="sendonly")
    codecs = RTCRtpSender.getCapabilities("video").codecs
    transceiver.setCodecPreferences([c for c in codecs if c.mimeType.lower() in ("video/vp8", "video/rtx")])
    await pc.setLocalDescription(await pc.createOffer())
    offer = pc.localDescription.sdp
    answer = await asyncio.to_thread(post, cut(offer, "goog-remb") if "REMB" in without else offer)
    await pc.setRemoteDescription(RTCSessionDescription(cut(answer, "b=") if "TIAS" in without else answer, "answer"))
    while True:
        await asyncio.sleep(0.25)
        for s in (await transceiver.sender.getStats()).values():
            if s.type == "outbound-rtp" and s.bytesSent:
                print(json.dumps([time.monotonic() * 1000, s.bytesSent + 12 * s.packetsSent, 0, 0]), flush=True)


asyncio.run(main())
