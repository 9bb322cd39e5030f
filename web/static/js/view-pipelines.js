// The pipelines of the session: which has the floor, the switch to another, the epochs, and what each leg was told.
import { $, el, setText, setTone } from './dom.js';
import { epochsOf, floorWords, legWords, reasonWords, seedLine, seedWords, switchWords } from './pipelines.js';

/** `ask(target, at)` asks for a switch, `seed(epoch)` gets what a leg was told; both give promises. */
export class PipelinesView {
  constructor({ ask, seed }) {
    Object.assign(this, { ask, seed });
    this.busy = false;
    this.epochs = new Map(); // epoch → its node
    this.drawn = '';
  }

  /** Another session. */
  reset() {
    this.#say('', '', false);
    this.epochs.clear();
    $('epochs').replaceChildren();
    this.drawn = '';
  }

  /** Takes a pipeline event. */
  apply(message) {
    const { text, tone, busy } = switchWords(message);
    this.#say(text, tone, busy);
  }

  /** After a break the outcome of a switch is told by the session's state and log. */
  lost() {
    if (this.busy) this.#say('The connection broke during a switch; its outcome shows below.', 'warn', false);
  }

  /** Draws the legs of the session's state; null: not known now, what was known stays. */
  draw(detail, attached) {
    if (!detail) return;
    const legs = detail.legs ?? [];
    setText($('floor'), floorWords(legs, detail.active_leg));
    $('legs-empty').hidden = legs.length > 0;
    $('switch-pick').hidden = legs.length < 1;
    const known = new Map([...$('legs').children].map((node) => [node.dataset.leg, node]));
    for (const leg of legs) {
      const node = known.get(leg.name) ?? $('legs').appendChild(this.#leg(leg.name));
      known.delete(leg.name);
      const { word, tone } = legWords(leg.state), active = leg.name === detail.active_leg;
      setTone(node, tone);
      setText(node.querySelector('.what'), [leg.kind, leg.provider, ''].filter((w, i) => w || i === 2).join(' · '));
      setText(node.querySelector('.state'), `${word}${leg.epoch ? `, epoch ${leg.epoch}` : ''}`);
      const button = node.querySelector('button');
      button.hidden = active;
      button.disabled = this.busy || !attached;
    }
    for (const node of known.values()) node.remove();
  }

  /** Draws the epochs, newest first; open details stay open. */
  drawEpochs(conversation) {
    const list = epochsOf(conversation), data = JSON.stringify(list);
    if (data === this.drawn) return;
    this.drawn = data;
    const gone = new Set(this.epochs.keys());
    let before = null;
    for (const e of list) {
      gone.delete(e.epoch);
      const node = this.epochs.get(e.epoch) ?? this.#epoch(e.epoch);
      if (node.nextSibling !== before || !node.parentNode) $('epochs').insertBefore(node, before);
      before = node;
      fillEpoch(node, e);
    }
    for (const n of gone) {
      this.epochs.get(n).remove();
      this.epochs.delete(n);
    }
    $('epochs-box').hidden = list.length === 0;
  }

  #leg(name) {
    const button = el('button', { type: 'button', 'aria-label': `Switch to ${name}`, 'data-testid': `switch-${name}` }, 'Switch');
    button.addEventListener('click', () => this.#switch(name));
    return el('li', { 'data-leg': name }, el('i', { class: 'lamp', 'aria-hidden': 'true' }), el('div', {}, el('b', {}, name), ' ', el('span', { class: 'what' }), el('span', { class: 'state' })), button);
  }

  async #switch(name) {
    this.#say(`Asking for “${name}”…`, '', true);
    try {
      await this.ask(name, $('switch-at').value);
    } catch (error) {
      this.#say(`Not switched: ${error.message}.`, 'bad', false);
    }
  }

  #say(text, tone, busy) {
    this.busy = busy;
    setText($('switch-said'), text);
    setTone($('switch-said'), tone);
    for (const button of $('legs').querySelectorAll('button')) button.disabled = busy;
  }

  #epoch(n) {
    const node = el('li', { 'data-epoch': n }, el('h4', {}), el('p', { class: 'hint when' }), el('ul', { class: 'lines' }), el('p', { class: 'hint tools' }), el('p', { class: 'hint missed' }), n > 0 && this.#seed(n));
    this.epochs.set(n, node);
    return node;
  }

  // What the leg was told is asked for when somebody wants to see it, and kept: it does not change.
  #seed(n) {
    const body = el('div', { class: 'seed-body' }), details = el('details', { class: 'seed' }, el('summary', {}, 'What it was told before'), body);
    details.addEventListener('toggle', async () => {
      if (!details.open || body.loaded) return;
      setText(body, 'Asking…');
      try {
        const seed = await this.seed(n);
        body.loaded = true;
        body.replaceChildren(el('p', { class: 'hint' }, seedWords(seed.mode, seed.items.length)), el('pre', { tabindex: '0', 'aria-label': `Instructions of epoch ${n}` }, seed.instructions || '(no instructions)'),
          seed.items.length > 0 && el('ul', { class: 'lines' }, ...seed.items.map((item) => line(seedLine(item)))) || '');
      } catch (error) {
        setText(body, `Not to be had: ${error.message}.`);
      }
    });
    return details;
  }
}

function fillEpoch(node, e) {
  const key = JSON.stringify(e);
  if (node.drawn === key) return;
  node.drawn = key;
  const at = e.at ? new Date(e.at).toLocaleTimeString() : '';
  setText(node.querySelector('h4'), e.epoch === 0 ? 'Before any pipeline' : `Epoch ${e.epoch} · ${e.leg || 'pipeline not in the log'}`);
  const began = !e.known || e.epoch === 0 ? '' : at ? `since ${at}` : 'began before this page attached';
  setText(node.querySelector('.when'), [began, reasonWords(e.reason), e.from && `after “${e.from}”`, `${e.said} said`].filter(Boolean).join(' · '));
  node.querySelector('.lines').replaceChildren(...e.lines.map(line), ...(e.said > e.lines.length ? [el('li', { class: 'more' }, `and ${e.said - e.lines.length} more`)] : []));
  const tools = e.tools.map((t) => `${t.name} (${t.state})`).join(', ');
  node.querySelector('.tools').hidden = !tools;
  setText(node.querySelector('.tools'), `Tools: ${tools}`);
  const missed = e.aborted.map((a) => `“${a.to}”${a.reason ? ` (${reasonWords(a.reason)})` : ''}`).join(', ');
  node.querySelector('.missed').hidden = !missed;
  setText(node.querySelector('.missed'), `Did not take over: ${missed}`);
}

function line({ role, text }) {
  return el('li', {}, el('b', {}, { user: 'User', assistant: 'Agent' }[role] ?? role), ` ${text}`);
}
