// The state of the link: the four hops on top, the sources and the agents below.
import { $, el, figure, setText, setTone } from './dom.js';
import { bitrateText, countText, durationText, shareText, sizeText, rateText } from './figures.js';
import { droppedWords, layerWords, policyWords, sessionWords, sourceWords } from './words.js';

/** Draws from `now`: {publisher, agent, stats, detail (the session's state or null), lastImage, meId, serverOk, sure, answered}; see `page` in main.js. */
export function drawLink(now) {
  const sources = now.detail?.sources ?? [];
  drawSourceHop(now, sources);
  drawLinkHop(now, sources);
  drawGatewayHop(now, sources);
  setText($('session-state'), sessionWords(now.answered, now.sure));
  for (const id of ['sources-known', 'agents-known']) setText($(id), now.sure || !now.answered ? '' : 'last known');
  $('desk').classList.toggle('old', !now.sure);
  if (!now.sure) { // what was last known stays below, and says so
    hop('agents', 'off', 'not known', []);
    return;
  }
  drawAgents(now);
  drawSources(sources);
  setTone($('view-stage'), sources.some((s) => s.state === 'black') ? 'warn' : '');
}

function hop(name, tone, state, figures) {
  setTone($(`hop-${name}`), tone);
  setText($(`${name}-state`), state);
  setText($(`${name}-figures`), figures.filter(Boolean).join(' · '));
}

// The page's own picture first: what it sends; else what somebody else publishes into the session.
function drawSourceHop({ publisher, detail, sure }, sources) {
  const seen = sources.find((s) => s.state !== 'ended');
  if (publisher.active) {
    const settings = publisher.stream?.getVideoTracks()[0]?.getSettings() ?? {};
    const figures = [sizeText(settings.width, settings.height), settings.frameRate ? `${Math.round(settings.frameRate)} fps` : ''].filter((f) => f !== '–');
    if (publisher.muted) return hop('camera', 'warn', 'muted by the system', figures);
    if (publisher.state === 'asking') return hop('camera', 'wait', 'waiting for your permission', []);
    if (publisher.state === 'live' && seen && (['black', 'stalled'].includes(seen.state) || seen.frozen)) return hop('camera', 'warn', said(seen, publisher.kind), figures);
    return hop('camera', publisher.stream ? 'good' : 'wait', `${publisher.kind} on`, figures);
  }
  if (!sure && publisher.state !== 'failed') return hop('camera', 'off', 'not known', []);
  if (seen && detail?.state !== 'ended') {
    return hop('camera', sourceWords(seen.state, seen.name, seen.frozen).tone, `${seen.name} from elsewhere, ${said(seen)}`, []);
  }
  hop('camera', publisher.state === 'failed' ? 'bad' : 'off', publisher.state === 'failed' ? 'not available' : 'not started', []);
}

function said(source, kind = source.name) {
  const { word, note } = sourceWords(source.state, kind, source.frozen);
  return note ? `${word}: ${note}` : word;
}

function drawLinkHop({ publisher, stats, detail, sure }, sources) {
  if (publisher.state === 'live' && (!sure || detail?.state === 'ended')) return hop('link', 'warn', 'not confirmed', []);
  switch (publisher.state) {
    case 'live': {
      const s = stats ?? {};
      const lossy = s.lossShare > 0.02;
      return hop('link', lossy ? 'warn' : 'good', lossy ? 'losing packets' : 'connected',
        [s.codec, sizeText(s.width, s.height), bitrateText(s.bitrate), Number.isFinite(s.rttMs) ? `round trip ${durationText(s.rttMs)}` : '', Number.isFinite(s.lossShare) ? `loss ${shareText(s.lossShare)}` : ''].filter((f) => f !== '–'));
    }
    case 'connecting': return hop('link', 'wait', 'connecting', []);
    case 'reconnecting': return hop('link', 'bad', 'reconnecting', [countdown(publisher.retryAt)]);
    default: {
      const other = sources.find((s) => s.state !== 'ended');
      if (!sure) return hop('link', 'off', 'not known', []);
      if (!other) return hop('link', 'off', 'no call', []);
      return hop('link', other.state === 'stalled' ? 'warn' : 'good', 'call of another publisher', [other.codec, sizeText(other.width, other.height), bitrateText(other.bitrate_bps)].filter((f) => f !== '–'));
    }
  }
}

/** "next try in 3 s", or that it is being tried. */
function countdown(retryAt) {
  const left = retryAt - performance.now();
  return left > 0 ? `next try in ${Math.ceil(left / 1000)} s` : 'trying now';
}

function drawGatewayHop({ publisher, agent, detail, serverOk, sure }, sources) {
  if (!serverOk) return hop('gateway', 'bad', 'no answer', [agent.state === 'waiting' ? countdown(agent.retryAt) : '']);
  if (agent.state === 'waiting') return hop('gateway', 'bad', 'console disconnected', [countdown(agent.retryAt)]);
  if (agent.state === 'refused') return hop('gateway', 'bad', 'console refused', []);
  if (!sure) return hop('gateway', 'warn', 'not confirmed', []);
  if (agent.state !== 'attached' || !detail) return hop('gateway', 'wait', 'attaching', []);
  const live = sources.filter((s) => s.state !== 'ended');
  if (live.length === 0) return hop('gateway', 'off', publisher.state === 'live' && publisher.kind === 'microphone' ? 'sound only' : 'ready, no source', [`entry ${detail.seq ?? 0}`]);
  const s = live[0];
  hop('gateway', 'good', s.policy_in_effect === 'idle' ? policyWords('idle') : `decodes ${policyWords(s.policy_in_effect)}`, [`${countText(s.decoded)} decoded`, `${countText(s.delivered)} delivered`, s.lost ? `${s.lost} lost` : '']);
}

function drawAgents({ detail, meId, lastImage, agent }) {
  const agents = (detail?.agents ?? []).filter((a) => a.connected !== false);
  const others = agents.filter((a) => a.agent_id !== meId);
  const attached = agent.state === 'attached';
  const latency = lastImage ? `image after ${durationText(lastImage.header.age_ms)}` : 'no image yet';
  hop('agents', others.length ? 'good' : 'off', others.length ? `${others.length} attached` : 'none attached', [attached ? latency : '']);
  $('agents-empty').hidden = others.length > 0;
  const list = [...others, ...agents.filter((a) => a.agent_id === meId)];
  fill($('agents'), list.map((a) => [a.agent_id, a.connected, a.seq, a.images_superseded]), () => list.map((a) => el('li', {},
    el('b', {}, a.agent_id), el('span', {}, a.agent_id === meId ? 'this console' : 'attached'),
    el('span', {}, `at entry ${countText(a.seq)}`), el('span', {}, `${countText(a.images_superseded)} superseded`))));
}

const FIGURES = [
  ['Codec', (s) => s.codec || '–'],
  ['Picture', (s) => sizeText(s.width, s.height)],
  ['Frames / s', (s) => rateText(s.fps)],
  ['Bitrate', (s) => bitrateText(s.bitrate_bps)],
  ['Layer', (s) => layerWords(s), 'Which of the layers that the sender sends is used', true],
  ['Decode policy', (s) => `${policyWords(s.policy)}: ${policyWords(s.policy_in_effect)}`, '', true],
  ['Newest', (s) => (Number.isFinite(s.age_ms) && s.last_captured_at ? `${durationText(s.age_ms)} old${Number.isFinite(s.capture_error_ms) ? ` ± ${durationText(s.capture_error_ms)}` : ''}` : '–'), 'How old the newest image is, and how far off that may be'],
  ['Lost', (s) => countText(s.lost), 'Packets that never arrived'],
  ['Decoded', (s) => countText(s.decoded), 'Pictures made of frames'],
  ['Delivered', (s) => countText(s.delivered), 'Images given out'],
  ['Superseded', (s) => countText(s.superseded), 'Images replaced by newer ones before anybody took them'],
  ['Unchanged', (s) => countText(s.unchanged), 'Images withheld from agents that want changes only'],
  ['Dropped', (s) => countText(s.dropped), 'Frames that the gateway threw away'],
];

// Written in place: what a person has selected, focused or is being read stays.
function drawSources(sources) {
  $('sources-empty').hidden = sources.length > 0;
  const known = new Map([...$('sources').children].map((node) => [node.dataset.source, node]));
  for (const s of sources) {
    const node = known.get(s.name) ?? $('sources').appendChild(sourceNode(s.name));
    known.delete(s.name);
    drawSource(node, s);
  }
  for (const node of known.values()) node.remove();
}

function sourceNode(name) {
  return el('div', { class: 'source', 'data-source': name }, el('h3', {}, `${name} `, el('span', {})),
    el('dl', { class: 'grid' }, ...FIGURES.map(([term, , title, long]) => figure(term, '', title, long))),
    el('p', { class: 'said dropped', hidden: true }, el('span', {}), ' ', el('a', { href: '/debug/sessions', target: '_blank', rel: 'noopener' }, 'Counts by cause'), ' (FrameDrops).'));
}

function drawSource(node, s) {
  setTone(node, sourceWords(s.state, s.name, s.frozen).tone);
  node.dataset.state = s.state;
  setText(node.querySelector('h3 span'), said(s).replace(`${s.name} is `, ''));
  node.querySelectorAll('dd').forEach((dd, i) => setText(dd, FIGURES[i][1](s)));
  const dropped = droppedWords(s.dropped);
  node.querySelector('.dropped').hidden = !dropped;
  setText(node.querySelector('.dropped span'), dropped);
}

// Draws anew only when the data changed.
function fill(node, data, make) {
  const key = JSON.stringify(data);
  if (node.drawn === key) return;
  node.drawn = key;
  node.replaceChildren(...make());
}
