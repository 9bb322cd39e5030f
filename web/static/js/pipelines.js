// Pipelines in words, and the epochs of a conversation (PROTOCOL.md §5.10), pure.
import { textOf } from './conversation.js';
import { durationText } from './figures.js';

const FIRST_LINES = 3; // of what was said in an epoch

/**
 * The epochs of a conversation in order: {epoch, leg, from, reason, at, known, said, lines: [{role, text}], tools: [{name, state}],
 * aborted: [{to, reason}]}. `known` is false for one whose beginning is not in the log. `said` counts messages with text.
 * An item belongs to its entry's epoch; one of a snapshot, which tells none, to the commit that it stands after.
 */
export function epochsOf(conversation) {
  const epochs = new Map();
  const epochAt = (n) => {
    if (!epochs.has(n)) epochs.set(n, { epoch: n, leg: '', from: '', reason: '', at: undefined, known: n === 0, said: 0, lines: [], tools: [], aborted: [] });
    return epochs.get(n);
  };
  let current = 0;
  for (const [id, item] of conversation.items) {
    const about = conversation.about.get(id);
    if (item.type === 'pipeline_switch') {
      if (item.state === 'committed') {
        current = item.epoch;
        Object.assign(epochAt(current), { leg: item.to, from: item.from ?? '', reason: item.reason ?? '', at: about?.at, known: true });
      } else if (item.state === 'aborted') epochAt(about?.epoch ?? current).aborted.push({ to: item.to, reason: item.reason ?? '' });
      continue;
    }
    tell(epochAt(about?.epoch ?? current), item, conversation);
  }
  return [...epochs.values()].filter((e) => e.epoch > 0 || e.said || e.tools.length).sort((a, b) => a.epoch - b.epoch);
}

function tell(epoch, item, conversation) {
  if (item.type === 'function_call') epoch.tools.push({ name: item.name, state: callState(conversation.outputOf(item.call_id)) });
  if (item.type !== 'message' || !['user', 'assistant'].includes(item.role)) return;
  const text = textOf(item).trim();
  if (!text) return;
  epoch.said++;
  if (epoch.lines.length < FIRST_LINES) epoch.lines.push({ role: item.role, text });
}

/** A call's state by its output: running, done or error. */
export function callState(output) {
  if (!output) return 'running';
  return output.is_error ? 'error' : 'done';
}

/** A leg's state for people: {word, tone}. */
export function legWords(state) {
  switch (state) {
    case 'active': return { word: 'has the floor', tone: 'good' };
    case 'preparing': return { word: 'getting ready', tone: 'wait' };
    case 'ready': return { word: 'ready to take over', tone: 'wait' };
    case 'failed': return { word: 'failed', tone: 'bad' };
    case 'registered': return { word: 'available', tone: 'off' };
    default: return { word: String(state ?? ''), tone: 'off' };
  }
}

const quoted = (name) => (name ? `“${name}”` : 'nobody');

const REASONS = { first: 'the first', switch: 'on request', failover: 'the leg before died', rollover: 'a fresh connection', resume: 'after a restart' };

/** Why a pipeline took over, for people. */
export function reasonWords(reason) {
  return REASONS[reason] ?? reason ?? '';
}

/** A pipeline event for people: {text, tone, busy}; busy while a switch is under way. */
export function switchWords(m) {
  switch (m.type) {
    case 'pipeline.preparing':
      return { text: `${quoted(m.to)} is getting ready${m.from ? `; ${quoted(m.from)} goes on meanwhile` : ''} (${reasonWords(m.reason)}).`, tone: '', busy: true };
    case 'pipeline.committed': {
      if (m.noop) return { text: `${quoted(m.to)} had the floor already; nothing was done.`, tone: '', busy: false };
      const left = m.dropped_items ? `, ${m.dropped_items} left out` : '';
      return { text: `${quoted(m.to)} has the floor since epoch ${m.epoch} (${reasonWords(m.reason)}), after ${durationText(m.switch_ms)}; it was told ${m.seeded_items} ${m.seeded_items === 1 ? 'item' : 'items'}${left}.`, tone: '', busy: false };
    }
    case 'pipeline.aborted':
      return { text: `${quoted(m.to)} did not take over: ${m.message || m.code} (${m.code}). ${m.from ? `${quoted(m.from)} keeps the floor.` : 'Nobody has the floor, as before.'}`, tone: 'bad', busy: false };
    default:
      return { text: '', tone: '', busy: false };
  }
}

/** The session's pipelines in one line. */
export function floorWords(legs, active) {
  if (active) return `“${active}” has the floor`;
  return legs.length ? 'nobody has the floor' : 'none in this session';
}

/** An item of a seed as one line: {role, text}. */
export function seedLine(item) {
  if (item.type === 'message') {
    const images = Array.isArray(item.content) ? item.content.filter((p) => p.type === 'image').length : 0;
    return { role: item.role, text: [textOf(item), images ? `[${images} ${images === 1 ? 'image' : 'images'}]` : ''].filter(Boolean).join(' ') };
  }
  if (item.type === 'function_call') return { role: 'call', text: `${item.name}(${item.arguments ?? ''})` };
  if (item.type === 'function_call_output') return { role: item.is_error ? 'error' : 'output', text: String(item.output ?? '') };
  return { role: item.type, text: item.text ?? item.reason ?? item.instructions ?? '' };
}

/** A seed's form for people. */
export function seedWords(mode, items) {
  const n = `${items} ${items === 1 ? 'item' : 'items'}`;
  if (items === 0) return 'All in words, as instructions.';
  switch (mode) {
    case 'instructions': return 'All in words, as instructions.';
    case 'items': return `Instructions, and the conversation as ${n}.`;
    case 'hybrid': return `The older part in words, the newest as ${n}.`;
    default: return `${mode}, ${n}.`;
  }
}
