// What the browser's own statistics say about the outgoing video, pure: an iterable of RTCStats in, figures out.

/**
 * Reads a getStats() report. `before` is the previous reading (or undefined): rates come from the difference.
 * Returns {at, codec, width, height, fps, bytes, bitrate, packets, lost, lossShare, rttMs, limit, keyFrames, pli}; a figure that
 * the browser does not give is undefined.
 */
export function readStats(reports, before) {
  const byId = new Map();
  for (const r of reports) byId.set(r.id, r);
  const all = [...byId.values()];
  const out = all.filter((r) => r.type === 'outbound-rtp' && r.kind === 'video');
  if (out.length === 0) return undefined;
  const main = out.reduce((a, b) => ((b.frameWidth ?? 0) > (a.frameWidth ?? 0) ? b : a));
  const remote = all.filter((r) => r.type === 'remote-inbound-rtp' && r.kind === 'video');
  const pair = all.find((r) => r.type === 'candidate-pair' && r.nominated && r.state === 'succeeded');
  const sum = (list, key) => list.reduce((n, r) => n + (r[key] ?? 0), 0);
  const now = {
    at: main.timestamp,
    codec: byId.get(main.codecId)?.mimeType?.replace(/^video\//i, ''),
    width: main.frameWidth, height: main.frameHeight, fps: main.framesPerSecond,
    bytes: sum(out, 'bytesSent'), packets: sum(out, 'packetsSent'),
    lost: remote.length ? sum(remote, 'packetsLost') : undefined,
    rttMs: seconds(remote.find((r) => r.roundTripTime > 0)?.roundTripTime ?? pair?.currentRoundTripTime),
    limit: main.qualityLimitationReason, keyFrames: main.keyFramesEncoded, pli: main.pliCount,
  };
  now.bitrate = rate(now, before);
  now.lossShare = loss(now, before);
  return now;
}

const seconds = (s) => (Number.isFinite(s) ? s * 1000 : undefined);

function rate(now, before) {
  if (!before || now.at <= before.at || now.bytes < before.bytes) return undefined;
  return ((now.bytes - before.bytes) * 8 * 1000) / (now.at - before.at);
}

// Lost packets over packets sent since the last reading; the receiver's reports lag, so a negative difference counts as none.
function loss(now, before) {
  if (now.lost === undefined) return undefined;
  const sent = now.packets - (before?.packets ?? 0), lost = now.lost - (before?.lost ?? 0);
  if (sent <= 0) return before?.lossShare;
  return Math.min(1, Math.max(0, lost) / sent);
}
