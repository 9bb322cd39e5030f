// States and errors in words, each with what to do next. Pure: every sentence the page says about trouble is made here.

/** A trouble to show: `title` is what happened, `advice` what to do, `retry` whether starting again may help. */
const trouble = (code, title, advice, retry = true) => ({ code, title, advice, retry });

/** Why getUserMedia or getDisplayMedia failed. `kind` is camera, screen or microphone. */
export function mediaTrouble(error, kind) {
  if (kind === 'microphone') return microphoneTrouble(error);
  const screen = kind === 'screen';
  switch (error?.name) {
    case 'NotAllowedError':
    case 'SecurityError':
      return screen
        ? trouble('denied', 'The screen was not shared', 'The choice was dismissed, or the system does not allow this browser to record the screen. Press Share screen to choose again.')
        : trouble('denied', 'The browser may not use the camera', 'Allow the camera for this site (the icon beside the address), check the system’s privacy settings, then press Start camera.');
    case 'NotFoundError':
    case 'DevicesNotFoundError':
      return trouble('no-camera', screen ? 'No screen to share was found' : 'No camera was found', screen ? 'Share a window or a tab instead.' : 'Plug one in, or press Share screen to send a window instead.');
    case 'NotReadableError':
    case 'TrackStartError':
      return trouble('in-use', screen ? 'The system would not give the screen' : 'The camera is in use or does not answer', screen ? 'Choose another window, then try again.' : 'Close other programs that use it (a call, a recorder) or plug it in again, then press Start camera.');
    case 'OverconstrainedError':
      return trouble('unfit', 'The camera cannot give a usable picture', 'Try another camera.');
    case 'AbortError':
      return trouble('aborted', 'The browser gave up on the camera', 'Press Start camera to try again.');
    case 'TypeError':
      return trouble('unsupported', screen ? 'This browser cannot share a screen' : 'This browser cannot open a camera here', 'Use a current Chromium or Firefox on a computer.', false);
    default:
      return trouble('media', screen ? 'The screen could not be shared' : 'The camera could not be started', `${error?.message || error?.name || 'The browser gave no reason'}.`);
  }
}

function microphoneTrouble(error) {
  switch (error?.name) {
    case 'NotAllowedError':
    case 'SecurityError':
      return trouble('denied', 'The browser may not use the microphone', 'Allow the microphone for this site (the icon beside the address), check the system’s privacy settings, then press Start microphone.');
    case 'NotFoundError':
    case 'DevicesNotFoundError':
      return trouble('no-microphone', 'No microphone was found', 'Plug one in, then press Start microphone. Without one you can type: the agent answers all the same.');
    case 'NotReadableError':
    case 'TrackStartError':
      return trouble('in-use', 'The microphone is in use or does not answer', 'Close other programs that use it or plug it in again, then press Start microphone.');
    case 'OverconstrainedError':
      return trouble('unfit', 'The microphone cannot give usable sound', 'Try another microphone.');
    case 'AbortError':
      return trouble('aborted', 'The browser gave up on the microphone', 'Press Start microphone to try again.');
    case 'TypeError':
      return trouble('unsupported', 'This browser cannot open a microphone here', 'Use a current Chromium or Firefox.', false);
    default:
      return trouble('media', 'The microphone could not be started', `${error?.message || error?.name || 'The browser gave no reason'}.`);
  }
}

/** The browser did not let the agent's voice begin to play. */
export function autoplayTrouble() {
  return { code: 'autoplay', soft: true, title: 'The browser holds the agent’s voice back.', advice: 'It plays sound only after you have pressed something on the page.', label: 'Play the voice' };
}

/** The page is on an origin where browsers hide the camera. */
export function insecureTrouble(location) {
  const local = `http://localhost${location.port ? `:${location.port}` : ''}/`;
  return trouble('insecure', 'The browser hides the camera on this address', `Cameras work only over https or on localhost. On the machine that serves this page, open ${local}; from elsewhere, put the gateway behind https.`, false);
}

/** The picture's track ended by itself. */
export function endedTrouble(kind) {
  if (kind === 'microphone') return trouble('unplugged', 'The microphone went away', 'It was unplugged, switched off, or its permission was taken back. Plug it in and press Start microphone again to go on in the same session.');
  return kind === 'screen'
    ? trouble('screen-ended', 'Screen sharing was stopped', 'The call has ended. Press Share screen again or Start camera to go on in the same session.')
    : trouble('unplugged', 'The camera went away', 'It was unplugged, switched off, or its permission was taken back. Plug it in and press Start camera again to go on in the same session.');
}

/** An answer of the server that refuses something: problem JSON or not. */
export class ServerError extends Error {
  constructor(status, problem, retryAfterMs = 0) {
    super(problem?.detail || problem?.title || `the server answered ${status}`);
    this.name = 'ServerError';
    this.status = status;
    this.code = problem?.code ?? '';
    this.retryAfterMs = retryAfterMs;
  }
}

/** Why a request failed. `doing` is a short clause: "start the call". Detail from the server is shown as it is. */
export function serverTrouble(error, doing, session) {
  if (!(error instanceof ServerError)) {
    return trouble('server-gone', 'The server does not answer', 'Is it still running? The page keeps trying and goes on by itself when it is back.');
  }
  const said = sentence(error.message);
  switch (error.status) {
    case 401:
      return trouble('unauthenticated', 'The server wants a token', `${said} Open this page with #token=… at the end of its address.`, false);
    case 403:
      return trouble('forbidden', `The token does not allow this page to ${doing}`, said, false);
    case 404:
      return trouble('not-found', `The server knows no such session`, said);
    case 409:
      return trouble('busy', error.code === 'already_publishing' || error.code === '' ? `Session “${session}” is already publishing elsewhere` : `The server would not ${doing}`, `${said} Stop the other page or program, or choose another session id above.`);
    case 429:
    case 503:
      if (error.code === 'draining') return trouble('draining', 'The server is shutting down', 'The page keeps trying and goes on by itself when it is back.');
      return trouble('overloaded', 'The server is too busy now', said);
    default:
      return trouble('refused', `The server would not ${doing}`, said);
  }
}

/** No packets got through although the server answered. */
export function connectionTrouble() {
  return trouble('connection', 'The picture does not get through to the server', 'The server answered, but no media path opened. A firewall may block its UDP and TCP media ports; if it runs behind NAT or in a container, start it with --public-ip.');
}

/** Text as one sentence: capital first, full stop last. */
export function sentence(text) {
  const t = String(text ?? '').trim();
  if (!t) return '';
  return t[0].toUpperCase() + t.slice(1) + (/[.!?…]$/.test(t) ? '' : '.');
}

/** The picture arrives and is black; soft, because nothing is broken. */
export function blackTrouble(kind) {
  const screen = kind === 'screen';
  return { code: 'black', soft: true, title: `The ${screen ? 'screen' : 'camera'} is black.`, advice: screen ? 'Is the shared window hidden?' : 'Is it covered or muted? Attached agents are told.' };
}

/** A source's state for people: {word, note, tone}. `frozen`: pictures come, and nothing in them changes. */
export function sourceWords(state, kind = 'camera', frozen = false) {
  const it = kind === 'screen' ? 'screen' : 'camera';
  if (state === 'live' && frozen) return { word: 'frozen', note: 'nothing in the picture changes', tone: 'warn' };
  switch (state) {
    case 'live': return { word: 'live', note: '', tone: 'good' };
    case 'black': return { word: `${it} is black`, note: it === 'camera' ? 'covered or muted?' : 'is the shared window hidden?', tone: 'warn' };
    case 'stalled': return { word: 'stalled', note: 'no picture arrives', tone: 'warn' };
    case 'ended': return { word: 'ended', note: `the ${it} went away`, tone: 'off' };
    case 'connecting': return { word: 'connecting', note: '', tone: 'wait' };
    default: return { word: state || 'unknown', note: '', tone: 'off' };
  }
}

/** A decode policy for people. */
export function policyWords(policy) {
  const p = String(policy ?? '');
  const names = { keyframe: 'key frames on demand', temporal: 'base layer only', full: 'every frame', auto: 'chosen automatically', idle: 'idle, nobody watches', none: 'idle, nobody watches' };
  for (const part of p.split(/[^a-z]+/).reverse()) if (names[part]) return names[part];
  return p || '–';
}

/** Which of a source's layers is used, for people: of simulcast by its name, of one stream's by number. */
export function layerWords(source) {
  const layers = source.layers ?? [];
  const used = layers.find((l) => l.used);
  const words = [];
  if (layers.length > 1 && used) words.push(`${used.rid || 'one'} of ${layers.map((l) => (l.sent ? l.rid : `${l.rid} (not sent)`)).join(', ')}`);
  if (source.spatial_layers > 1) words.push(`${source.spatial_layer + 1} of ${source.spatial_layers} in space`);
  if (source.temporal_layers > 1) words.push(`${source.temporal_layers} in time`);
  return words.join('; ') || 'one stream';
}

/** What the page says of its own call. `sure` is false when socket or poll say that the server is gone: only the past is known then. */
export function callWords(state, kind, session, sure) {
  switch (state) {
    case 'asking': return `The browser asks whether this page may use the ${kind}.`;
    case 'connecting': return 'Connecting to the gateway…';
    case 'live': return sure ? `Live: your ${kind} goes to session “${session}”.` : `Last known: your ${kind} went to session “${session}”. The server does not confirm it now; the ${kind} stays on.`;
    case 'reconnecting': return 'The call broke. It comes back by itself, in the same session.';
    default: return '';
  }
}

/** What stands in the place of the own picture: {text, press, after}, `press` being the button to press or empty. `again` is false before the first call. */
export function stageWords({ state, kind, trouble, again }) {
  const press = { screen: 'Share screen again', microphone: 'Start microphone again' }[kind] ?? 'Start camera again';
  if (state === 'asking') return { text: `Waiting for your permission to use the ${kind}.`, press: '' };
  if (state === 'failed') {
    const lead = { unplugged: `The ${kind} went away.`, 'screen-ended': 'Screen sharing was stopped.' }[trouble?.code] ?? '';
    return { text: `${lead} Nothing is sent now.`.trim(), press: trouble?.retry === false ? '' : press };
  }
  if (kind === 'microphone' && state !== 'idle') return { text: 'Only sound is sent: there is no picture.', press: '' };
  if (again) return { text: 'Stopped: nothing is sent now.', press: '' };
  return { text: 'Nothing is sent yet.', press: 'Start camera', after: ': the browser asks first.' };
}

/** The session in the page's head. `answered` is the server's last answer: {state, seq, at (a time of day as text)}. */
export function sessionWords(answered, sure) {
  if (!answered) return '';
  const { state, seq, at } = answered;
  return sure ? `session ${state} · entry ${seq}` : `last known, ${at}: session ${state}, entry ${seq}`;
}

/** Frames that the gateway threw away; it counts why, this sentence does not guess. */
export function droppedWords(n) {
  return n > 0 ? `The gateway threw ${n} ${n === 1 ? 'frame' : 'frames'} of this call away.` : '';
}

/** The socket's close code for people. */
export function closeWords(code) {
  switch (code) {
    case 1001: return 'the server is restarting';
    case 1008: return 'the token was refused';
    case 1009: return 'a message was too big';
    case 1013: return 'this page could not keep up';
    case 4000: return 'the server did not understand this page';
    case 4004: return 'the session is gone';
    case 4009: return 'another page took this console’s name';
    default: return 'the connection broke';
  }
}

/** The command that attaches the reference agent to this session. */
export function agentCommand(origin, session) {
  const here = /^http:\/\/(localhost|127\.0\.0\.1):8080$/.test(origin) ? '' : ` --url ${origin}`;
  return `sightline-agent${here} --session ${session}`;
}
