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

/**
 * Reads the sound's part of a getStats() report, both ways. Returns {at, codec, sent: {bytes, packets, bitrate, lost, lossShare}, heard:
 * {packets, lost, lossShare, jitterMs, bufferMs, energy}, rttMs}; `sent` and `heard` are undefined where nothing goes that way.
 */
export function readSound(reports, before) {
  const all = [...reports];
  const out = all.find((r) => r.type === 'outbound-rtp' && r.kind === 'audio'), into = all.find((r) => r.type === 'inbound-rtp' && r.kind === 'audio');
  if (!out && !into) return undefined;
  const remote = all.find((r) => r.type === 'remote-inbound-rtp' && r.kind === 'audio');
  const pair = all.find((r) => r.type === 'candidate-pair' && r.nominated && r.state === 'succeeded');
  const codec = all.find((r) => r.id === (out ?? into).codecId)?.mimeType?.replace(/^audio\//i, '');
  const now = { at: (out ?? into).timestamp, codec, rttMs: seconds(pair?.currentRoundTripTime) };
  if (out) {
    now.sent = { at: out.timestamp, bytes: out.bytesSent ?? 0, packets: out.packetsSent ?? 0, lost: remote?.packetsLost };
    now.sent.bitrate = rate(now.sent, before?.sent);
    now.sent.lossShare = loss(now.sent, before?.sent);
  }
  if (into) {
    now.heard = { packets: into.packetsReceived ?? 0, lost: into.packetsLost ?? 0, jitterMs: seconds(into.jitter), energy: into.totalAudioEnergy ?? 0 };
    now.heard.bufferMs = into.jitterBufferEmittedCount > 0 ? seconds(into.jitterBufferDelay / into.jitterBufferEmittedCount) : undefined;
    const got = now.heard.packets - (before?.heard?.packets ?? 0), lost = now.heard.lost - (before?.heard?.lost ?? 0);
    now.heard.lossShare = got + lost > 0 ? Math.min(1, Math.max(0, lost) / (got + lost)) : before?.heard?.lossShare;
  }
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
