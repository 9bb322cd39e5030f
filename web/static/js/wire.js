// The native agent socket's wire (PROTOCOL.md §5), pure: bytes and strings in, values out.

export const SUBPROTOCOL = 'sightline.agent.v1';

// A header longer than this is not one of ours; the bound keeps a damaged length from being believed.
const MAX_HEADER_BYTES = 64 * 1024;

/** Splits a binary message: 4 bytes big-endian header length, JSON header with `type`, payload. Throws Error saying what is wrong. */
export function decodeBinary(buffer) {
  if (buffer.byteLength < 4) throw new Error(`binary message of ${buffer.byteLength} bytes has no header length`);
  const length = new DataView(buffer).getUint32(0, false);
  if (length > MAX_HEADER_BYTES) throw new Error(`header length ${length} is above ${MAX_HEADER_BYTES}`);
  if (4 + length > buffer.byteLength) throw new Error(`header length ${length} is beyond the message's ${buffer.byteLength} bytes`);
  const text = new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(buffer, 4, length));
  const header = JSON.parse(text);
  if (header === null || typeof header !== 'object' || Array.isArray(header) || typeof header.type !== 'string') {
    throw new Error('binary header is no object with a type');
  }
  return { header, payload: new Uint8Array(buffer, 4 + length) };
}

/** What this console asks to be sent: entries, who speaks and what, and images of every source at `fps` in the seeds' default encoding. */
export function wantOf(fps) {
  return { context: true, transcripts: true, images: [{ source: '*', fps, ...IMAGE_OPTIONS }] };
}

export const IMAGE_OPTIONS = Object.freeze({ width: 1024, height: 1024, fit: 'stretch', quality: 75 });

/** The first message. `resumeFrom` is the last seq applied of the log `logId`; undefined asks for a snapshot. */
export function hello(agentId, want, resumeFrom, logId) {
  const message = { type: 'hello', agent_id: agentId, want };
  if (resumeFrom !== undefined) message.resume_from = resumeFrom;
  if (resumeFrom !== undefined && logId) message.log_id = logId;
  return message;
}

/**
 * Where the page finds an image part's bytes. Returns {src} for what may be shown, {blob} for a stored blob's path, or {outside}
 * with the host of an image kept by reference elsewhere, which this page does not load.
 */
export function imageAddress(url, session) {
  if (typeof url !== 'string') return { outside: 'unknown address' };
  const stored = /^sightline:blob\/([0-9a-f]{64})$/.exec(url);
  if (stored) return { blob: `/v1/sessions/${encodeURIComponent(session)}/blobs/${stored[1]}` };
  if (/^data:image\//i.test(url)) return { src: url };
  try {
    return { outside: new URL(url).host || 'unknown address' };
  } catch {
    return { outside: 'unknown address' };
  }
}

/** An offer whose video sections say that they are a screen (RFC 4796), so that the gateway names the source so. */
export function markScreen(sdp) {
  return sdp.replace(/^m=video [^\r\n]*(\r?\n)(?:[ci]=[^\r\n]*\r?\n|b=[^\r\n]*\r?\n)*/gm, (head, end) => `${head}a=content:slides${end}`);
}

/** A random id, also on an insecure origin where crypto.randomUUID does not exist. */
export function randomId(bytes = 16) {
  const raw = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(raw, (b) => b.toString(16).padStart(2, '0')).join('');
}

/** The rule for session ids (PROTOCOL.md §1). */
export function validSession(id) {
  return /^[A-Za-z0-9_-]{1,64}$/.test(id);
}
