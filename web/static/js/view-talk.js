// The conversation as it grows: one element per item, kept in the log's order.
import { $, el, setText } from './dom.js';
import { asText, compactLine, imagesOf, isLast, itemsAfter, textOf } from './conversation.js';
import { callState } from './pipelines.js';
import { imageAddress } from './wire.js';

const NEAR_END = 60; // px from the end within which the log keeps following

export class TalkView {
  /** `load` turns a stored blob's path into an address an <img> may use (a promise); `me` gives this console's agent id. `heard` gives what is known of a turn's playing: {ms} or undefined. */
  constructor(load, me, heard) {
    Object.assign(this, { load, me, heard });
    this.log = $('log');
    this.nodes = new Map();
    this.session = '';
    $('log-newest').addEventListener('click', () => { this.#toEnd(); this.log.focus(); });
    this.follow = true; // keeps the newest in sight until the person scrolls up
    this.log.addEventListener('scroll', () => { this.follow = this.#atEnd(); if (this.follow) $('log-newest').hidden = true; });
    new ResizeObserver(() => { if (this.follow) this.#toEnd(); }).observe(this.log);
  }

  /** Draws a whole conversation; a screen reader is not read all of it. */
  reset(conversation, session) {
    this.session = session;
    this.log.setAttribute('aria-live', 'off');
    this.nodes.clear();
    const nodes = [...conversation.items.keys()].map((id) => this.#make(conversation, id)).filter(Boolean);
    this.log.replaceChildren(...nodes);
    this.#empty(conversation);
    this.#toEnd();
    setTimeout(() => this.log.setAttribute('aria-live', 'polite'), 500);
  }

  /** Draws what one entry changed. */
  update(conversation, { set, removed }) {
    const follow = this.follow;
    for (const id of removed) {
      this.nodes.get(id)?.remove();
      this.nodes.delete(id);
    }
    let grown = false;
    for (const id of set) if (conversation.items.has(id)) grown = this.#place(conversation, id) || grown;
    if (removed.length > 0) this.#settleCalls(conversation);
    this.#empty(conversation);
    if (follow) this.#toEnd();
    else if (grown) $('log-newest').hidden = false;
  }

  // Puts an item's element where it belongs; says whether the log has grown at its end. An output belongs into its call's row.
  #place(conversation, id) {
    const item = conversation.items.get(id), call = item.type === 'function_call_output' && conversation.callOf(item.call_id);
    if (call && this.nodes.has(call.id)) return this.#fillCall(this.nodes.get(call.id), call, item), false;
    const old = this.nodes.get(id);
    if (old?.matches('details') && item.type === 'function_call') return this.#fillCall(old, item, conversation.outputOf(item.call_id)), false;
    const node = this.#make(conversation, id);
    if (old) return old.replaceWith(node), false;
    if (isLast(conversation, id)) return this.log.append(node), true;
    const next = itemsAfter(conversation, id).find((other) => this.nodes.has(other));
    this.log.insertBefore(node, this.nodes.get(next) ?? null);
    return false;
  }

  // A call whose output was removed waits again; an output whose call was removed stands alone.
  #settleCalls(conversation) {
    for (const [callId, id] of conversation.calls) if (this.nodes.has(id)) this.#fillCall(this.nodes.get(id), conversation.items.get(id), conversation.outputOf(callId));
    for (const [callId, id] of conversation.outputs) if (!conversation.callOf(callId) && !this.nodes.has(id)) this.#place(conversation, id);
  }

  // null for an output that its call's row shows.
  #make(conversation, id) {
    const item = conversation.items.get(id);
    if (item.type === 'function_call_output' && conversation.callOf(item.call_id)) return null;
    const node = item.type === 'message' ? this.#message(item, conversation.about.get(id))
      : item.type === 'function_call' ? this.#call(item, conversation.outputOf(item.call_id)) : this.#line(item);
    node.dataset.id = id;
    this.nodes.set(id, node);
    return node;
  }

  // A tool's call and what came of it, as one row to unfold.
  #call(call, output) {
    const node = el('details', { class: 'act tool' }, el('summary', {}, el('b', {}), ' ', el('span', {})),
      el('p', {}, 'Asked with'), el('pre', { tabindex: '0', 'aria-label': 'Arguments' }), el('p', {}), el('pre', { tabindex: '0', 'aria-label': 'Result' }));
    this.#fillCall(node, call, output);
    return node;
  }

  #fillCall(node, call, output) {
    const state = callState(output), [asked, got] = node.querySelectorAll('pre');
    node.dataset.state = state;
    node.dataset.call = call.call_id;
    setText(node.querySelector('b'), call.agent_id ? `${call.agent_id} calls ${call.name}` : `Tool ${call.name}`);
    setText(node.querySelector('span'), state);
    setText(asked, call.arguments || '(nothing)');
    setText(node.querySelector('p:last-of-type'), state === 'running' ? 'No result yet.' : state === 'error' ? 'It failed:' : 'It answered:');
    got.hidden = !output;
    setText(got, output ? asText(output.output) : '');
  }

  #message(item, about) {
    const author = item.agent_id || about?.author || '';
    const mine = author && author === this.me();
    const at = about?.at ? new Date(about.at) : null;
    const node = el('article', { class: `item ${item.role}`, 'data-role': item.role },
      el('header', {}, el('b', {}, roleWord(item.role)), author && el('span', { title: author }, mine ? 'this console' : author),
        at && !Number.isNaN(at.getTime()) && el('time', { datetime: about.at, title: at.toLocaleString() }, at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', second: '2-digit' }))));
    const text = textOf(item);
    if (text) node.append(el('div', { class: 'text' }, text));
    if (item.interrupted) node.append(this.#cut(item, text));
    for (const part of imagesOf(item)) node.append(this.#image(part));
    return node;
  }

  // What was heard is the message; what was made and not heard is marked as cut, with the whole of it to unfold.
  #cut(item, heard) {
    const made = item.text_generated ?? '', rest = made.startsWith(heard) ? made.slice(heard.length) : '', ms = this.heard(item.id)?.ms;
    return el('div', {}, el('span', { class: 'cut' }, Number.isFinite(ms) ? `cut here, after ${(ms / 1000).toFixed(1)} s` : 'cut here: the speaker was interrupted'),
      rest && el('div', { class: 'unheard', title: 'Made, but not heard' }, rest.trim()),
      made && el('details', { class: 'made' }, el('summary', {}, 'All that was made'), el('div', { class: 'text-generated' }, made)));
  }

  #image(part) {
    const where = imageAddress(part.url, this.session);
    const what = [part.source, part.width && part.height ? `${part.width}×${part.height}` : '', part.captured_at ? `captured ${new Date(part.captured_at).toLocaleTimeString()}` : ''].filter(Boolean).join(' · ');
    if (where.outside) return el('figure', {}, el('figcaption', {}, `Image kept at ${where.outside}, not loaded here${what ? ` · ${what}` : ''}`));
    const img = el('img', { alt: `Image in the conversation${what ? `: ${what}` : ''}`, decoding: 'async', width: part.width, height: part.height });
    const caption = el('figcaption', {}, what);
    img.addEventListener('error', () => setText(caption, `This image could not be loaded${what ? ` · ${what}` : ''}`));
    img.addEventListener('load', () => { if (this.follow) this.#toEnd(); });
    if (where.src) img.src = where.src;
    else this.load(where.blob).then((src) => { img.src = src; }, () => img.dispatchEvent(new Event('error')));
    return el('figure', {}, img, caption);
  }

  #line(item) {
    const { kind, line } = compactLine(item);
    return el('div', { class: `act ${kind}` }, line);
  }

  #empty(conversation) {
    const n = conversation.items.size;
    $('log-empty').hidden = n > 0;
    setText($('talk-state'), n ? `${n} ${n === 1 ? 'item' : 'items'}` : '');
  }

  #atEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR_END;
  }

  #toEnd() {
    this.follow = true;
    this.log.scrollTop = this.log.scrollHeight;
    $('log-newest').hidden = true;
  }
}

function roleWord(role) {
  return { user: 'User', assistant: 'Agent', system: 'System', developer: 'Developer' }[role] ?? String(role);
}
