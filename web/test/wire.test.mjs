import test from 'node:test';
import assert from 'node:assert/strict';
import { webcrypto } from 'node:crypto';
import { decodeBinary, hello, imageAddress, markScreen, randomId, validSession, wantOf } from '../static/js/wire.js';

globalThis.crypto ??= webcrypto; // node 18 has no global one, browsers do

function message(header, payload = []) {
  const text = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const out = new Uint8Array(4 + text.length + payload.length);
  new DataView(out.buffer).setUint32(0, text.length, false);
  out.set(text, 4);
  out.set(payload, 4 + text.length);
  return out.buffer;
}

test('a binary message comes apart into header and payload', () => {
  const { header, payload } = decodeBinary(message({ type: 'image', source: 'caméra', seq: 7 }, [255, 216, 255]));
  assert.deepEqual(header, { type: 'image', source: 'caméra', seq: 7 });
  assert.deepEqual([...payload], [255, 216, 255]);
});

test('an empty payload is allowed', () => {
  assert.equal(decodeBinary(message({ type: 'image' })).payload.length, 0);
});

test('damaged binary messages are refused with a reason', () => {
  const beyond = message({ type: 'image' });
  new DataView(beyond).setUint32(0, 500, false);
  const huge = message({ type: 'image' });
  new DataView(huge).setUint32(0, 0xffffffff, false);
  const badText = new Uint8Array([0, 0, 0, 2, 0xc3, 0x28]).buffer;
  assert.throws(() => decodeBinary(new ArrayBuffer(3)), /no header length/);
  assert.throws(() => decodeBinary(beyond), /beyond the message/);
  assert.throws(() => decodeBinary(huge), /above 65536/);
  assert.throws(() => decodeBinary(badText), TypeError);
  assert.throws(() => decodeBinary(message('{"type":')), SyntaxError);
  for (const header of ['[]', 'null', '"image"', '{}', '{"type":5}']) assert.throws(() => decodeBinary(message(header)), /no object with a type/);
});

test('hello carries resume_from and log_id only when something was applied, also for 0', () => {
  assert.equal('resume_from' in hello('a', wantOf(1), undefined), false);
  assert.equal(hello('a', wantOf(1), 0).resume_from, 0);
  assert.deepEqual([hello('a', wantOf(1), 3, 'log').log_id, 'log_id' in hello('a', wantOf(1), undefined, 'log')], ['log', false], 'the log goes with its seq');
  assert.deepEqual(hello('a', wantOf(2), 9).want.images, [{ source: '*', fps: 2, width: 1024, height: 1024, fit: 'stretch', quality: 75 }]);
});

test('the console wants to know who speaks, also after a change of the images', () => {
  assert.deepEqual([wantOf(1).context, wantOf(1).transcripts, wantOf(5).transcripts], [true, true, true]);
});

test('image addresses: stored blobs, data URLs, and nothing from elsewhere', () => {
  const sha = 'ab'.repeat(32);
  assert.deepEqual(imageAddress(`sightline:blob/${sha}`, 'demo'), { blob: `/v1/sessions/demo/blobs/${sha}` });
  assert.deepEqual(imageAddress('data:image/png;base64,AA', 'demo'), { src: 'data:image/png;base64,AA' });
  assert.deepEqual(imageAddress('https://example.com/x.jpg', 'demo'), { outside: 'example.com' });
  assert.deepEqual(imageAddress('javascript:alert(1)', 'demo'), { outside: 'unknown address' });
  assert.deepEqual(imageAddress('data:text/html,x', 'demo'), { outside: 'unknown address' });
  assert.deepEqual(imageAddress('sightline:blob/../../x', 'demo').src, undefined);
  assert.deepEqual(imageAddress(undefined, 'demo'), { outside: 'unknown address' });
});

test('session ids follow the rule of the contract', () => {
  for (const good of ['demo', 'A_b-9', 'x'.repeat(64)]) assert.ok(validSession(good), good);
  for (const bad of ['', 'a b', 'ä', 'x'.repeat(65), 'a/b', 'a\n']) assert.ok(!validSession(bad), JSON.stringify(bad));
});

test('random ids are hex of the asked length and differ', () => {
  assert.match(randomId(4), /^[0-9a-f]{8}$/);
  assert.notEqual(randomId(), randomId());
});

test('a screen is marked in every video section, after the lines that must come first', () => {
  const sdp = 'v=0\r\nm=audio 9 X 0\r\na=mid:0\r\nm=video 9 X 96\r\nc=IN IP4 0.0.0.0\r\nb=AS:1\r\na=mid:1\r\nm=video 9 X 96\r\na=mid:2\r\n';
  assert.equal(markScreen(sdp), 'v=0\r\nm=audio 9 X 0\r\na=mid:0\r\nm=video 9 X 96\r\nc=IN IP4 0.0.0.0\r\nb=AS:1\r\na=content:slides\r\na=mid:1\r\nm=video 9 X 96\r\na=content:slides\r\na=mid:2\r\n');
});
