// Small helpers for the page's elements.

export const $ = (id) => document.getElementById(id);

/** Makes an element; `content` are strings or nodes. Text goes in as text: nothing from the wire becomes markup. */
export function el(name, attributes = {}, ...content) {
  const node = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) if (v !== undefined && v !== false) node.setAttribute(k, v === true ? '' : v);
  node.append(...content.filter((c) => c !== undefined && c !== null && c !== false));
  return node;
}

/** Writes only what changed, so that a figure that stands still does not disturb a screen reader or a selection. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setTone(node, tone) {
  if (node.dataset.tone !== tone) node.dataset.tone = tone;
}

/** A term with its figure, for a <dl>; `title` says what it counts, where the term does not. */
export function figure(term, value, title, long) {
  return el('div', { class: long && 'long', title: title || undefined }, el('dt', {}, term), el('dd', {}, value));
}

/** Plays a one-off animation class again. */
export function replay(node, name) {
  node.classList.remove(name);
  void node.offsetWidth;
  node.classList.add(name);
  setTimeout(() => node.classList.remove(name), 1000);
}
