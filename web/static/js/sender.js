// What the gateway asks this page to send (PROTOCOL.md §2.1): no more than the agents want. It tells us on a data channel of our own.
const LABEL = 'sightline.sender';
const LEAST_SCALE = 1.25; // a smaller step is not worth the key frame that a change of size costs

/** The encoding for a wish of the gateway, for a picture of width × height; `most` is the bit rate that we send at all. */
export function encodingFor(wish, { width, height }, most) {
  const positive = (n) => Number.isFinite(n) && n > 0;
  const encoding = { maxBitrate: positive(wish.max_bitrate_bps) ? Math.min(wish.max_bitrate_bps, most) : most, scaleResolutionDownBy: 1 };
  if (positive(wish.max_fps)) encoding.maxFramerate = wish.max_fps;
  if (positive(wish.width) && positive(wish.height) && positive(width) && positive(height)) {
    const scale = Math.min(width / wish.width, height / wish.height); // still as large as the box, both ways
    if (scale >= LEAST_SCALE) encoding.scaleResolutionDownBy = scale;
  }
  return encoding;
}

/** Listens on a connection that is about to offer, and keeps its video senders to what is wanted. `most` as above. */
export function obeyWishes(pc, most) {
  if (!pc.createDataChannel) return;
  const channel = pc.createDataChannel(LABEL);
  let wishes = [], busy = false;
  const apply = async () => {
    if (busy) return; // the one under way looks again
    busy = true;
    for (let done = null; done !== wishes;) {
      done = wishes;
      for (const wish of done) await keepTo(pc, wish, most);
    }
    busy = false;
  };
  channel.addEventListener('message', (e) => {
    try {
      const message = JSON.parse(e.data);
      if (message.type !== 'sender' || !Array.isArray(message.sources)) return;
      wishes = message.sources;
    } catch { return; }
    apply();
  });
}

async function keepTo(pc, wish, most) {
  const sender = pc.getTransceivers().find((t) => t.mid === wish.mid)?.sender;
  if (!sender?.track) return;
  try {
    const parameters = sender.getParameters();
    if (parameters.encodings?.length !== 1) return;
    Object.assign(parameters.encodings[0], encodingFor(wish, sender.track.getSettings(), most));
    await sender.setParameters(parameters);
  } catch { /* the connection has just ended, or a browser that knows none of this: REMB caps it too */ }
}
