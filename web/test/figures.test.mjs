import test from 'node:test';
import assert from 'node:assert/strict';
import { RateMeter, Series, bitrateText, bytesText, durationText, rateText, shareText, sizeText, sparkPath } from '../static/js/figures.js';
import { Backoff } from '../static/js/backoff.js';

test('a series keeps the newest and leaves out what is no number', () => {
  const s = new Series(3);
  for (const v of [1, 2, NaN, undefined, 3, 4]) s.push(v);
  assert.deepEqual(s.values, [2, 3, 4]);
  assert.equal(s.quantile(0.5), 3);
  assert.equal(s.quantile(1), 4);
  assert.equal(new Series(3).quantile(0.5), undefined);
});

test('the rate follows the beats and falls in silence', () => {
  const m = new RateMeter(5000);
  for (let t = 0; t <= 4000; t += 200) m.mark(t);
  assert.equal(Math.round(m.rate(4100) * 10) / 10, 5);
  assert.ok(m.rate(6000) < 4, 'silence must show');
  assert.equal(m.rate(20_000), 0);
  const one = new RateMeter();
  one.mark(0);
  assert.equal(one.rate(10), 0);
});

test('the history is drawn from the right edge and scaled from 0', () => {
  const { line, area, max } = sparkPath([0, 50, 100], 100, 20, 5, 50);
  assert.equal(line, 'M50 20L75 10L100 0');
  assert.equal(area, 'M50 20L75 10L100 0L100 20L50 20Z');
  assert.equal(max, 100);
});

test('a calm history stays low, an empty one draws nothing, a full one starts at 0', () => {
  assert.equal(sparkPath([5], 100, 20, 5, 50).line, 'M100 18');
  assert.deepEqual(sparkPath([], 100, 20, 5, 50), { line: '', area: '', max: 50 });
  assert.match(sparkPath([1, 1, 1], 100, 20, 3, 1).line, /^M0 /);
  assert.match(sparkPath([-5], 100, 20, 5, 50).line, /100 20$/);
});

test('numbers are written for people', () => {
  assert.deepEqual([bytesText(512), bytesText(83_412), bytesText(3_000_000), bytesText(undefined)], ['512 B', '81.5 KiB', '2.9 MiB', '–']);
  assert.deepEqual([durationText(41.4), durationText(3210), durationText(42_400), durationText(125_000), durationText(3_720_000), durationText(NaN)], ['41 ms', '3.2 s', '42 s', '2 min 5 s', '1 h 2 min', '–']);
  assert.deepEqual([bitrateText(900), bitrateText(640_400), bitrateText(1_240_000), bitrateText(undefined)], ['900 bit/s', '640 kbit/s', '1.2 Mbit/s', '–']);
  assert.deepEqual([shareText(0), shareText(0.0004), shareText(0.0123), shareText(0.5), shareText(undefined)], ['0 %', '< 0.1 %', '1.2 %', '50 %', '–']);
  assert.deepEqual([sizeText(640, 480), sizeText(0, 0), sizeText()], ['640×480', '–', '–']);
  assert.deepEqual([rateText(4.96), rateText(29.97), rateText(undefined)], ['5.0', '30', '–']);
});

test('back-off doubles up to its limit, keeps Retry-After, starts over after success', () => {
  const b = new Backoff({ first: 500, most: 4000, random: () => 0.5 });
  assert.deepEqual([b.next(), b.next(), b.next(), b.next(), b.next()], [500, 1000, 2000, 4000, 4000]);
  assert.equal(b.next(9000), 9000);
  b.reset();
  assert.equal(b.next(), 500);
});

test('back-off spreads by a fifth both ways', () => {
  assert.equal(new Backoff({ first: 1000, random: () => 0 }).next(), 800);
  assert.equal(new Backoff({ first: 1000, random: () => 1 }).next(), 1200);
});
