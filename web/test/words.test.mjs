import test from 'node:test';
import assert from 'node:assert/strict';
import {
  ServerError, agentCommand, autoplayTrouble, blackTrouble, callWords, closeWords, droppedWords, endedTrouble, insecureTrouble, layerWords, mediaTrouble, policyWords, sentence, serverTrouble, sessionWords,
  sourceWords, stageWords,
} from '../static/js/words.js';
import { readSound, readStats } from '../static/js/stats.js';

test('every camera failure has its own words and says what to do', () => {
  const names = ['NotAllowedError', 'NotFoundError', 'NotReadableError', 'OverconstrainedError', 'AbortError', 'TypeError', 'SomethingNew'];
  for (const kind of ['camera', 'screen', 'microphone']) {
    const said = names.map((name) => mediaTrouble({ name, message: 'why' }, kind));
    for (const t of said) assert.ok(t.title && t.advice && t.code, JSON.stringify(t));
    assert.equal(new Set(said.map((t) => t.code)).size, names.length);
  }
  assert.equal(mediaTrouble({ name: 'NotReadableError' }, 'camera').code, 'in-use');
  assert.match(mediaTrouble({ name: 'NotAllowedError' }, 'screen').title, /screen/);
  assert.match(mediaTrouble({ name: 'NotAllowedError' }, 'microphone').advice, /press Start microphone/);
  assert.match(endedTrouble('microphone').title, /microphone went away/);
  assert.match(autoplayTrouble().label, /Play/);
  assert.equal(endedTrouble('camera').code, 'unplugged');
  assert.match(insecureTrouble({ port: '8080' }).advice, /http:\/\/localhost:8080\//);
});

test('the detail of a refusal is shown as the server said it', () => {
  const busy = serverTrouble(new ServerError(409, { code: 'already_publishing', detail: 'session "demo" is live' }), 'start the call', 'demo');
  assert.equal(busy.code, 'busy');
  assert.match(busy.title, /“demo” is already publishing elsewhere/);
  assert.match(busy.advice, /Session "demo" is live\. /);
  for (const status of [400, 401, 403, 404, 409, 413, 422, 429, 500, 503]) {
    const t = serverTrouble(new ServerError(status, { detail: 'exactly this' }), 'start the call', 'demo');
    assert.match(t.advice, /Exactly this\./, String(status));
  }
  assert.match(serverTrouble(new ServerError(502, null), 'start the call', 'demo').advice, /answered 502/);
  assert.match(serverTrouble(new ServerError(503, { code: 'draining', detail: 'going' }), 'start the call', 'demo').title, /shutting down/);
  assert.equal(serverTrouble(new TypeError('Failed to fetch'), 'start the call', 'demo').code, 'server-gone');
});

test('what is no longer confirmed is said to be the past', () => {
  assert.equal(callWords('live', 'camera', 'demo', true), 'Live: your camera goes to session “demo”.');
  assert.match(callWords('live', 'screen', 'demo', false), /^Last known: your screen went to session “demo”\. .*not confirm.*screen stays on/);
  for (const state of ['asking', 'connecting', 'reconnecting']) assert.equal(callWords(state, 'camera', 'demo', false), callWords(state, 'camera', 'demo', true), 'this page itself knows it');
  assert.deepEqual([callWords('idle', 'camera', '', true), callWords('failed', 'camera', '', true)], ['', '']);
  const answered = { state: 'live', seq: 4, at: '12:20:33' };
  assert.equal(sessionWords(answered, true), 'session live · entry 4');
  assert.equal(sessionWords(answered, false), 'last known, 12:20:33: session live, entry 4');
  assert.deepEqual([sessionWords(null, true), sessionWords(null, false)], ['', '']);
});

test('an empty stage names the button as it is called', () => {
  const stage = (state, more = {}) => stageWords({ state, kind: 'camera', trouble: null, again: true, ...more });
  assert.deepEqual(stage('idle', { again: false }), { text: 'Nothing is sent yet.', press: 'Start camera', after: ': the browser asks first.' });
  assert.deepEqual(stage('failed', { trouble: endedTrouble('camera') }), { text: 'The camera went away. Nothing is sent now.', press: 'Start camera again' });
  assert.deepEqual(stage('failed', { kind: 'screen', trouble: endedTrouble('screen') }), { text: 'Screen sharing was stopped. Nothing is sent now.', press: 'Share screen again' });
  assert.deepEqual(stage('failed', { trouble: mediaTrouble({ name: 'NotAllowedError' }, 'camera') }), { text: 'Nothing is sent now.', press: 'Start camera again' });
  assert.equal(stage('failed', { trouble: insecureTrouble({ port: '' }) }).press, '', 'pressing again cannot help');
  assert.deepEqual(stage('idle'), { text: 'Stopped: nothing is sent now.', press: '' });
  assert.match(stage('asking').text, /permission/);
  assert.deepEqual(stage('live', { kind: 'microphone' }), { text: 'Only sound is sent: there is no picture.', press: '' });
  assert.deepEqual(stage('failed', { kind: 'microphone', trouble: endedTrouble('microphone') }), { text: 'The microphone went away. Nothing is sent now.', press: 'Start microphone again' });
});

test('frames thrown away are counted in words, without a guess why', () => {
  assert.deepEqual([droppedWords(0), droppedWords(undefined)], ['', '']);
  assert.match(droppedWords(1), /threw 1 frame of/);
  assert.match(droppedWords(17), /threw 17 frames of/);
});

test('source states and decode policies in words', () => {
  assert.deepEqual(sourceWords('black', 'camera'), { word: 'camera is black', note: 'covered or muted?', tone: 'warn' });
  assert.equal(sourceWords('live').tone, 'good');
  assert.equal(sourceWords('live', 'camera', true).word, 'frozen');
  assert.equal(sourceWords('stalled', 'camera', true).word, 'stalled');
  assert.match(blackTrouble('camera').advice, /covered or muted/);
  assert.match(blackTrouble('screen').title, /screen/);
  assert.equal(sourceWords('stalled').tone, 'warn');
  assert.equal(sourceWords('ended').tone, 'off');
  assert.equal(sourceWords('new-state').word, 'new-state');
  assert.equal(policyWords('keyframe'), 'key frames on demand');
  assert.equal(policyWords('auto:full'), 'every frame');
  assert.equal(policyWords(undefined), '–');
  assert.equal(policyWords('odd'), 'odd');
});

test('layers in words', () => {
  assert.equal(layerWords({}), 'one stream');
  assert.equal(layerWords({ layers: [{ rid: '', used: true }], spatial_layer: 0, spatial_layers: 1, temporal_layers: 1 }), 'one stream');
  assert.equal(layerWords({ layers: [{ rid: 'q', sent: true }, { rid: 'h', sent: true, used: true }, { rid: 'f' }], temporal_layers: 3 }), 'h of q, h, f (not sent); 3 in time');
  assert.equal(layerWords({ layers: [{ rid: '', used: true }], spatial_layer: 2, spatial_layers: 3 }), '3 of 3 in space');
});

test('close codes, sentences, the command to copy', () => {
  const codes = [1001, 1008, 1009, 1013, 4000, 4004, 4009, 1006];
  assert.equal(new Set(codes.map(closeWords)).size, codes.length);
  assert.deepEqual([sentence('no room'), sentence('Why?'), sentence(''), sentence(undefined)], ['No room.', 'Why?', '', '']);
  assert.equal(agentCommand('http://localhost:8080', 'demo'), 'sightline-agent --session demo');
  assert.equal(agentCommand('https://media.test', 'demo'), 'sightline-agent --url https://media.test --session demo');
});

const report = (at, bytes, packets, lost) => [
  { id: 'c', type: 'codec', mimeType: 'video/VP8' },
  { id: 'o', type: 'outbound-rtp', kind: 'video', timestamp: at, codecId: 'c', bytesSent: bytes, packetsSent: packets, frameWidth: 640, frameHeight: 480, framesPerSecond: 30 },
  { id: 'a', type: 'outbound-rtp', kind: 'audio', timestamp: at, bytesSent: 9e9, packetsSent: 9e9 },
  { id: 'r', type: 'remote-inbound-rtp', kind: 'video', packetsLost: lost, roundTripTime: 0.012 },
];

test('statistics: rates come from differences, sound is left out', () => {
  const first = readStats(report(1000, 0, 0, 0));
  assert.equal(first.bitrate, undefined);
  const second = readStats(report(2000, 125_000, 100, 5), first);
  assert.equal(second.bitrate, 1_000_000);
  assert.equal(second.lossShare, 0.05);
  assert.equal(second.rttMs, 12);
  assert.deepEqual([second.codec, second.width, second.height, second.fps], ['VP8', 640, 480, 30]);
  assert.equal(readStats(report(3000, 250_000, 200, 4), second).lossShare, 0, 'a late report is no negative loss');
  assert.equal(readStats(report(3000, 10, 5, 0), second).bitrate, undefined, 'a new sender starts over');
  assert.equal(readStats([]), undefined);
});

test('statistics of sound, each way for itself', () => {
  const sound = (at, sent, got, lost) => [
    { id: 'c', type: 'codec', mimeType: 'audio/opus' }, { id: 'p', type: 'candidate-pair', nominated: true, state: 'succeeded', currentRoundTripTime: 0.004 },
    { id: 'o', type: 'outbound-rtp', kind: 'audio', timestamp: at, codecId: 'c', bytesSent: sent, packetsSent: sent / 80 },
    { id: 'r', type: 'remote-inbound-rtp', kind: 'audio', packetsLost: 0 },
    { id: 'i', type: 'inbound-rtp', kind: 'audio', timestamp: at, packetsReceived: got, packetsLost: lost, jitter: 0.002, jitterBufferDelay: 96, jitterBufferEmittedCount: 1600, totalAudioEnergy: 0.5 },
    { id: 'v', type: 'inbound-rtp', kind: 'video', packetsReceived: 9e9 },
  ];
  const first = readSound(sound(1000, 0, 0, 0));
  assert.deepEqual([first.codec, first.rttMs, first.sent.bitrate, first.heard.lossShare], ['opus', 4, undefined, undefined]);
  const second = readSound(sound(2000, 4000, 45, 5), first);
  assert.deepEqual([second.sent.bitrate, second.sent.lossShare, second.heard.lossShare, second.heard.jitterMs, second.heard.bufferMs, second.heard.energy], [32_000, 0, 0.1, 2, 60, 0.5]);
  const deaf = readSound(sound(1000, 0, 0, 0).slice(0, 4)), mute = readSound(sound(1000, 0, 0, 0).slice(4));
  assert.deepEqual([deaf.heard, mute.sent], [undefined, undefined]);
  assert.equal(readSound(report(1000, 0, 0, 0).filter((r) => r.kind !== 'audio')), undefined);
});

test('statistics without reports from the receiver leave loss open', () => {
  const s = readStats(report(1000, 0, 0, 0).slice(0, 2));
  assert.deepEqual([s.lost, s.lossShare, s.rttMs], [undefined, undefined, undefined]);
});
