// The agent socket's client against a socket made of a script: resume, gaps, doubles, ops sent again, answers, refusals.
import test from 'node:test';
import assert from 'node:assert/strict';
import { webcrypto } from 'node:crypto';
import { ServerError } from '../static/js/words.js';

globalThis.crypto ??= webcrypto;
globalThis.CustomEvent ??= class extends Event { constructor(type, init) { super(type); this.detail = init?.detail; } };
globalThis.window = { location: { href: 'http://test.invalid/' } };

class Socket {
  static OPEN = 1;
  static made = [];
  constructor(url, protocol) {
    Object.assign(this, { url, protocol, readyState: 0, sent: [] });
    Socket.made.push(this);
  }
  open() { this.readyState = 1; this.onopen(); }
  send(text) { this.sent.push(JSON.parse(text)); }
  say(message) { this.onmessage?.({ data: JSON.stringify(message) }); }
  close(code = 1006) { if (this.readyState !== 3) { this.readyState = 3; this.onclose?.({ code }); } }
}
globalThis.WebSocket = Socket;
const { AgentClient } = await import('../static/js/agent.js');

const entry = (seq, id = `m${seq}`) => ({ type: 'context.entry', seq, op: 'append', author: 'x', item: { type: 'message', id, role: 'user', content: [] } });
const ids = (client) => [...client.conversation.items.keys()];

async function next(count) {
  while (Socket.made.length < count) await new Promise((resolve) => setImmediate(resolve));
  return Socket.made[count - 1];
}

function setUp(t, answer = async () => ({})) {
  Socket.made = [];
  const client = new AgentClient({ openSession: () => answer(), socketURL: (id) => `ws://test.invalid/${id}` }, 'console-1', () => 'console-2');
  t.after(() => client.detach());
  client.attach('demo');
  return client;
}

async function attached(t, seq = 0) {
  const client = setUp(t), socket = await next(1);
  socket.open();
  socket.say({ type: 'welcome', log_id: 'log-1', seq, snapshot: { seq, items: [] } });
  return { client, socket };
}

// Breaks the connection and comes back at once, without the back-off's wait.
async function again(client, count, welcome) {
  client.retryNow();
  const socket = await next(count);
  socket.open();
  if (welcome) socket.say({ type: 'welcome', log_id: 'log-1', replayed: true, ...welcome });
  return socket;
}

test('the first hello asks for a snapshot, the next resumes after the last entry, nothing comes twice', async (t) => {
  const { client, socket } = await attached(t, 4);
  assert.deepEqual(['resume_from' in socket.sent[0], 'log_id' in socket.sent[0]], [false, false]);
  assert.equal(socket.protocol, 'sightline.agent.v1');
  socket.say(entry(5));
  socket.close(1001);
  assert.equal(client.state, 'waiting');
  assert.match(client.trouble.advice, /restarting/);
  const second = await again(client, 2, { seq: 6 });
  assert.equal(second.sent[0].resume_from, 5);
  second.say(entry(5));
  second.say(entry(6));
  assert.deepEqual(ids(client), ['m5', 'm6']);
  assert.equal(client.state, 'attached');
});

test('a missing entry makes it resume from what it has', async (t) => {
  const { client, socket } = await attached(t);
  socket.say(entry(1));
  socket.say(entry(3));
  assert.equal(client.state, 'waiting');
  const second = await again(client, 2, { seq: 3 });
  assert.equal(second.sent[0].resume_from, 1);
  second.say(entry(2));
  second.say(entry(3));
  assert.deepEqual(ids(client), ['m1', 'm2', 'm3']);
});

test('another log comes as a snapshot and is taken as it is, and is the one to resume from then', async (t) => {
  const { client, socket } = await attached(t);
  socket.say(entry(1));
  socket.say(entry(2));
  socket.close();
  const second = await again(client, 2);
  assert.deepEqual([second.sent[0].resume_from, second.sent[0].log_id], [2, 'log-1']);
  second.say({ type: 'welcome', log_id: 'log-2', seq: 0, replayed: false, snapshot: { seq: 0, items: [] } });
  second.say(entry(1, 'new'));
  assert.deepEqual(ids(client), ['new']);
  second.close();
  const third = await again(client, 3);
  assert.deepEqual([third.sent[0].resume_from, third.sent[0].log_id], [1, 'log-2']);
});

test('a replay of a log that we do not hold is not believed', async (t) => {
  const { client, socket } = await attached(t);
  socket.say(entry(1));
  socket.close();
  await again(client, 2, { seq: 1, log_id: 'log-2' });
  assert.equal(client.state, 'waiting');
  const third = await again(client, 3);
  assert.deepEqual(['resume_from' in third.sent[0], 'log_id' in third.sent[0]], [false, false]);
});

test('an op that was not acknowledged is sent again under the same op_id and settles once', async (t) => {
  const { client, socket } = await attached(t);
  const done = client.append({ type: 'message', role: 'user', content: 'hi' });
  const op = socket.sent.at(-1);
  socket.close();
  const second = await again(client, 2, { seq: 0 });
  assert.deepEqual(second.sent.at(-1), op);
  second.say({ type: 'ack', op_id: op.op_id, seq: 1, duplicate: true });
  assert.equal((await done).seq, 1);
  second.close();
  const third = await again(client, 3, { seq: 0 });
  assert.equal(third.sent.length, 1, 'only the hello');
});

test('a refused op says the server\'s words', async (t) => {
  const { client, socket } = await attached(t);
  const done = client.append({ type: 'message', role: 'user', content: '' });
  socket.say({ type: 'error', op_id: socket.sent.at(-1).op_id, code: 'invalid_argument', message: 'item.content: must not be empty', detail: { field: 'item.content' } });
  await assert.rejects(done, { message: 'item.content: must not be empty', code: 'invalid_argument' });
});

test('a switch, an interruption and words to say are asked for at once and refused by a break, never sent twice', async (t) => {
  const { client, socket } = await attached(t);
  const asked = [client.switchTo('other', 'now'), client.interrupt(), client.say('hi')];
  const [a, b, c] = socket.sent.slice(-3);
  assert.deepEqual([a.type, a.target, a.at, b.type, c.type, c.text], ['pipeline.switch', 'other', 'now', 'interrupt', 'say', 'hi']);
  socket.say({ type: 'ack', op_id: b.op_id });
  await asked[1];
  socket.say({ type: 'error', op_id: a.op_id, code: 'not_found', message: 'there is no pipeline other' });
  await assert.rejects(asked[0], { code: 'not_found' });
  const kept = client.append({ type: 'message', role: 'user', content: 'stays' });
  kept.catch(() => {});
  socket.close();
  await assert.rejects(asked[2], /connection broke/);
  await assert.rejects(client.interrupt(), /not attached/);
  const second = await again(client, 2, { seq: 0 });
  assert.deepEqual(second.sent.slice(1).map((m) => m.type), ['context.append']);
});

test('what is said and what pipelines do is passed on as it comes', async (t) => {
  const { client, socket } = await attached(t);
  const heard = [];
  for (const name of ['speech', 'pipeline']) client.addEventListener(name, ({ detail }) => heard.push(`${name} ${detail.type}`));
  for (const type of ['speech.started', 'transcript', 'speech.stopped', 'played', 'pipeline.preparing', 'pipeline.committed', 'pipeline.aborted']) socket.say({ type });
  assert.deepEqual(heard, ['speech speech.started', 'speech transcript', 'speech speech.stopped', 'speech played', 'pipeline pipeline.preparing', 'pipeline pipeline.committed', 'pipeline pipeline.aborted']);
});

test('an image answers the request of its id, a break refuses it', async (t) => {
  const { client, socket } = await attached(t);
  const first = client.requestImage({ source: 'camera' });
  const { request_id: id, attach, source } = socket.sent.at(-1);
  assert.deepEqual([attach, source], [false, 'camera']);
  const header = new TextEncoder().encode(JSON.stringify({ type: 'image', source: 'camera', seq: 1, request_id: id }));
  const data = new Uint8Array(4 + header.length + 2);
  new DataView(data.buffer).setUint32(0, header.length);
  data.set(header, 4);
  let shown = 0;
  client.addEventListener('image', () => shown++);
  socket.onmessage({ data: data.buffer });
  assert.equal((await first).payload.length, 2);
  assert.equal(shown, 1);
  const second = client.requestImage({});
  socket.close();
  await assert.rejects(second, /connection broke/);
  await assert.rejects(client.requestImage({}), /not attached/);
});

test('a duplicated tab takes another name in place of fighting', async (t) => {
  const { client, socket } = await attached(t);
  socket.close(4009);
  const second = await again(client, 2);
  assert.equal(second.sent[0].agent_id, 'console-2');
});

test('a deleted session is not opened again unasked', async (t) => {
  const { client, socket } = await attached(t);
  let told = 0;
  client.addEventListener('deleted', () => told++);
  socket.say({ type: 'bye', reason: 'deleted' });
  assert.deepEqual([client.state, client.trouble.code, told, socket.readyState], ['refused', 'deleted', 1, 3]);
  assert.equal(Socket.made.length, 1);
});

test('a refusal for good is not repeated, a silent server is', async (t) => {
  const settled = (client) => new Promise((resolve) => client.addEventListener('change', () => client.state !== 'attaching' && resolve(), { once: false }));
  const refused = setUp(t, async () => { throw new ServerError(401, { detail: 'no token' }); });
  await settled(refused);
  assert.equal(refused.state, 'refused');
  const silent = setUp(t, async () => { throw new TypeError('Failed to fetch'); });
  await settled(silent);
  assert.deepEqual([silent.state, silent.trouble.code], ['waiting', 'server-gone']);
  assert.ok(silent.retryAt > performance.now());
});

test('JSON that is none and headers that are none are left out, the socket stays', async (t) => {
  const { client, socket } = await attached(t);
  t.mock.method(console, 'warn', () => {});
  socket.onmessage({ data: '{"type":' });
  socket.onmessage({ data: new ArrayBuffer(2) });
  socket.say({ type: 'of.a.later.version' });
  assert.equal(client.state, 'attached');
});
