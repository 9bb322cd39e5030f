import test from 'node:test';
import assert from 'node:assert/strict';
import { Conversation } from '../static/js/conversation.js';
import { callState, epochsOf, floorWords, legWords, reasonWords, seedLine, seedWords, switchWords } from '../static/js/pipelines.js';

const msg = (id, role, text) => ({ type: 'message', id, role, content: [{ type: 'text', text }] });
const sw = (epoch, state, from, to, reason = 'switch') => ({ type: 'pipeline_switch', id: `switch-${epoch}-${state}`, state, from, to, epoch, reason });
const items = [
  msg('m0', 'user', 'before'), sw(1, 'started', '', 'a', 'first'), sw(1, 'committed', '', 'a', 'first'),
  msg('m1', 'user', 'one'), msg('m2', 'assistant', 'two'), { type: 'function_call', id: 'f', call_id: 'c', name: 'lookup' },
  sw(2, 'started', 'a', 'b'), sw(2, 'aborted', 'a', 'b', 'prepare_timeout'), { type: 'function_call_output', id: 'o', call_id: 'c', output: 'x' },
  sw(3, 'started', 'a', 'b'), sw(3, 'committed', 'a', 'b'), msg('m3', 'user', 'three'), msg('s', 'system', 'not said'), msg('e', 'assistant', ''),
];
// Entries as the gateway writes them: those after a commit have its epoch.
const entries = items.reduce((list, item, i) => {
  const epoch = item.state === 'committed' ? item.epoch : list.at(-1)?.epoch ?? 0;
  return [...list, { type: 'context.entry', seq: i + 1, op: 'append', epoch, at: `2026-01-01T00:00:0${i % 10}.000Z`, item }];
}, []);
const short = (list) => list.map((e) => [e.epoch, e.leg, e.said, e.lines.map((l) => l.text), e.tools.map((t) => `${t.name} ${t.state}`), e.aborted.map((a) => a.to)]);
const expected = [[0, '', 1, ['before'], [], []], [1, 'a', 2, ['one', 'two'], ['lookup done'], ['b']], [3, 'b', 1, ['three'], [], []]];

test('the epochs are the same from the entries and from a snapshot; only entries have times', () => {
  const live = new Conversation(), later = new Conversation();
  for (const e of entries) live.apply(e);
  later.reset({ seq: entries.length, items });
  assert.deepEqual(short(epochsOf(live)), expected);
  assert.deepEqual(short(epochsOf(later)), expected);
  assert.deepEqual(epochsOf(live).map((e) => e.at), [undefined, entries[2].at, entries[10].at]);
  assert.deepEqual(epochsOf(later).map((e) => [e.at, e.known]), [[undefined, true], [undefined, true], [undefined, true]]);
  assert.deepEqual(epochsOf(live)[2].from, 'a');
});

test('an item stands in its own epoch, wherever it stands in the list; an epoch may have lost its beginning', () => {
  const c = new Conversation();
  for (const e of entries) c.apply(e);
  c.apply({ seq: entries.length + 1, op: 'append', epoch: 1, item: msg('late', 'user', 'late transcript'), after_item_id: 'm3' });
  c.apply({ seq: entries.length + 2, op: 'append', epoch: 7, item: msg('m7', 'user', 'seven') });
  const list = epochsOf(c);
  assert.equal(list.find((e) => e.epoch === 1).said, 3);
  assert.deepEqual([list.at(-1).epoch, list.at(-1).known, list.at(-1).leg], [7, false, '']);
  c.apply({ seq: entries.length + 3, op: 'truncate', removed: ['m1', 'm2', 'late'] });
  assert.equal(epochsOf(c).find((e) => e.epoch === 1).said, 0);
});

test('the first lines of an epoch are shown, all are counted; nothing is an epoch of an empty conversation', () => {
  const c = new Conversation();
  assert.deepEqual(epochsOf(c), []);
  c.reset({ seq: 9, items: Array.from({ length: 9 }, (_, i) => msg(`m${i}`, 'user', `t${i}`)) });
  const [e] = epochsOf(c);
  assert.deepEqual([e.said, e.lines.map((l) => l.text)], [9, ['t0', 't1', 't2']]);
});

test('a call is running until it has an output', () => {
  assert.deepEqual([callState(undefined), callState({ output: 'x', is_error: false }), callState({ is_error: true })], ['running', 'done', 'error']);
});

test('a switch in words: under way, done with its figures, in vain with its reason', () => {
  const preparing = switchWords({ type: 'pipeline.preparing', from: 'a', to: 'b', reason: 'switch', epoch: 2 });
  assert.deepEqual([preparing.busy, preparing.text], [true, '“b” is getting ready; “a” goes on meanwhile (on request).']);
  const done = switchWords({ type: 'pipeline.committed', from: 'a', to: 'b', reason: 'switch', epoch: 2, seeded_items: 14, dropped_items: 1, switch_ms: 212, noop: false });
  assert.deepEqual([done.busy, done.text], [false, '“b” has the floor since epoch 2 (on request), after 212 ms; it was told 14 items, 1 left out.']);
  assert.match(switchWords({ type: 'pipeline.committed', to: 'b', noop: true }).text, /already; nothing was done/);
  const aborted = switchWords({ type: 'pipeline.aborted', from: 'a', to: 'b', code: 'prepare_timeout', message: 'b was not ready within 10000 ms' });
  assert.deepEqual([aborted.busy, aborted.tone], [false, 'bad']);
  assert.match(aborted.text, /not ready within 10000 ms \(prepare_timeout\)\. “a” keeps the floor/);
  assert.match(switchWords({ type: 'pipeline.aborted', from: '', to: 'b', code: 'leg_failed' }).text, /Nobody has the floor/);
  assert.equal(switchWords({ type: 'pipeline.later' }).text, '');
});

test('legs, the floor and reasons in words', () => {
  const states = ['registered', 'preparing', 'ready', 'active', 'failed'];
  assert.equal(new Set(states.map((s) => legWords(s).word)).size, states.length);
  assert.equal(legWords('new-state').word, 'new-state');
  assert.deepEqual([floorWords([], null), floorWords([{}], null), floorWords([{}], 'a')], ['none in this session', 'nobody has the floor', '“a” has the floor']);
  assert.deepEqual([reasonWords('failover'), reasonWords('odd'), reasonWords(undefined)], ['the leg before died', 'odd', '']);
});

test('a seed in lines', () => {
  assert.deepEqual(seedLine(msg('m', 'user', 'hello')), { role: 'user', text: 'hello' });
  assert.deepEqual(seedLine({ type: 'message', role: 'user', content: [{ type: 'image' }, { type: 'image' }] }), { role: 'user', text: '[2 images]' });
  assert.deepEqual(seedLine({ type: 'function_call', name: 'look', arguments: '{}' }), { role: 'call', text: 'look({})' });
  assert.deepEqual(seedLine({ type: 'function_call_output', output: 'no', is_error: true }), { role: 'error', text: 'no' });
  assert.deepEqual(seedLine({ type: 'summary', text: 'short' }), { role: 'summary', text: 'short' });
  for (const mode of ['instructions', 'items', 'hybrid', 'later']) assert.ok(seedWords(mode, 2).length > 5);
  assert.match(seedWords('items', 1), /1 item\./);
});
