// @openai/agents-realtime: an agent with a tool in a session over a WebSocket.
import { readFileSync } from 'node:fs';
import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from '@openai/agents-realtime';
import { z } from 'zod';
import { pieces, print, within } from './print.mjs';

const [url, pcm] = process.argv.slice(2);
let looked = [];
const agent = new RealtimeAgent({
  name: 'clerk', instructions: 'Be brief.',
  tools: [tool({
    name: 'lookup_order', description: 'Looks an order up.', parameters: z.object({ order_number: z.string() }),
    execute: async (args) => { looked.push(args); return JSON.stringify({ status: 'shipped', eta: 'Friday' }); },
  })],
});
const session = new RealtimeSession(agent, { transport: new OpenAIRealtimeWebSocket({ url }), tracingDisabled: true });
const errors = [];
session.on('error', (e) => errors.push(e));
let bytes = 0;
session.on('audio', (e) => { bytes += e.data.byteLength; });
const types = new Set();
session.transport.on('*', (e) => types.add(e.type));

/** Waits for a condition on the history. */
function history(what, right) {
  return within(what, new Promise((resolve) => {
    const look = () => { const found = right(session.history); if (found) { session.off('history_updated', look); resolve(found); } };
    session.on('history_updated', look);
    look();
  }));
}
const textOf = (item) => (item.content ?? []).map((part) => part.transcript ?? part.text ?? '').join('');
const usersOf = (items) => items.filter((i) => i.type === 'message' && i.role === 'user' && textOf(i));
const had = new Set();
/** The next answer that is complete. */
async function answer(what) {
  const item = await history(what, (items) => items.find((i) =>
    i.type === 'message' && i.role === 'assistant' && i.status === 'completed' && textOf(i) && !had.has(i.itemId)));
  had.add(item.itemId);
  return item;
}

await within('connect', session.connect({ apiKey: 'none' }));
session.sendMessage('My order number is 4711.');
print('typed', { text: textOf(await answer('the first answer')), audio_ms: bytes / 48 });

// The client takes what it was sent for being played: this speech interrupts it.
for (const piece of pieces(readFileSync(pcm))) session.sendAudio(piece.buffer.slice(piece.byteOffset, piece.byteOffset + piece.byteLength));
const spoken = textOf(await answer('the spoken answer'));
print('spoken', { transcript: textOf(usersOf(session.history)[1]), text: spoken, audio_ms: bytes / 48 });

session.sendMessage('Please look up order 4711.');
const told = textOf(await answer('the answer with the tool'));
const call = session.history.find((i) => i.type === 'function_call');
print('tool', { runs: looked.length, arguments: JSON.stringify(looked[0]), status: call?.status, output: call?.output, text: told });

const first = usersOf(session.history)[0].itemId;
session.updateHistory((items) => items.filter((i) => i.itemId !== first));
await history('the deletion', (items) => !items.some((i) => i.itemId === first));
print('deleted', { left: session.history.length });

session.sendMessage({ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'What was my order number?' }] });
const last = await answer('the last answer');
session.interrupt(); // of what is being played: the rest counts as not heard
const cut = await history('the truncation', (items) => { const i = items.find((x) => x.itemId === last.itemId); return i && (i.status === 'incomplete' || textOf(i) !== textOf(last)) && i; });
print('interrupted', { before: textOf(last), after: textOf(cut), status: cut.status });
print('seen', { types: [...types], errors: errors.map((e) => JSON.stringify(e)) });
session.close();
print('done');
