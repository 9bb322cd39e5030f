// Requests to the gateway: the token goes along, a refusal becomes a ServerError with the problem's detail.
import { ServerError } from './words.js';

/** The token is taken from the address's fragment (#token=…), which is never sent to a server or written to its log. */
export function tokenOf(location) {
  return new URLSearchParams(location.hash.replace(/^#/, '')).get('token') ?? '';
}

/** Makes requests with one token. */
export class Api {
  constructor(token) {
    this.token = token;
  }

  /** fetch with the token and a time limit; a status outside `ok` throws ServerError, no answer throws what fetch throws. */
  async request(path, { timeoutMs = 10_000, headers = {}, ...options } = {}) {
    const auth = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    const signal = options.keepalive ? undefined : AbortSignal.timeout(timeoutMs);
    const response = await fetch(path, { cache: 'no-store', signal, ...options, headers: { ...auth, ...headers } });
    if (!response.ok) throw await refusal(response);
    return response;
  }

  async json(path, options) {
    return (await this.request(path, options)).json();
  }

  /** Opens the session so that a console and agents can attach before anybody publishes; it may exist already. */
  openSession(id) {
    return this.json('/v1/sessions', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ id }) });
  }

  session(id) {
    return this.json(`/v1/sessions/${encodeURIComponent(id)}`, { timeoutMs: 5000 });
  }

  /** What the leg of an epoch was told before it began. */
  seed(id, epoch) {
    return this.json(`/v1/sessions/${encodeURIComponent(id)}/pipeline/seed?epoch=${epoch}`);
  }

  /** The agent socket's address; a browser can give a socket's token only in the query. */
  socketURL(id, location) {
    const url = new URL(`/v1/agent?session=${encodeURIComponent(id)}`, location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    if (this.token) url.searchParams.set('access_token', this.token);
    return url.href;
  }
}

async function refusal(response) {
  let problem = null;
  try {
    problem = JSON.parse(await response.text());
  } catch { /* no problem JSON: the status alone must do */ }
  const wait = Number(response.headers.get('Retry-After'));
  return new ServerError(response.status, problem, Number.isFinite(wait) ? wait * 1000 : 0);
}
