// The console as an agent on the native socket (PROTOCOL.md §5): attaches, resumes after a break, sends each op once.
import { Backoff } from './backoff.js';
import { Conversation } from './conversation.js';
import { IMAGE_OPTIONS, SUBPROTOCOL, decodeBinary, hello, randomId, wantOf } from './wire.js';
import { ServerError, closeWords, serverTrouble } from './words.js';

const ANSWER_MS = 12_000; // an image request without an answer fails after this
const WELCOME_MS = 10_000;

/**
 * States: idle, attaching, attached, waiting (next try at `retryAt`), refused (a person must do something). Events: `change`,
 * `reset` (conversation replaced), `entry` {entry, set, removed}, `image` {header, payload, receivedAt}, `source`, `speech` (speech.…, transcript,
 * played), `pipeline` (pipeline.…), `deleted`, `welcome`.
 */
export class AgentClient extends EventTarget {
  #api; #socket = null; #run = 0; #timer = 0; #slow = 0; #backoff = new Backoff(); #ops = new Map(); #requests = new Map(); #synced = false; #logId = '';

  constructor(api, agentId, freshId) {
    super();
    this.#api = api;
    this.agentId = agentId;
    this.freshId = freshId;
    this.session = '';
    this.state = 'idle';
    this.trouble = null;
    this.why = '';
    this.retryAt = 0;
    this.fps = 1;
    this.limits = null;
    this.conversation = new Conversation();
  }

  /** Attaches to a session, leaving the one before. */
  attach(session) {
    this.detach();
    this.session = session;
    this.conversation.reset();
    this.#synced = false;
    this.#backoff.reset();
    this.#emit('reset');
    this.#open();
  }

  detach() {
    this.#run++;
    clearTimeout(this.#timer);
    this.#send({ type: 'bye' });
    this.#drop();
    this.#failAll(new Error('the console left the session'));
    this.#set('idle');
  }

  /** Tries again now in place of waiting. */
  retryNow() {
    if (this.state !== 'waiting' && this.state !== 'refused') return;
    clearTimeout(this.#timer);
    this.#open();
  }

  /** How many images per second this console wants from now on. */
  setFps(fps) {
    this.fps = fps;
    if (this.state === 'attached') this.#send({ type: 'want', want: wantOf(fps) });
  }

  /** Appends an item. Over a broken connection it waits, and is sent again under the same op_id, so that it is recorded once. */
  append(item) {
    return this.#ask({ type: 'context.append', item }, true);
  }

  /** Asks for another pipeline; resolves when the switch is under way, its outcome comes as a `pipeline` event with that op_id. */
  switchTo(target, at) {
    return this.#now({ type: 'pipeline.switch', target, at });
  }

  /** Stops what the agent is saying and forgets what is queued. */
  interrupt() {
    return this.#now({ type: 'interrupt' });
  }

  /** Puts words into the agent's mouth; resolves when they are queued. */
  say(text) {
    return this.#now({ type: 'say', text });
  }

  // What makes sense at once or not at all: a break of the connection refuses it.
  #now(message) {
    if (this.state !== 'attached') return Promise.reject(new Error('not attached to the session'));
    return this.#ask(message, false);
  }

  #ask(message, again) {
    const op = { ...message, op_id: `console-${randomId()}` };
    return new Promise((resolve, reject) => {
      this.#ops.set(op.op_id, { op, again, resolve, reject });
      if (this.state === 'attached') this.#send(op);
    });
  }

  /** Asks for an image of now; with `attach` it also enters the conversation. Resolves with the image, rejects with a reason. */
  requestImage({ source, attach = false }) {
    if (this.state !== 'attached') return Promise.reject(new Error('not attached to the session'));
    const requestId = `r-${randomId(8)}`;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => { this.#requests.delete(requestId); reject(new Error('no image came in time')); }, ANSWER_MS);
      this.#requests.set(requestId, { resolve, reject, timer });
      this.#send({ type: 'image.request', request_id: requestId, ...(source ? { source } : {}), max_age_ms: 1000, ...IMAGE_OPTIONS, attach });
    });
  }

  async #open() {
    const run = ++this.#run;
    this.#set('attaching', this.trouble);
    try {
      await this.#api.openSession(this.session);
    } catch (error) {
      if (run !== this.#run) return;
      const known = error instanceof ServerError && [404, 405].includes(error.status); // opened by publishing only: the socket decides
      if (!known) return this.#refused(error);
    }
    if (run !== this.#run) return;
    const socket = this.#socket = new WebSocket(this.#api.socketURL(this.session, window.location), SUBPROTOCOL);
    socket.binaryType = 'arraybuffer';
    let welcomed = false;
    this.#slow = setTimeout(() => socket.close(), WELCOME_MS);
    socket.onopen = () => this.#send(hello(this.agentId, wantOf(this.fps), this.#synced ? this.conversation.seq : undefined, this.#logId));
    socket.onmessage = (e) => {
      if (run !== this.#run) return;
      if (typeof e.data !== 'string') return this.#binary(e.data);
      const message = parse(e.data);
      if (message?.type === 'welcome') { welcomed = true; clearTimeout(this.#slow); }
      if (message) this.#text(message);
    };
    socket.onclose = (e) => { if (run === this.#run) this.#closed(e.code, welcomed); };
  }

  #text(m) {
    switch (m.type) {
      case 'welcome': return this.#welcome(m);
      case 'context.entry': return this.#entry(m);
      case 'ack': return this.#answered(m);
      case 'error': return this.#failed(m);
      case 'source': return this.#emit('source', m);
      case 'speech.started': case 'speech.stopped': case 'transcript': case 'played': return this.#emit('speech', m);
      case 'pipeline.preparing': case 'pipeline.committed': case 'pipeline.aborted': return this.#emit('pipeline', m);
      case 'bye':
        this.why = m.reason ? `the server said: ${m.reason}` : '';
        if (m.reason === 'deleted') this.#deleted();
        return undefined;
      default: return undefined; // fields and messages of later versions
    }
  }

  #welcome(m) {
    this.limits = m.limits ?? null;
    if (m.snapshot) {
      this.conversation.reset(m.snapshot);
      this.#emit('reset');
    } else if (!this.#synced || m.log_id !== this.#logId) { // no replay of what we have: begin again from a snapshot
      this.#synced = false;
      return this.#socket.close();
    }
    this.#synced = true;
    this.#logId = m.log_id ?? '';
    this.#backoff.reset();
    this.#set('attached');
    this.#emit('welcome', m);
    for (const { op } of this.#ops.values()) this.#send(op);
  }

  #entry(entry) {
    const result = this.conversation.apply(entry);
    if (result.status === 'gap') return this.#socket.close(); // resume from what we have
    if (result.status === 'applied') this.#emit('entry', { entry, ...result });
  }

  #binary(data) {
    const receivedAt = performance.now();
    let message;
    try {
      message = decodeBinary(data);
    } catch (error) {
      return console.warn('binary message left out:', error.message);
    }
    if (message.header.type !== 'image') return;
    const image = { ...message, receivedAt };
    this.#emit('image', image);
    this.#settle(message.header.request_id, (r) => r.resolve(image));
  }

  #answered(m) {
    const waiting = this.#ops.get(m.op_id);
    if (waiting) { this.#ops.delete(m.op_id); waiting.resolve(m); }
  }

  #failed(m) {
    const error = Object.assign(new Error(m.message || m.code || 'the server refused it'), { code: m.code });
    const waiting = this.#ops.get(m.op_id);
    if (waiting) { this.#ops.delete(m.op_id); return waiting.reject(error); }
    if (m.request_id) return this.#settle(m.request_id, (r) => r.reject(error));
    if (this.state === 'attaching') { this.#synced = false; this.why = error.message; } // our hello: start from a snapshot
  }

  #closed(code, welcomed) {
    this.#drop();
    for (const [id, { again, reject }] of this.#ops) {
      if (again) continue;
      this.#ops.delete(id);
      reject(new Error('the connection broke'));
    }
    for (const id of [...this.#requests.keys()]) this.#settle(id, (r) => r.reject(new Error('the connection broke')));
    if (code === 4009) this.agentId = this.freshId(); // a duplicated tab carries our name: take another, do not fight
    if (code === 1008) return this.#set('refused', { code: 'auth', title: 'The server refused this console', advice: 'Open the page with a valid #token=….', retry: true });
    const why = this.why || closeWords(code);
    this.why = '';
    this.#wait(0, { code: 'socket', title: 'The conversation is disconnected', advice: `${why[0].toUpperCase()}${why.slice(1)}. Nothing is lost: it goes on where it stopped.`, retry: true });
    if (!welcomed && code === 4000) this.#synced = false;
  }

  // The session was ended by somebody with the right to: it is not opened again without being asked.
  #deleted() {
    this.#run++;
    this.#drop();
    this.#failAll(new Error('the session was ended'));
    this.#synced = false;
    this.#emit('deleted');
    this.#set('refused', { code: 'deleted', title: `Session “${this.session}” was ended`, advice: 'Somebody ended it on the server. Try now opens it anew, or choose another session id above.', retry: true });
  }

  #refused(error) {
    const trouble = serverTrouble(error, 'attach to the session', this.session);
    if (error instanceof ServerError && [400, 401, 403].includes(error.status)) return this.#set('refused', trouble);
    this.#wait(error.retryAfterMs, trouble);
  }

  #wait(atLeast, trouble) {
    const run = this.#run, wait = this.#backoff.next(atLeast);
    this.retryAt = performance.now() + wait;
    this.#timer = setTimeout(() => { if (run === this.#run) this.#open(); }, wait);
    this.#set('waiting', trouble);
  }

  #settle(id, act) {
    const waiting = id && this.#requests.get(id);
    if (!waiting) return;
    clearTimeout(waiting.timer);
    this.#requests.delete(id);
    act(waiting);
  }

  #failAll(error) {
    for (const { reject } of this.#ops.values()) reject(error);
    this.#ops.clear();
    for (const id of [...this.#requests.keys()]) this.#settle(id, (r) => r.reject(error));
  }

  #drop() {
    clearTimeout(this.#slow);
    const socket = this.#socket;
    this.#socket = null;
    if (socket) { socket.onclose = socket.onmessage = null; socket.close(); }
  }

  #send(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #set(state, trouble = null) {
    this.state = state;
    this.trouble = state === 'attached' || state === 'idle' ? null : trouble;
    this.#emit('change');
  }

  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    console.warn('message left out: no JSON');
    return null;
  }
}
