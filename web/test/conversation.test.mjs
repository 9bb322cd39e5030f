import test from 'node:test';
import assert from 'node:assert/strict';
import { Conversation, compactLine, imagesOf, isLast, itemAfter, itemsAfter, textOf } from '../static/js/conversation.js';

const msg = (id, text, more = {}) => ({ type: 'message', id, role: 'user', content: [{ type: 'text', text }], ...more });
const append = (seq, item) => ({ type: 'context.entry', seq, op: 'append', item, author: 'a', at: '2026-01-01T00:00:00.000Z' });
const ids = (c) => [...c.items.keys()];

test('a snapshot and the entries after it give one list in order', () => {
  const c = new Conversation();
  c.reset({ seq: 5, items: [msg('a', 'one'), msg('b', 'two')] });
  assert.deepEqual(c.apply(append(6, msg('c', 'three'))), { status: 'applied', set: ['c'], removed: [] });
  assert.deepEqual(ids(c), ['a', 'b', 'c']);
  assert.equal(c.seq, 6);
  assert.equal(c.about.get('c').author, 'a');
});

test('an entry applied before changes nothing, also with other content', () => {
  const c = new Conversation();
  c.apply(append(1, msg('a', 'one')));
  assert.equal(c.apply(append(1, msg('a', 'changed'))).status, 'duplicate');
  assert.equal(textOf(c.items.get('a')), 'one');
  assert.equal(c.apply({ type: 'context.entry', op: 'append' }).status, 'duplicate');
});

test('a gap changes nothing and leaves seq for the resume', () => {
  const c = new Conversation();
  c.apply(append(1, msg('a', 'one')));
  assert.deepEqual(c.apply(append(3, msg('c', 'three'))), { status: 'gap', set: [], removed: [] });
  assert.equal(c.seq, 1);
  c.apply(append(2, msg('b', 'two')));
  c.apply(append(3, msg('c', 'three')));
  assert.deepEqual(ids(c), ['a', 'b', 'c']);
});

test('update keeps the place, remove and truncate drop', () => {
  const c = new Conversation();
  for (const [n, id] of [[1, 'a'], [2, 'b'], [3, 'c'], [4, 'd']]) c.apply(append(n, msg(id, id)));
  c.apply({ seq: 5, op: 'update', item_id: 'b', item: msg('b', 'heard', { interrupted: true }) });
  assert.deepEqual(ids(c), ['a', 'b', 'c', 'd']);
  assert.equal(textOf(c.items.get('b')), 'heard');
  assert.equal(c.about.get('b').seq, 2);
  assert.deepEqual(c.apply({ seq: 6, op: 'remove', item_id: 'a' }).removed, ['a']);
  assert.deepEqual(c.apply({ seq: 7, op: 'remove', item_id: 'nobody' }), { status: 'applied', set: [], removed: [] });
  assert.deepEqual(c.apply({ seq: 8, op: 'truncate', removed: ['b', 'c', 'gone'] }).removed, ['b', 'c']);
  assert.deepEqual(ids(c), ['d']);
});

test('an append after an item stands right behind it', () => {
  const c = new Conversation();
  for (const [n, id] of [[1, 'a'], [2, 'b'], [3, 'c']]) c.apply(append(n, msg(id, id)));
  c.apply({ ...append(4, msg('x', 'x')), after_item_id: 'a' });
  c.apply({ ...append(5, msg('y', 'y')), after_item_id: 'a' });
  c.apply({ ...append(6, msg('z', 'z')), after_item_id: 'c' });
  assert.deepEqual(ids(c), ['a', 'y', 'x', 'b', 'c', 'z']);
  assert.deepEqual([isLast(c, 'z'), isLast(c, 'x'), itemAfter(c, 'x'), itemAfter(c, 'z')], [true, false, 'b', undefined]);
});

test('a summary takes the place of what it stands for in one entry, after an item that goes with it', () => {
  const c = new Conversation();
  for (const [n, id] of [[1, 'a'], [2, 'b'], [3, 'c'], [4, 'd']]) c.apply(append(n, msg(id, id)));
  const result = c.apply({ ...append(5, { type: 'summary', id: 's', text: 'a to c', covers: [1, 3] }), after_item_id: 'c', removed: ['a', 'b', 'c', 'gone'] });
  assert.deepEqual(result, { status: 'applied', set: ['s'], removed: ['a', 'b', 'c'] });
  assert.deepEqual(ids(c), ['s', 'd']);
  assert.equal(c.about.has('a'), false);
  assert.deepEqual(itemsAfter(c, 's'), ['d']);
});

test('a call finds its output and an output its call, as long as both are there', () => {
  const call = { type: 'function_call', id: 'f', call_id: 'c1', name: 'look' }, output = { type: 'function_call_output', id: 'o', call_id: 'c1', output: 'x' };
  const c = new Conversation();
  c.reset({ seq: 1, items: [call] });
  assert.deepEqual([c.callOf('c1').id, c.outputOf('c1')], ['f', undefined]);
  c.apply(append(2, output));
  assert.equal(c.outputOf('c1').id, 'o');
  c.apply({ seq: 3, op: 'update', item_id: 'o', item: { ...output, output: 'y' } });
  assert.equal(c.outputOf('c1').output, 'y');
  c.apply({ seq: 4, op: 'remove', item_id: 'f' });
  assert.deepEqual([c.callOf('c1'), c.outputOf('c1').id], [undefined, 'o']);
  c.apply({ seq: 5, op: 'remove', item_id: 'o' });
  assert.equal(c.outputOf('c1'), undefined);
  assert.equal(c.outputOf(undefined), undefined);
});

test('an unknown op of a later version counts in seq', () => {
  const c = new Conversation();
  assert.equal(c.apply({ seq: 1, op: 'pin', item_id: 'a' }).status, 'applied');
  assert.equal(c.seq, 1);
});

test('replaying any part of the log any number of times gives the same conversation', () => {
  const log = [append(1, msg('a', '1')), append(2, msg('b', '2')), { seq: 3, op: 'remove', item_id: 'a' }, append(4, msg('c', '4')), { seq: 5, op: 'update', item: msg('c', '5') }];
  const straight = new Conversation();
  for (const e of log) straight.apply(e);
  for (let from = 0; from < log.length; from++) {
    const c = new Conversation();
    for (const e of log.slice(0, from + 1)) c.apply(e);
    for (const e of [...log.slice(from), ...log]) c.apply(e);
    assert.deepEqual([...c.items], [...straight.items]);
    assert.equal(c.seq, 5);
  }
});

test('texts and images of a message', () => {
  const image = { type: 'image', url: 'data:image/png;base64,AA' };
  assert.equal(textOf({ content: 'plain' }), 'plain');
  assert.equal(textOf({ content: [{ type: 'text', text: 'a' }, image, { type: 'text', text: 'b' }] }), 'a\nb');
  assert.deepEqual(imagesOf({ content: [{ type: 'text', text: 'a' }, image] }), [image]);
  assert.deepEqual(imagesOf({ content: 'plain' }), []);
  assert.equal(textOf({}), '');
});

test('every other item has its line', () => {
  assert.equal(compactLine({ type: 'function_call', name: 'look', arguments: '{}', agent_id: 'r' }).line, 'r calls look({})');
  assert.deepEqual(compactLine({ type: 'function_call_output', name: 'look', output: 'no camera', is_error: true }), { kind: 'tool-error', line: 'look failed: no camera' });
  assert.equal(compactLine({ type: 'function_call_output', name: 'look', output: { a: 1 } }).line, 'look answered: {"a":1}');
  assert.match(compactLine({ type: 'handoff', from_agent: 'a', to_agent: 'b', reason: 'asked' }).line, /from a to b: asked/);
  assert.match(compactLine({ type: 'config_update', tools: [1, 2], instructions: '' }).line, /instructions, 2 tools/);
  assert.match(compactLine({ type: 'summary', covers: [1, 9], text: 't' }).line, /entries 1–9: t/);
  assert.match(compactLine({ type: 'pipeline_switch', from: 'cascade', to: 'realtime', state: 'aborted', reason: 'leg_failed' }).line, /cascade → realtime aborted: leg_failed/);
  assert.deepEqual(compactLine({ type: 'hologram' }), { kind: 'other', line: 'hologram' });
  assert.ok(compactLine({ type: 'function_call', name: 'x', arguments: 'y'.repeat(5000) }).line.length < 200);
});
