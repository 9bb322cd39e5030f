// Who speaks and what (PROTOCOL.md §5.11), pure: the socket's messages in, the state of both sides out.

const side = () => ({ speaking: false, since: 0, text: '', final: true, itemId: '' });

const MOST = 50; // turns of which it is kept how much was heard

/** Both sides of the talk as far as this console was told. `played` is by item id: {ms, text, interrupted, epoch}. */
export class Speech {
  #made = new Map(); // item id → all of the agent's text so far

  constructor() {
    this.reset();
  }

  /** After a break nothing is known of what was said meanwhile. */
  reset() {
    this.caller = side();
    this.agent = side();
    this.last = null; // the newest `played`, with what was made of it: {itemId, ms, heard, made, interrupted}
    this.played = new Map();
    this.#made.clear();
  }

  /** Takes a speech.started, speech.stopped, transcript or played in; says whether anything changed. */
  apply(m, at = 0) {
    const who = m.who === 'agent' ? this.agent : this.caller;
    switch (m.type) {
      case 'speech.started':
        Object.assign(who, { speaking: true, since: at });
        // The caller is heard before he is understood; the agent's words are there before they are spoken.
        if (who === this.caller && who.final) Object.assign(who, { text: '', final: false, itemId: '' });
        return true;
      case 'speech.stopped':
        who.speaking = false;
        return true;
      case 'transcript':
        Object.assign(who, { text: m.text ?? '', final: m.final === true, itemId: m.item_id ?? '' });
        if (who === this.agent) keep(this.#made, who.itemId, who.text);
        return true;
      case 'played':
        this.#heard(m);
        return true;
      default:
        return false;
    }
  }

  #heard(m) {
    const interrupted = m.interrupted === true;
    this.last = { itemId: m.item_id, ms: m.played_ms, heard: m.text_heard ?? '', made: this.#made.get(m.item_id) ?? '', interrupted };
    keep(this.played, m.item_id, { ms: m.played_ms, interrupted, epoch: m.epoch });
  }
}

function keep(map, key, value) {
  map.delete(key);
  map.set(key, value);
  if (map.size > MOST) map.delete(map.keys().next().value);
}

/** One side in words: {word, line, settled}; line is what is understood so far. */
export function sideWords(s) {
  const word = s.speaking ? 'speaking' : 'silent';
  return { word, line: s.text, settled: s.final };
}

/** What was heard of the agent's last turn, in words; empty when none ended yet. */
export function heardWords(last) {
  if (!last) return '';
  const time = `${(last.ms / 1000).toFixed(1)} s`;
  if (!last.interrupted) return `Heard to its end, ${time}.`;
  return last.ms > 0 ? `Cut after ${time}. Heard: “${last.heard.trim()}”` : 'Cut before anything was heard.';
}
