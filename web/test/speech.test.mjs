import test from 'node:test';
import assert from 'node:assert/strict';
import { Speech, heardWords, sideWords } from '../static/js/speech.js';
import { loudness, loudnessWords, meterShare } from '../static/js/sound.js';

const said = (who, text, final = false, item_id = 'u1') => ({ type: 'transcript', who, text, final, item_id });

test('the lamps follow who speaks, the lines what is understood so far', () => {
  const s = new Speech();
  assert.deepEqual(sideWords(s.caller), { word: 'silent', line: '', settled: true });
  assert.equal(s.apply({ type: 'speech.started', who: 'caller' }, 10), true);
  s.apply(said('caller', 'what was'));
  assert.deepEqual(sideWords(s.caller), { word: 'speaking', line: 'what was', settled: false });
  assert.deepEqual(sideWords(s.agent).word, 'silent');
  s.apply({ type: 'speech.stopped', who: 'caller' });
  s.apply(said('caller', 'what was my order number', true));
  assert.deepEqual(sideWords(s.caller), { word: 'silent', line: 'what was my order number', settled: true });
  s.apply({ type: 'speech.started', who: 'caller' });
  assert.equal(s.caller.text, '', 'a new turn begins empty');
});

test('a pause within a turn keeps its line', () => {
  const s = new Speech();
  s.apply({ type: 'speech.started', who: 'caller' });
  s.apply(said('caller', 'my order is'));
  s.apply({ type: 'speech.stopped', who: 'caller' });
  s.apply({ type: 'speech.started', who: 'caller' });
  assert.equal(s.caller.text, 'my order is');
});

test('what was heard of a turn, and what was made of it', () => {
  const s = new Speech();
  assert.equal(heardWords(s.last), '');
  s.apply(said('agent', 'Your order number is four seven', true, 't1'));
  s.apply({ type: 'played', item_id: 't1', played_ms: 1840, text_heard: 'Your order', interrupted: true, epoch: 2 });
  assert.deepEqual(s.last, { itemId: 't1', ms: 1840, heard: 'Your order', made: 'Your order number is four seven', interrupted: true });
  assert.equal(heardWords(s.last), 'Cut after 1.8 s. Heard: “Your order”');
  assert.deepEqual(s.played.get('t1'), { ms: 1840, interrupted: true, epoch: 2 });
  s.apply({ type: 'played', item_id: 't2', played_ms: 900, text_heard: 'Yes.', interrupted: false, epoch: 2 });
  assert.equal(s.last.made, '', 'the text of another turn is not this one\'s');
  s.apply(said('agent', 'A long one', true, 't3'));
  s.apply(said('agent', 'The next', false, 't4'));
  s.apply({ type: 'speech.started', who: 'agent' });
  assert.equal(s.agent.text, 'The next', 'its words come before its voice');
  s.apply({ type: 'played', item_id: 't3', played_ms: 1, text_heard: '', interrupted: true });
  assert.equal(s.last.made, 'A long one', 'also when the next turn is being made');
  s.apply({ type: 'played', item_id: 't2', played_ms: 900, text_heard: 'Yes.', interrupted: false, epoch: 2 });
  assert.equal(heardWords(s.last), 'Heard to its end, 0.9 s.');
  assert.match(heardWords({ ms: 0, heard: '', interrupted: true }), /before anything was heard/);
});

test('the turns kept are bounded, a reset forgets them, other messages change nothing', () => {
  const s = new Speech();
  for (let i = 0; i < 120; i++) s.apply({ type: 'played', item_id: `t${i}`, played_ms: i });
  assert.deepEqual([s.played.size, s.played.has('t119'), s.played.has('t0')], [50, true, false]);
  assert.equal(s.apply({ type: 'of.later' }), false);
  s.reset();
  assert.deepEqual([s.played.size, s.last], [0, null]);
});

test('loudness and its meter', () => {
  assert.equal(loudness(new Float32Array(8)), -Infinity);
  assert.equal(loudness([]), -Infinity);
  assert.equal(loudness([1, -1, 1, -1]), 0);
  assert.equal(Math.round(loudness([0.1, -0.1])), -20);
  assert.deepEqual([meterShare(-Infinity), meterShare(-60), meterShare(-30), meterShare(0), meterShare(3)], [0, 0, 0.5, 1, 1]);
  assert.deepEqual([loudnessWords(-Infinity), loudnessWords(-20.4)], ['silent', '-20 dB']);
});
