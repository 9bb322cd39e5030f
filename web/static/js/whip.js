// Publishing by WHIP (RFC 9725): one peer connection at a time, re-made by itself when it breaks, under the same session id.
import { Backoff } from './backoff.js';
import { obeyWishes } from './sender.js';
import { readSound, readStats } from './stats.js';
import { markScreen } from './wire.js';
import { ServerError, connectionTrouble, endedTrouble, insecureTrouble, mediaTrouble, serverTrouble } from './words.js';

const GATHER_MS = 1000;       // candidates that are later than this follow by PATCH
const CONNECT_MS = 15_000;    // from the answer to the first connected state
const DISCONNECTED_MS = 4000; // ICE often heals by itself within this
const FIRST_TRIES = 3;        // a connection that never came up is given up after this many
const BITRATE = { camera: 1_500_000, screen: 2_500_000 };

/**
 * States: idle, asking (permission), connecting, live, reconnecting, failed. Every change dispatches `change`; `trouble` is what to
 * tell the person, `retryAt` (performance.now() time) when the next try starts. `kind` is camera, screen or microphone (sound alone);
 * `voice` is the stream in which the agent is heard, null while there is none; `sound` what the browser measured of both directions.
 */
export class Publisher extends EventTarget {
  #api; #run = 0; #pc = null; #resource = ''; #etag = ''; #everLive = false; #tries = 0;
  #backoff = new Backoff(); #timers = new Set(); #ended = Promise.resolve(); #stats; #hear = false;

  constructor(api) {
    super();
    this.#api = api;
    this.state = 'idle';
    this.kind = 'camera';
    this.session = '';
    this.stream = null;
    this.voice = null;
    this.sound = undefined;
    this.muted = false;
    this.trouble = null;
    this.retryAt = 0;
  }

  /** The microphone's track while it is sent, else null. */
  get microphone() {
    return this.stream?.getAudioTracks()[0] ?? null;
  }

  /** Switches the microphone off and on again within the call; silence is sent meanwhile. */
  muteMicrophone(off) {
    if (this.microphone) this.microphone.enabled = !off;
    this.dispatchEvent(new Event('change'));
  }

  get active() {
    return this.state !== 'idle' && this.state !== 'failed';
  }

  /** Resolves when the server has heard of the last call's end, or after 3 s. */
  get settled() {
    return this.#ended;
  }

  /** Asks for picture or sound and publishes it; resolves when the first attempt is under way or has failed. `hear`: take the agent's voice. */
  async start({ session, kind = 'camera', microphone = false, hear = false }) {
    await this.stop();
    const run = ++this.#run;
    Object.assign(this, { session, kind });
    this.#hear = hear;
    this.#everLive = false;
    this.#tries = 0;
    this.#backoff.reset();
    this.#set('asking');
    if (!navigator.mediaDevices?.getUserMedia) return this.#fail(insecureTrouble(window.location));
    let stream;
    try {
      stream = await openMedia(kind, microphone);
    } catch (error) {
      if (run === this.#run) this.#fail(mediaTrouble(error, kind));
      return;
    }
    if (run !== this.#run) return stopTracks(stream);
    this.stream = stream;
    this.#watch(stream, run);
    await this.#connect(run);
  }

  /** Ends the call and tells the server; safe at any time. */
  stop() {
    this.#run++;
    this.#leave();
    stopTracks(this.stream);
    this.stream = null;
    this.muted = false;
    this.#set('idle');
    return this.#ended;
  }

  /** What the browser measured since the last call, or undefined without a connection. */
  async stats() {
    if (!this.#pc) return undefined;
    const pc = this.#pc, report = await pc.getStats();
    if (pc !== this.#pc) return undefined;
    this.sound = readSound(report.values(), this.sound);
    this.#stats = readStats(report.values(), this.#stats);
    return this.#stats ?? (this.sound && { codec: this.sound.codec, rttMs: this.sound.rttMs, bitrate: this.sound.sent?.bitrate, lossShare: this.sound.sent?.lossShare });
  }

  /** Tries again now in place of waiting. */
  retryNow() {
    if (this.state === 'reconnecting') this.#connect(this.#run);
  }

  /** Asks the server whether it still has this call; after its restart it has not, long before ICE notices. */
  async check() {
    const run = this.#run, pc = this.#pc, resource = this.#resource;
    if (this.state !== 'live' || !resource) return;
    try {
      await this.#api.request(resource, { timeoutMs: 3000 });
    } catch (error) {
      if (error instanceof ServerError && error.status === 404 && run === this.#run && pc === this.#pc) this.#broken(run, null);
    }
  }

  #set(state, trouble = null) {
    this.state = state;
    this.trouble = trouble;
    this.dispatchEvent(new Event('change'));
  }

  #fail(trouble) {
    this.#run++;
    this.#leave();
    stopTracks(this.stream);
    this.stream = null;
    this.#set('failed', trouble);
  }

  #watch(stream, run) {
    const [track] = this.kind === 'microphone' ? stream.getAudioTracks() : stream.getVideoTracks();
    for (const t of stream.getAudioTracks()) t.addEventListener('ended', () => { if (run === this.#run) this.dispatchEvent(new Event('change')); });
    track.addEventListener('ended', () => { if (run === this.#run) this.#fail(endedTrouble(this.kind)); });
    const note = () => { if (run === this.#run) { this.muted = track.muted; this.dispatchEvent(new Event('change')); } };
    track.addEventListener('mute', note);
    track.addEventListener('unmute', note);
  }

  async #connect(run) {
    this.#leave();
    this.#tries++;
    this.#set(this.#everLive ? 'reconnecting' : 'connecting', this.trouble);
    this.retryAt = 0;
    await this.#ended; // the old call's DELETE first, or the session would still be publishing
    if (run !== this.#run) return;
    try {
      await this.#offer(run);
    } catch (error) {
      if (run === this.#run) this.#refused(error, run);
    }
  }

  async #offer(run) {
    const pc = this.#pc = new RTCPeerConnection({ bundlePolicy: 'max-bundle' });
    this.#stats = this.sound = undefined;
    const late = [];
    pc.addEventListener('track', (e) => {
      if (pc !== this.#pc || e.track.kind !== 'audio') return;
      this.voice = new MediaStream([e.track]);
      this.dispatchEvent(new Event('change'));
    });
    pc.addEventListener('icecandidate', (e) => { if (e.candidate?.candidate) this.#trickle(pc, e.candidate, late); });
    pc.addEventListener('connectionstatechange', () => { if (pc === this.#pc && run === this.#run) this.#moved(pc, run); });
    await addTracks(pc, this.stream, this.kind, this.#hear);
    if (this.stream.getVideoTracks().length) obeyWishes(pc, BITRATE[this.kind]);
    await pc.setLocalDescription(await pc.createOffer());
    await gathered(pc, GATHER_MS);
    if (run !== this.#run || pc !== this.#pc) return;
    late.length = 0; // these are in the offer already
    const offer = this.kind === 'screen' ? markScreen(pc.localDescription.sdp) : pc.localDescription.sdp;
    const response = await this.#api.request(`/whip/${encodeURIComponent(this.session)}`, {
      method: 'POST', headers: { 'Content-Type': 'application/sdp' }, body: offer });
    const location = response.headers.get('Location');
    if (response.status !== 201 || !location) throw new Error(`the answer is no WHIP answer (status ${response.status}); is this address a Sightline gateway?`);
    const resource = new URL(location, window.location.href).href;
    if (run !== this.#run || pc !== this.#pc) return void this.#delete(resource);
    this.#resource = resource;
    this.#etag = response.headers.get('ETag') ?? '';
    await pc.setRemoteDescription({ type: 'answer', sdp: await response.text() });
    for (const candidate of late.splice(0)) this.#patch(pc, candidate);
    this.#later(CONNECT_MS, () => { if (pc === this.#pc && pc.connectionState !== 'connected') this.#broken(run, connectionTrouble()); });
  }

  #trickle(pc, candidate, late) {
    if (pc !== this.#pc) return;
    if (this.#resource) this.#patch(pc, candidate);
    else late.push(candidate);
  }

  // A candidate that came after the offer (RFC 9725 §4.3.1). It may be refused: the pairs in the offer can still connect.
  #patch(pc, candidate) {
    const sdp = pc.localDescription.sdp;
    const attribute = (name) => new RegExp(`^a=${name}:(\\S+)`, 'm').exec(sdp)?.[1] ?? '';
    const line = /^m=.*$/m.exec(sdp)?.[0]?.trim() ?? 'm=video 9 UDP/TLS/RTP/SAVPF 0';
    const body = [`a=ice-ufrag:${attribute('ice-ufrag')}`, `a=ice-pwd:${attribute('ice-pwd')}`, line, `a=mid:${candidate.sdpMid ?? '0'}`, `a=${candidate.candidate}`, ''].join('\r\n');
    const match = this.#etag ? { 'If-Match': this.#etag } : {};
    this.#api.request(this.#resource, { method: 'PATCH', body, headers: { 'Content-Type': 'application/trickle-ice-sdpfrag', ...match } }).catch(() => {});
  }

  #moved(pc, run) {
    switch (pc.connectionState) {
      case 'connected':
        this.#everLive = true;
        this.#tries = 0;
        this.#later(10_000, () => this.#backoff.reset());
        return this.#set('live');
      case 'disconnected':
        return this.#later(DISCONNECTED_MS, () => { if (pc === this.#pc && pc.connectionState === 'disconnected') this.#broken(run, null); });
      case 'failed':
        return this.#broken(run, this.#everLive ? null : connectionTrouble());
      default:
    }
  }

  #refused(error, run) {
    const fatal = error instanceof ServerError && ![429, 500, 502, 503, 504].includes(error.status) && !(error.status === 409 && this.#everLive);
    if (fatal) return this.#fail(serverTrouble(error, 'start the call', this.session));
    if (!(error instanceof ServerError) && !['TypeError', 'TimeoutError', 'AbortError'].includes(error?.name)) {
      return this.#fail({ code: 'negotiation', title: 'The call could not be set up', advice: `${error?.message ?? error}`, retry: true });
    }
    this.#again(run, serverTrouble(error, 'start the call', this.session), error.retryAfterMs);
  }

  #broken(run, trouble) {
    if (!this.#everLive && this.#tries >= FIRST_TRIES) return this.#fail(trouble ?? connectionTrouble());
    this.#again(run, trouble, 0);
  }

  #again(run, trouble, atLeast) {
    this.#leave();
    const wait = this.#backoff.next(atLeast);
    this.retryAt = performance.now() + wait;
    this.#later(wait, () => { if (run === this.#run) this.#connect(run); });
    this.#set('reconnecting', trouble);
  }

  // Closes the connection and sends DELETE; keepalive lets it outlive the page.
  #leave() {
    for (const t of this.#timers) clearTimeout(t);
    this.#timers.clear();
    const pc = this.#pc, resource = this.#resource;
    this.#pc = this.voice = null;
    this.sound = undefined;
    this.#resource = this.#etag = '';
    this.retryAt = 0;
    if (resource) this.#delete(resource);
    pc?.close();
  }

  #delete(resource) {
    const done = this.#api.request(resource, { method: 'DELETE', keepalive: true }).then(() => {}, () => {});
    const bound = new Promise((resolve) => setTimeout(resolve, 3000));
    this.#ended = Promise.race([done, bound]);
  }

  #later(ms, act) {
    const t = setTimeout(() => { this.#timers.delete(t); act(); }, ms);
    this.#timers.add(t);
  }
}

// The agent's voice from the loudspeaker must not come back as the caller's.
const SPEECH = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };

async function openMedia(kind, microphone) {
  const devices = navigator.mediaDevices, audio = microphone ? SPEECH : false;
  if (kind === 'microphone') return devices.getUserMedia({ audio: SPEECH });
  if (kind === 'camera') return devices.getUserMedia({ video: { width: { ideal: 1280 }, height: { ideal: 720 }, frameRate: { ideal: 30 } }, audio });
  const stream = await devices.getDisplayMedia({ video: { frameRate: { ideal: 15 } } });
  if (!microphone) return stream;
  try {
    for (const t of (await devices.getUserMedia({ audio })).getAudioTracks()) stream.addTrack(t);
  } catch (error) {
    stopTracks(stream);
    throw error;
  }
  return stream;
}

function stopTracks(stream) {
  for (const t of stream?.getTracks() ?? []) t.stop();
}

async function addTracks(pc, stream, kind, hear) {
  for (const video of stream.getVideoTracks()) await addVideo(pc, video, stream, kind);
  const sound = stream.getAudioTracks();
  for (const t of sound) pc.addTransceiver(t, { direction: hear ? 'sendrecv' : 'sendonly', streams: [stream] });
  if (hear && sound.length === 0) pc.addTransceiver('audio', { direction: 'recvonly' });
}

// The header extension that says when a picture was taken; Chromium offers it only when asked to.
function tellCaptureTime(transceiver) {
  try {
    const extensions = transceiver.getHeaderExtensionsToNegotiate();
    for (const e of extensions) if (e.uri.endsWith('/abs-capture-time')) e.direction = 'sendrecv';
    transceiver.setHeaderExtensionsToNegotiate(extensions);
  } catch { /* a browser without this: sender reports do */ }
}

// An agent looks at single pictures: sharpness matters more than smooth motion, so the size is kept when bandwidth is short.
async function addVideo(pc, video, stream, kind) {
  if (kind === 'screen' && 'contentHint' in video) video.contentHint = 'detail'; // a camera with it would say that it is a screen
  const transceiver = pc.addTransceiver(video, { direction: 'sendonly', streams: [stream], sendEncodings: [{ maxBitrate: BITRATE[kind] }] });
  preferVP8(transceiver);
  tellCaptureTime(transceiver);
  try {
    const parameters = transceiver.sender.getParameters();
    parameters.degradationPreference = 'maintain-resolution';
    await transceiver.sender.setParameters(parameters);
  } catch { /* an older browser: it may step the size down, which the server follows */ }
}

function preferVP8(transceiver) {
  const codecs = RTCRtpSender.getCapabilities?.('video')?.codecs ?? [];
  const first = codecs.filter((c) => /\/vp8$/i.test(c.mimeType));
  if (first.length && transceiver.setCodecPreferences) transceiver.setCodecPreferences([...first, ...codecs.filter((c) => !first.includes(c))]);
}

function gathered(pc, ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const look = () => { if (pc.iceGatheringState === 'complete') { clearTimeout(timer); resolve(); } };
    pc.addEventListener('icegatheringstatechange', look);
    look();
  });
}
