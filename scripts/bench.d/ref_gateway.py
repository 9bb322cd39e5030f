#!/usr/bin/python3
"""ref_gateway.py: what one would write in Python in place of the gateway: aiortc takes video by WHIP, Pillow makes JPEGs, websockets
hands them to agents. It speaks as much of PROTOCOL.md as sightline-load --no-context needs, and prints its two URLs when it serves."""
import asyncio
import datetime
import io
import json
import re
import resource
import struct
from concurrent.futures import ThreadPoolExecutor

import aioice.ice
import websockets
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: ["127.0.0.1"]  # aioice leaves loopback out

sessions = {}
encoders = ThreadPoolExecutor(2)  # Pillow lets go of the interpreter's lock while it scales and encodes


class Session:
    def __init__(self):
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.frame = self.task = None
        self.image = (None, b"")  # the frame that was encoded last, and its JPEG: agents of a session share it
        self.encoding = asyncio.Lock()
        self.pc.on("track", self.track)

    def track(self, track):
        if track.kind == "video":
            self.receiver = next(t.receiver for t in self.pc.getTransceivers() if t.receiver.track is track)
            self.task = asyncio.ensure_future(self.watch(track))

    async def watch(self, track):
        while True:  # aiortc decodes every frame; the newest one is kept
            self.frame = await track.recv()

    async def jpeg(self):
        async with self.encoding:
            frame = self.frame
            if frame is not self.image[0]:
                self.image = (frame, await asyncio.get_running_loop().run_in_executor(encoders, encode, frame))
            return self.image

    def rtp_timestamp(self, frame):
        origin = self.receiver._RTCRtpReceiver__timestamp_mapper._origin  # aiortc counts from the first one
        return (frame.pts + origin) & 0xFFFFFFFF

    async def close(self):
        if self.task:
            self.task.cancel()
        await self.pc.close()


def encode(frame):
    out = io.BytesIO()
    frame.to_image().resize((1024, 1024)).save(out, "JPEG", quality=75)
    return out.getvalue()


async def whip(name, offer):
    s = sessions[name] = Session()
    await s.pc.setRemoteDescription(RTCSessionDescription(offer, "offer"))
    await s.pc.setLocalDescription(await s.pc.createAnswer())
    return s.pc.localDescription.sdp


def metrics():
    used = resource.getrusage(resource.RUSAGE_SELF)
    resident = int(re.search(r"VmRSS:\s+(\d+)", open("/proc/self/status").read())[1]) * 1024
    return f"process_cpu_seconds_total {used.ru_utime + used.ru_stime}\nprocess_resident_memory_bytes {resident}\n"


async def http(reader, writer):
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split(" ", 2)
            length = re.search(r"(?i)content-length: *(\d+)", head)
            body = (await reader.readexactly(int(length[1]))).decode() if length else ""
            name = path.rstrip("/").rsplit("/", 1)[-1]
            status, kind, more, answer = "404 Not Found", "text/plain", "", ""
            if method == "POST" and path.startswith("/whip/"):
                answer = await whip(name, body)
                status, kind, more = "201 Created", "application/sdp", f"Location: {path}\r\n"
            elif method == "DELETE":
                if name in sessions:
                    await sessions.pop(name).close()
                status = "200 OK"
            elif path == "/metrics":
                status, answer = "200 OK", metrics()
            data = answer.encode()
            writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(data)}\r\n\r\n".encode() + data)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def agent(ws, path):
    name = re.search(r"session=([^&]*)", path)[1]
    hello = json.loads(await ws.recv())
    wish = hello["want"]["images"][0]
    await ws.send(json.dumps({"type": "welcome", "session": name, "agent_id": hello["agent_id"], "log_id": "none", "seq": 0, "replayed": False,
                              "limits": {}, "sources": [], "epoch": 0, "active_leg": None}))
    loop = asyncio.get_running_loop()
    due, seq = loop.time(), 0
    gone = asyncio.ensure_future(ws.recv())  # bye, or the close
    while not gone.done() and name in sessions:
        due += 1 / wish["fps"]
        await asyncio.wait([gone], timeout=max(due - loop.time(), 0))
        s = sessions.get(name)
        if s is None or s.frame is None or gone.done():
            continue
        frame, data = await s.jpeg()
        seq += 1
        now = datetime.datetime.utcnow().isoformat(timespec="milliseconds") + "Z"
        header = json.dumps({"type": "image", "source": "camera", "seq": seq, "captured_at": now, "age_ms": 0, "width": 1024, "height": 1024,
                             "mime": "image/jpeg", "superseded": 0, "rtp_timestamp": s.rtp_timestamp(frame)}).encode()
        try:
            await ws.send(struct.pack(">I", len(header)) + header + data)
        except websockets.ConnectionClosed:
            break


async def main():
    web = await asyncio.start_server(http, "127.0.0.1", 0)
    sockets = await websockets.serve(agent, "127.0.0.1", 0, subprotocols=["sightline.agent.v1"], compression=None, max_size=None)
    print(f"peer serves http://127.0.0.1:{web.sockets[0].getsockname()[1]} and agents at "
          f"http://127.0.0.1:{sockets.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
