// The client of the npm package openai over a WebSocket.
import { readFileSync } from 'node:fs';
import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { pieces, print, within } from './print.mjs';

const [baseURL, pcm] = process.argv.slice(2);
const client = new OpenAI({ apiKey: 'none', baseURL });
const rt = new OpenAIRealtimeWS({ model: 'local' }, client);
const seen = [];
const waiting = [];
rt.on('event', (event) => {
  seen.push(event);
  for (const w of [...waiting]) if (w.right(event)) { waiting.splice(waiting.indexOf(w), 1); w.resolve(event); }
});
rt.on('error', () => {}); // errors are events here too
rt.socket.on('error', (err) => { console.error(err); process.exit(1); });

const next = (type, right = () => true) =>
  within(type, new Promise((resolve) => waiting.push({ right: (e) => e.type === type && right(e), resolve })));
const textOf = (response) => response.output.flatMap((item) => item.content ?? []).map((part) => part.transcript ?? part.text ?? '').join('');
const audioOf = (id) => seen.filter((e) => e.type === 'response.output_audio.delta' && e.item_id === id)
  .reduce((ms, e) => ms + Buffer.from(e.delta, 'base64').length / 48, 0);

async function ask() {
  const done = next('response.done');
  rt.send({ type: 'response.create', response: { metadata: { asked_by: 'conformance' } } });
  return (await done).response;
}

async function say(id, text) {
  const done = next('conversation.item.done', (e) => e.item.id === id);
  rt.send({ type: 'conversation.item.create', item: { id, type: 'message', role: 'user', content: [{ type: 'input_text', text }] } });
  await done;
}

const created = await next('session.created');
print('created', { model: created.session.model, id: created.session.id });

const updated = next('session.updated');
rt.send({
  type: 'session.update',
  session: {
    type: 'realtime', instructions: 'Be brief.', tool_choice: 'auto',
    tools: [{ type: 'function', name: 'lookup_order', description: 'Looks an order up.', parameters: { type: 'object', properties: { order_number: { type: 'string' } }, required: ['order_number'] } }],
  },
});
print('updated', { instructions: (await updated).session.instructions });

await say('msg_1', 'My order number is 4711.');
let response = await ask();
print('typed', { status: response.status, text: textOf(response), audio_ms: audioOf(response.output[0].id), metadata: response.metadata });

const heard = next('conversation.item.input_audio_transcription.completed');
const answered = next('response.done');
for (const piece of pieces(readFileSync(pcm))) rt.send({ type: 'input_audio_buffer.append', audio: piece.toString('base64') });
const transcript = (await heard).transcript;
response = (await answered).response;
print('spoken', { transcript, status: response.status, text: textOf(response), audio_ms: audioOf(response.output[0].id) });
const spoken = response.output[0];

const cut = next('conversation.item.truncated');
rt.send({ type: 'conversation.item.truncate', item_id: spoken.id, content_index: 0, audio_end_ms: 600 });
await cut;
const retrieved = next('conversation.item.retrieved');
rt.send({ type: 'conversation.item.retrieve', item_id: spoken.id });
const item = (await retrieved).item;
print('truncated', { before: textOf({ output: [spoken] }), after: textOf({ output: [item] }), status: item.status });

await say('msg_2', 'Please look up order 4711.');
response = await ask();
const call = response.output.find((o) => o.type === 'function_call');
print('called', { name: call.name, arguments: call.arguments, status: call.status });
const took = next('conversation.item.done', (e) => e.item.type === 'function_call_output');
rt.send({ type: 'conversation.item.create', item: { type: 'function_call_output', call_id: call.call_id, output: '{"status":"shipped","eta":"Friday"}' } });
await took;
response = await ask();
print('tool', { status: response.status, text: textOf(response) });

const deleted = next('conversation.item.deleted');
rt.send({ type: 'conversation.item.delete', item_id: 'msg_2' });
print('deleted', { id: (await deleted).item_id });

const refused = next('error');
rt.socket.send('{"type":"no.such.event","event_id":"mine"}');
print('refused', { code: (await refused).error.code, event_id: (await refused).error.event_id });

const closed = within('close', new Promise((resolve) => rt.socket.once('close', resolve)));
rt.close();
await closed;
print('done');
