#!/usr/bin/python3
"""A pipeline of a Sightline session in Python: it repeats what is typed, and answers what is spoken with a short tone."""
import argparse
import array
import asyncio
import json
import math

import websockets  # python3-websockets 10.4 of Debian 12, and every later version

RATE = 16000  # Hz, both ways: 16-bit samples of one channel


def tone(ms):
    n = RATE * ms // 1000
    fade = RATE // 50  # in and out within 20 ms, so that it does not click
    return array.array("h", (int(8000 * min(1, i / fade, (n - i) / fade) * math.sin(2 * math.pi * 440 * i / RATE)) for i in range(n)))


class Leg:
    def __init__(self, socket, name):
        self.socket, self.name, self.turns = socket, name, 0
        self.floor = None  # the epoch in which this leg may speak, None while it may not
        self.heard = 0  # samples of the caller's turn

    async def say(self, **message):
        await self.socket.send(json.dumps(message))

    async def answer(self, text, ms):
        self.turns += 1
        turn = {"epoch": self.floor, "item_id": f"turn-{self.turns}"}
        # Binary: 4 bytes, the length of the header; the header; the samples. All at once: the gateway plays it at its own pace.
        header = json.dumps({"type": "audio", "rate": RATE, "format": "pcm_s16le", "text": text, **turn}).encode()
        await self.socket.send(len(header).to_bytes(4, "big") + header + tone(ms).tobytes())
        await self.say(type="leg.transcript", who="agent", text=text, final=True, **turn)
        await self.say(type="leg.turn_done", status="completed", **turn)

    def sound(self, message):
        size = int.from_bytes(message[:4], "big")
        if json.loads(message[4:4 + size])["type"] == "audio":  # the caller's; a real leg gives it to its recogniser
            self.heard += (len(message) - 4 - size) // 2

    async def take(self, m):
        kind = m["type"]
        if kind == "leg.start":  # m["seed"] is the conversation so far, m["tools"] what may be called
            print(f"epoch {m['epoch']}: told {len(m['seed']['items'])} items", flush=True)
            await self.say(type="leg.ready", epoch=m["epoch"])
        elif kind == "leg.commit":
            self.floor, self.heard = m["epoch"], 0
            if m["respond"]:
                await self.answer("I am here now. What can I do?", 300)
        elif kind == "leg.respond" and m["epoch"] == self.floor:
            await self.answer("You typed: " + "".join(c.get("text", "") for c in m["item"].get("content", [])), 500)
        elif kind == "speech.started":
            self.heard = 0
        elif kind == "speech.stopped" and m.get("final") and self.floor:
            self.turns += 1
            text = f"(speech, {self.heard / RATE:.1f} s)"
            await self.say(type="leg.transcript", epoch=self.floor, item_id=f"heard-{self.turns}", who="caller", text=text, final=True)
            await self.answer("I heard you.", 500)
        elif kind == "leg.interrupt":  # nothing to stop: answers are sent whole, and the gateway has forgotten the rest
            print(f"{m['item_id']} was stopped after {m['played_ms']} ms", flush=True)
        elif kind == "leg.stop" and m["epoch"] == self.floor:
            self.floor = None
        elif kind == "error":
            print(f"refused: {m['code']}: {m['message']}", flush=True)

    async def serve(self):
        await self.say(type="hello", agent_id=self.name, want={})
        await self.say(type="leg.register", op_id="register", name=self.name, kind="realtime", in_rate=RATE, out_rate=RATE)
        async for message in self.socket:
            if isinstance(message, bytes):
                self.sound(message)
            else:
                await self.take(json.loads(message))


async def main(url, session, name):
    while True:
        try:
            async with websockets.connect(f"{url}/v1/agent?session={session}", subprotocols=["sightline.agent.v1"], max_size=None) as socket:
                await Leg(socket, name).serve()
        except websockets.ConnectionClosedError as e:
            if e.rcvd and e.rcvd.code in (4000, 4004, 4009):  # our mistake, the session's end, another of our name: no use trying again
                raise SystemExit(f"closed: {e.rcvd.code}")
        except (OSError, asyncio.TimeoutError, websockets.WebSocketException):  # not there yet, or gone for a moment
            pass
        await asyncio.sleep(1)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", default="ws://localhost:8080")
    p.add_argument("--session", default="demo")
    p.add_argument("--name", default="python")
    try:
        asyncio.run(main(**vars(p.parse_args())))
    except KeyboardInterrupt:
        pass
