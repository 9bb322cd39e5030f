// The fold of the session's log into the list of items (PROTOCOL.md §6), pure: no page, no socket.

/** One session's conversation as far as this console has applied it. `seq` is the last entry applied. */
export class Conversation {
  constructor() {
    this.reset({ seq: 0, items: [] });
  }

  /** Takes a snapshot's state in place of everything before. */
  reset(snapshot) {
    this.seq = snapshot?.seq ?? 0;
    this.items = new Map();
    this.about = new Map(); // item id → {seq, at, author, epoch}; a snapshot carries none
    this.calls = new Map(); // call_id → id of the function_call, and of its output
    this.outputs = new Map();
    for (const item of snapshot?.items ?? []) {
      this.items.set(item.id, item);
      this.#index(item);
    }
  }

  /** The function_call of a call_id, or undefined. */
  callOf(callId) {
    return this.items.get(this.calls.get(callId));
  }

  /** The output of a call_id, or undefined while there is none. */
  outputOf(callId) {
    return this.items.get(this.outputs.get(callId));
  }

  /**
   * Applies one context.entry. Returns {status, set, removed}: status is `applied`, `duplicate` (seq already applied, nothing
   * changed) or `gap` (an entry is missing in between, nothing changed: resume from `seq`); set and removed are item ids.
   */
  apply(entry) {
    if (!Number.isInteger(entry.seq) || entry.seq <= this.seq) return { status: 'duplicate', set: [], removed: [] };
    if (entry.seq !== this.seq + 1) return { status: 'gap', set: [], removed: [] };
    this.seq = entry.seq;
    const set = [], removed = [];
    switch (entry.op) {
      case 'append':
      case 'update':
        if (entry.item?.id === undefined) break;
        if (entry.op === 'append' && entry.after_item_id) this.#insert(entry.after_item_id, entry.item);
        else this.items.set(entry.item.id, entry.item);
        this.#index(entry.item);
        if (entry.op === 'append') this.about.set(entry.item.id, { seq: entry.seq, at: entry.at, author: entry.author, epoch: entry.epoch });
        set.push(entry.item.id);
        // What a summary stands for goes with it; only after it has found its place among them.
        for (const id of entry.removed ?? []) if (id !== entry.item.id && this.#drop(id)) removed.push(id);
        break;
      case 'remove':
        if (this.#drop(entry.item_id)) removed.push(entry.item_id);
        break;
      case 'truncate':
        for (const id of entry.removed ?? []) if (this.#drop(id)) removed.push(id);
        break;
      default: // an op of a later version: counted in seq, shown by nothing
    }
    return { status: 'applied', set, removed };
  }

  /** Puts an item right after another one; a Map keeps the order of insertion, so what follows is moved behind it. */
  #insert(after, item) {
    const later = [...this.items];
    const at = later.findIndex(([id]) => id === after);
    if (at < 0) return this.items.set(item.id, item); // a damaged log: at the end is better than lost
    this.items.set(item.id, item);
    for (const [id, moved] of later.slice(at + 1)) {
      this.items.delete(id);
      this.items.set(id, moved);
    }
  }

  #index(item) {
    if (item.type === 'function_call') this.calls.set(item.call_id, item.id);
    if (item.type === 'function_call_output') this.outputs.set(item.call_id, item.id);
  }

  #drop(id) {
    const item = this.items.get(id);
    if (item && this.calls.get(item.call_id) === id) this.calls.delete(item.call_id);
    if (item && this.outputs.get(item.call_id) === id) this.outputs.delete(item.call_id);
    this.about.delete(id);
    return this.items.delete(id);
  }
}

/** The id of the item that stands right after another, undefined at the end. */
export function itemAfter(conversation, id) {
  const ids = [...conversation.items.keys()];
  return ids[ids.indexOf(id) + 1];
}

/** The items that stand after another, in order. */
export function itemsAfter(conversation, id) {
  const ids = [...conversation.items.keys()];
  return ids.slice(ids.indexOf(id) + 1);
}

/** Whether an item is the last one. */
export function isLast(conversation, id) {
  return itemAfter(conversation, id) === undefined;
}

/** The text parts of a message, joined; content may be a plain string. */
export function textOf(item) {
  if (typeof item.content === 'string') return item.content;
  return (item.content ?? []).filter((p) => p.type === 'text').map((p) => p.text).join('\n');
}

/** The image parts of a message. */
export function imagesOf(item) {
  return Array.isArray(item.content) ? item.content.filter((p) => p.type === 'image') : [];
}

const cut = (s, n) => (s.length > n ? `${s.slice(0, n - 1)}…` : s);

/** One line for an item that is not a message: {kind, line}. */
export function compactLine(item) {
  switch (item.type) {
    case 'function_call':
      return { kind: 'tool', line: `${item.agent_id ? `${item.agent_id} calls ` : 'calls '}${item.name}(${cut(item.arguments ?? '', 160)})` };
    case 'function_call_output':
      return { kind: item.is_error ? 'tool-error' : 'tool', line: `${item.name ?? 'tool'} ${item.is_error ? 'failed' : 'answered'}: ${cut(asText(item.output), 200)}` };
    case 'handoff':
      return { kind: 'handoff', line: `handed over from ${item.from_agent || '—'} to ${item.to_agent}${item.reason ? `: ${item.reason}` : ''}` };
    case 'config_update':
      return { kind: 'config', line: `settings changed: ${[item.instructions !== undefined && 'instructions', item.tools !== undefined && `${item.tools.length} tools`].filter(Boolean).join(', ') || 'nothing named'}` };
    case 'summary':
      return { kind: 'summary', line: `summary of ${Array.isArray(item.covers) ? `entries ${item.covers[0]}–${item.covers[1]}` : 'earlier entries'}: ${cut(item.text ?? '', 400)}` };
    case 'pipeline_switch':
      return { kind: 'switch', line: `pipeline ${item.from || '—'} → ${item.to} ${item.state}${item.reason ? `: ${item.reason}` : ''}` };
    default:
      return { kind: 'other', line: String(item.type) };
  }
}

/** A value as text: a tool's output may be anything. */
export function asText(v) {
  return typeof v === 'string' ? v : JSON.stringify(v ?? '');
}
