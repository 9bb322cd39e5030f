// The conversation as it grows: one element per item, kept in the log's order.
import { $, el, setText } from './dom.js';
import { compactLine, imagesOf, isLast, itemAfter, textOf } from './conversation.js';
import { imageAddress } from './wire.js';

const NEAR_END = 60; // px from the end within which the log keeps following

export class TalkView {
  /** `load` turns a stored blob's path into an address an <img> may use (a promise); `me` gives this console's agent id. */
  constructor(load, me) {
    Object.assign(this, { load, me });
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
    const nodes = [...conversation.items.values()].map((item) => this.#make(item, conversation.about.get(item.id)));
    this.log.replaceChildren(...nodes);
    this.#empty();
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
    for (const id of set) {
      const old = this.nodes.get(id), node = this.#make(conversation.items.get(id), conversation.about.get(id));
      if (old) old.replaceWith(node);
      else if (isLast(conversation, id)) { this.log.append(node); grown = true; }
      else this.log.insertBefore(node, this.nodes.get(itemAfter(conversation, id)) ?? null);
    }
    this.#empty();
    if (follow) this.#toEnd();
    else if (grown) $('log-newest').hidden = false;
  }

  #make(item, about) {
    const node = item.type === 'message' ? this.#message(item, about) : this.#line(item);
    node.dataset.id = item.id;
    this.nodes.set(item.id, node);
    return node;
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

  // What was heard is the message; what was made but not heard is shown struck out after it.
  #cut(item, heard) {
    const made = item.text_generated ?? '';
    const rest = made.startsWith(heard) ? made.slice(heard.length) : '';
    return el('div', {}, el('span', { class: 'cut' }, 'interrupted here'), rest && el('div', { class: 'unheard' }, rest.trim()));
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

  #empty() {
    $('log-empty').hidden = this.nodes.size > 0;
    setText($('talk-state'), this.nodes.size ? `${this.nodes.size} ${this.nodes.size === 1 ? 'item' : 'items'}` : '');
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
