// The console page: ties the publisher (WHIP), the agent socket and the views together.
import { AgentClient } from './agent.js';
import { Api, tokenOf } from './api.js';
import { $, el, setText } from './dom.js';
import { ImageView } from './view-image.js';
import { PipelinesView } from './view-pipelines.js';
import { TalkView } from './view-talk.js';
import { VoiceView } from './view-voice.js';
import { drawLink } from './view-link.js';
import { Publisher } from './whip.js';
import { randomId, validSession } from './wire.js';
import { ServerError, agentCommand, autoplayTrouble, blackTrouble, callWords, stageWords } from './words.js';

const POLL_MS = 1000, TICK_MS = 250;

const api = new Api(tokenOf(window.location));
const agent = new AgentClient(api, tabId(), () => tabId(true));
const publisher = new Publisher(api);
const image = new ImageView();
const voice = new VoiceView(publisher);
const talk = new TalkView(loadBlob, () => agent.agentId, (id) => voice.speech.played.get(id));
const pipelines = new PipelinesView({ ask: (target, at) => agent.switchTo(target, at), seed: (epoch) => api.seed(agent.session, epoch) });
// `sure` is false from the moment that socket or poll fail until the server answers again; `answered` is its last answer.
const page = { detail: null, stats: undefined, serverOk: true, sure: true, misses: 0, pollError: null, answered: null, calling: false };

// Stable for the tab's life, also over a reload.
function tabId(fresh = false) {
  const key = 'sightline-agent-id';
  try {
    const known = sessionStorage.getItem(key);
    if (known && !fresh) return known;
    const made = `console-${randomId(4)}`;
    sessionStorage.setItem(key, made);
    return made;
  } catch { // storage switched off
    return `console-${randomId(4)}`;
  }
}

// With a token an <img> cannot ask by itself.
async function loadBlob(path) {
  if (!api.token) return path;
  const url = URL.createObjectURL(await (await api.request(path)).blob());
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  return url;
}

/* Session */

function useSession(id) {
  Object.assign(page, { detail: null, answered: null });
  image.clear();
  pipelines.reset();
  agent.attach(id);
  const url = new URL(window.location.href);
  url.searchParams.set('session', id);
  history.replaceState(null, '', url);
  setText($('agent-command'), agentCommand(window.location.origin, id));
}

function wireSession() {
  const input = $('session-id'), asked = new URLSearchParams(window.location.search).get('session') ?? '';
  input.value = validSession(asked) ? asked : 'demo';
  if (asked && !validSession(asked)) sessionHint(asked);
  const take = () => {
    const id = input.value.trim();
    const ok = sessionHint(id);
    if (ok && id !== agent.session) useSession(id);
    return ok;
  };
  input.addEventListener('change', take);
  $('session-form').addEventListener('submit', (e) => { e.preventDefault(); take(); });
  useSession(input.value);
}

function sessionHint(id) {
  const ok = validSession(id);
  setText($('session-hint'), ok ? '' : 'Letters, digits, - and _, at most 64.');
  $('session-id').setAttribute('aria-invalid', String(!ok));
  return ok;
}

/* Publishing */

function wirePublisher() {
  const start = (kind) => {
    if (!sessionHint($('session-id').value.trim())) return $('session-id').focus();
    publisher.start({ session: $('session-id').value.trim(), kind, microphone: $('send-mic').checked, hear: $('hear-agent').checked });
  };
  $('start-camera').addEventListener('click', () => start('camera'));
  $('share-screen').addEventListener('click', () => start('screen'));
  $('start-mic').addEventListener('click', () => start('microphone'));
  $('stop').addEventListener('click', () => { publisher.stop(); $('start-camera').focus(); });
  publisher.addEventListener('change', drawPublisher);
  window.addEventListener('pagehide', () => { publisher.stop(); agent.detach(); });
  window.addEventListener('pageshow', (e) => { if (e.persisted) useSession($('session-id').value); });
}

function drawPublisher() {
  const { state, active, kind } = publisher;
  const before = document.activeElement, ours = [$('start-camera'), $('share-screen'), $('start-mic'), $('stop')];
  $('start-camera').hidden = $('share-screen').hidden = $('start-mic').hidden = active;
  $('stop').hidden = !active;
  $('session-id').readOnly = active;
  $('session-id').title = active ? 'Stop first to change the session' : '';
  if (ours.includes(before) && before.hidden) $(active ? 'stop' : 'start-camera').focus(); // a hidden button keeps no focus
  $('send-mic').disabled = $('hear-agent').disabled = active;
  const video = $('local-video'), picture = kind === 'microphone' ? null : publisher.stream;
  if (video.srcObject !== picture) video.srcObject = picture;
  video.hidden = !picture;
  $('camera-empty').hidden = Boolean(picture);
  $('camera-stage').classList.toggle('low', active && kind === 'microphone'); // nothing to look at
  voice.follow();
  setText($('start-camera'), state === 'failed' && kind === 'camera' ? 'Start camera again' : 'Start camera');
  setText($('share-screen'), state === 'failed' && kind === 'screen' ? 'Share screen again' : 'Share screen');
  setText($('start-mic'), state === 'failed' && kind === 'microphone' ? 'Start microphone again' : 'Start microphone');
  if (page.calling && !active) { // our sources end with our call; nobody need wait for the next poll to see it
    for (const s of page.detail?.sources ?? []) s.state = 'ended';
    poll();
  }
  page.calling = state === 'live' || state === 'reconnecting';
  drawStage();
  drawNotices();
  draw();
}

function drawStage() {
  const { text, press, after = '.' } = stageWords({ state: publisher.state, kind: publisher.kind, trouble: publisher.trouble, again: Boolean(publisher.session) });
  if ($('camera-empty').drawn === text + press) return;
  $('camera-empty').drawn = text + press;
  $('camera-empty').replaceChildren(text, ...(press ? [' Press ', el('b', {}, press), after] : []));
}

/* Notices: what is wrong and what to do */

function drawNotices() {
  const list = [];
  if (publisher.trouble && publisher.state !== 'live') list.push({ ...publisher.trouble, act: publisher.state === 'reconnecting' ? () => publisher.retryNow() : null });
  const said = agent.trouble ?? page.pollError;
  if (said && !list.some((t) => t.code === said.code)) list.push({ ...said, act: agent.state === 'attached' ? null : () => agent.retryNow() });
  const black = page.detail?.sources?.find((s) => s.state === 'black');
  if (black) list.push(blackTrouble(publisher.active ? publisher.kind : black.name));
  if (voice.held) list.push({ ...autoplayTrouble(), act: () => voice.play() });
  const key = JSON.stringify(list.map(({ code, title, advice }) => [code, title, advice]));
  if ($('notices').drawn === key) return;
  $('notices').drawn = key;
  const focused = $('notices').contains(document.activeElement);
  $('notices').replaceChildren(...list.map(notice));
  if (focused) ($('notices').querySelector('button') ?? $('notices')).focus(); // a notice that goes leaves the focus where it was
}

function notice({ code, title, advice, act, soft, label = 'Try now' }) {
  const button = act && el('button', { type: 'button' }, label);
  button?.addEventListener('click', act);
  return el('div', { class: `notice ${soft ? '' : 'bad'}`, 'data-code': code }, el('p', {}, el('b', {}, soft ? title : `${title}.`), ' ', advice), button);
}

/* Images */

function wireImages() {
  $('image-fps').addEventListener('change', () => { image.fps = Number($('image-fps').value); agent.setFps(image.fps); });
  $('image-source').addEventListener('change', () => image.setSource($('image-source').value));
  $('save-image').addEventListener('click', () => image.save());
  $('ask-image').addEventListener('click', () => ask(false));
  $('attach-image').addEventListener('click', () => ask(true));
  agent.addEventListener('image', ({ detail }) => {
    image.take(detail, Boolean(detail.header.request_id)).then(draw, () => say('image-said', 'An image came that this browser cannot decode.', 'bad'));
  });
}

async function ask(attach) {
  const source = image.source !== '*' ? image.source : page.detail?.sources?.find((s) => s.state !== 'ended')?.name;
  say('image-said', attach ? 'Asking for an image for the conversation…' : 'Asking for an image…');
  try {
    const { header } = await agent.requestImage({ source, attach });
    say('image-said', `${attach ? 'Attached: image' : 'Image'} ${header.seq} of ${header.source}, ${header.age_ms} ms old when it came.`);
  } catch (error) {
    const help = page.detail?.sources?.some((s) => s.state !== 'ended') ? 'Press again to retry.' : 'Start a camera or share a screen first.';
    say('image-said', `No image: ${error.message}. ${help}`, 'bad');
  }
}

function say(id, text, tone = '') {
  setText($(id), text);
  $(id).dataset.tone = tone;
}

/* Conversation */

function wireTalk() {
  agent.addEventListener('reset', () => { voice.reset(); talk.reset(agent.conversation, agent.session); pipelines.drawEpochs(agent.conversation); });
  agent.addEventListener('entry', ({ detail }) => { talk.update(agent.conversation, detail); pipelines.drawEpochs(agent.conversation); });
  const field = $('message');
  field.addEventListener('input', () => {
    grow();
    if ($('message-said').dataset.tone === 'bad') say('message-said', '');
  });
  field.addEventListener('keydown', (e) => {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) { e.preventDefault(); $('message-form').requestSubmit(); }
  });
  $('message-form').addEventListener('submit', (e) => { e.preventDefault(); send(); });
}

function grow() {
  const field = $('message');
  field.style.height = 'auto';
  field.style.height = `${Math.min(160, field.scrollHeight + 2)}px`;
}

// The text stays in the field until the server has it.
async function send() {
  const field = $('message'), text = field.value;
  if (!text.trim() || field.readOnly) return;
  field.readOnly = true;
  const waiting = setTimeout(() => say('message-said', agent.state === 'attached' ? 'Sending…' : 'Not connected: it is sent once, as soon as the server is back.'), 400);
  try {
    await agent.append({ type: 'message', role: 'user', content: text });
    field.value = '';
    say('message-said', '');
  } catch (error) {
    say('message-said', `Not sent: ${error.message}. Your text is kept.`, 'bad');
  } finally {
    clearTimeout(waiting);
    field.readOnly = false;
    grow();
  }
}

/* Voice and pipelines */

function wireVoice() {
  voice.addEventListener('held', drawNotices);
  agent.addEventListener('speech', ({ detail }) => voice.apply(detail));
  agent.addEventListener('pipeline', ({ detail }) => { pipelines.apply(detail); poll(); });
  $('stop-talking').addEventListener('click', () => tell(() => agent.interrupt(), 'The agent was told to stop.'));
  $('say-form').addEventListener('submit', (e) => {
    e.preventDefault();
    const field = $('say-text'), text = field.value.trim();
    if (text) tell(() => agent.say(text), 'Queued behind what is being said.').then((done) => { if (done) field.value = ''; });
  });
}

async function tell(ask, done) {
  try {
    await ask();
    say('voice-said', done);
    return true;
  } catch (error) {
    say('voice-said', `Not done: ${error.message}.`, 'bad');
    return false;
  }
}

/* State of the link */

async function poll() {
  if (!agent.session) return;
  const session = agent.session, { active } = publisher;
  await publisher.settled; // an answer from before our call's end would show it as somebody else's
  try {
    const [detail, stats] = await Promise.all([api.session(session), publisher.stats()]);
    if (session !== agent.session) return;
    if (active && !publisher.active) return; // asked before our call's end: the poll after it answers
    answered({ detail, stats });
    if (!detail.publisher) publisher.check(); // a call that we hold for live and the server does not
  } catch (error) {
    if (session !== agent.session) return;
    missed(error);
  }
  drawNotices();
  draw();
}

// An answer after a silence: whoever waits need not wait any longer.
function answered(news) {
  const back = !page.serverOk, { detail } = news;
  Object.assign(page, { serverOk: true, sure: true, misses: 0, pollError: null }, news);
  page.answered = detail && { state: detail.state, seq: detail.seq, at: new Date().toLocaleTimeString() };
  if (!back) return;
  if (agent.state === 'waiting') agent.retryNow();
  publisher.retryNow();
}

// One missed poll may be chance; two are the server being away. A refusal is an answer.
function missed(error) {
  if (error instanceof ServerError) return answered({ detail: null });
  page.misses++;
  page.sure = false;
  if (page.misses < 2) return undefined;
  Object.assign(page, { serverOk: false, detail: null, stats: undefined });
  page.pollError = { code: 'server-gone', title: 'The server does not answer', advice: 'Is it still running? The page keeps trying and goes on by itself when it is back.' };
  return undefined;
}

function draw() {
  const { stats, detail, serverOk, answered: said } = page;
  const gone = [publisher.state !== 'live' && publisher.trouble, agent.trouble].some((t) => t && t.code === 'server-gone'); // as the notices say
  const sure = page.sure && !gone;
  drawLink({ publisher, agent, stats, detail, lastImage: image.last, meId: agent.agentId, serverOk, sure, answered: said });
  pipelines.draw(detail, agent.state === 'attached');
  voice.drawFigures();
  setText($('publish-state'), callWords(publisher.state, publisher.kind, publisher.session, sure && detail?.state !== 'ended'));
  const waiting = publisher.state === 'live' && !image.last;
  const soon = publisher.kind === 'microphone' ? 'Only sound is sent: agents see nothing.' : 'Connected; waiting for the first image…';
  setText($('view-empty'), waiting ? soon : 'The first image comes when a camera or screen is live.');
}

function tick() {
  const source = page.detail?.sources?.find((s) => s.name === image.last?.header.source);
  image.tick(performance.now(), agent.state !== 'attached' || ['ended', 'stalled'].includes(source?.state)); // images come over the socket
  if (publisher.state === 'reconnecting' || agent.state === 'waiting') draw(); // the countdown
}

function wireAgent() {
  let broken = false;
  agent.addEventListener('change', () => {
    if (agent.state === 'waiting') {
      if (!broken) { page.sure = false; voice.reset(); pipelines.lost(); poll(); } // is it the server, or this socket alone?
      broken = true;
    }
    if (agent.state === 'attached' && broken) { broken = false; publisher.check(); publisher.retryNow(); poll(); }
    for (const id of ['ask-image', 'attach-image', 'stop-talking', 'say']) $(id).disabled = agent.state !== 'attached';
    drawNotices();
    draw();
  });
  agent.addEventListener('deleted', () => publisher.stop()); // somebody ended the session: do not publish it back to life
  agent.addEventListener('source', ({ detail: m }) => { // sooner than the next poll
    const known = page.detail?.sources?.find((s) => s.name === m.name);
    if (known) Object.assign(known, { state: m.state, width: m.width ?? known.width, height: m.height ?? known.height, codec: m.codec ?? known.codec });
    drawNotices();
    draw();
  });
}

function wireCopy() {
  $('copy-command').addEventListener('click', async () => {
    const button = $('copy-command');
    try {
      await navigator.clipboard.writeText($('agent-command').textContent);
      button.textContent = 'Copied';
    } catch { // no clipboard on an insecure origin: select it
      getSelection().selectAllChildren($('agent-command'));
      button.textContent = 'Press Ctrl+C';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
}

/* For tests and the developer console: read-only views of the state. */
Object.defineProperty(window, 'sightline', { value: Object.freeze({
  get session() { return agent.session; },
  get agentId() { return agent.agentId; },
  get state() { return { publisher: publisher.state, agent: agent.state, trouble: publisher.trouble?.code ?? agent.trouble?.code ?? page.pollError?.code ?? null }; },
  get lastImage() {
    const l = image.last;
    return l && { source: l.header.source, width: l.width, height: l.height, bytes: l.bytes, seq: l.header.seq, ageMs: image.ageAt(performance.now()), latencyMs: l.header.age_ms };
  },
  get lastImageBlob() { return image.last?.blob ?? null; },
  get imagesReceived() { return image.received; },
  get superseded() { return image.superseded; },
  get seq() { return agent.conversation.seq; },
  get items() { return structuredClone([...agent.conversation.items.values()]); },
  get speech() { return structuredClone({ caller: voice.speech.caller, agent: voice.speech.agent, last: voice.speech.last }); },
  get sound() { return structuredClone({ mic: voice.meters.level('microphone'), voice: voice.meters.level('voice'), stats: publisher.sound ?? null }); },
  get link() { return structuredClone({ stats: page.stats ?? null, session: page.detail }); },
}) });

wireImages();
wireTalk();
wireVoice();
wirePublisher();
wireAgent();
wireCopy();
wireSession();
drawPublisher();
setInterval(tick, TICK_MS);
(async function polling() {
  for (;;) {
    await poll();
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
})();
