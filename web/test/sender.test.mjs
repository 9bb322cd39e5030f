import assert from 'node:assert/strict';
import test from 'node:test';
import { encodingFor, obeyWishes } from '../static/js/sender.js';

const hd = { width: 1280, height: 720 };

test('a wish becomes an encoding that covers the wanted box in both directions', () => {
  const wish = (width, height) => ({ max_bitrate_bps: 600_000, max_fps: 10, width, height });
  assert.deepEqual(encodingFor(wish(0, 0), hd, 1_500_000), { maxBitrate: 600_000, maxFramerate: 10, scaleResolutionDownBy: 1 });
  for (const [box, picture, scale] of [
    [[1024, 1024], hd, 1], // 720 lines are fewer than wanted: none is to spare
    [[640, 360], hd, 2], [[320, 320], hd, 2.25], [[1100, 700], hd, 1],
    [[360, 360], { width: 720, height: 1280 }, 2], [[320, 240], {}, 1],
  ]) assert.equal(encodingFor(wish(...box), picture, 1e6).scaleResolutionDownBy, scale, `${box}`);
});

test('a wish never asks for more than this page sends, and nonsense asks for nothing', () => {
  assert.equal(encodingFor({ max_bitrate_bps: 9e6 }, hd, 1_500_000).maxBitrate, 1_500_000);
  for (const bad of [{}, { max_bitrate_bps: 0, max_fps: -1, width: 1 }, { max_bitrate_bps: 'x', max_fps: null, width: NaN, height: 2 }]) {
    assert.deepEqual(encodingFor(bad, hd, 1_500_000), { maxBitrate: 1_500_000, scaleResolutionDownBy: 1 });
  }
});

test('the newest wish is what the sender keeps to, and a broken message changes nothing', async () => {
  const channel = new EventTarget(), set = [];
  let release;
  const sender = { track: { getSettings: () => hd }, getParameters: () => ({ encodings: [{ maxBitrate: 1 }] }),
    setParameters: (p) => { set.push(p.encodings[0].maxBitrate); return new Promise((ok) => { release = ok; }); } };
  obeyWishes({ createDataChannel: () => channel, getTransceivers: () => [{ mid: '0', sender }] }, 1_500_000);
  const say = (data) => channel.dispatchEvent(new MessageEvent('message', { data }));
  const wish = (bps) => say(JSON.stringify({ type: 'sender', sources: [{ name: 'camera', mid: '0', max_bitrate_bps: bps }] }));
  wish(100_000);
  wish(200_000);
  wish(300_000);
  say('{');
  say('{"type":"other","sources":[]}');
  for (let i = 0; i < 3 && set.length < 3; i++) { release(); await new Promise(setImmediate); }
  assert.deepEqual(set, [100_000, 300_000]);
});
