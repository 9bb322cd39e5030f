// Figures: rates, histories, and how numbers are written. Pure; time is passed in, in milliseconds.

/** The last `size` values, for a drawn history. */
export class Series {
  constructor(size) {
    this.size = size;
    this.values = [];
  }

  push(value) {
    if (!Number.isFinite(value)) return;
    this.values.push(value);
    if (this.values.length > this.size) this.values.shift();
  }

  clear() {
    this.values = [];
  }

  /** The value below which the share `p` (0…1) of the series lies, or undefined when it is empty. */
  quantile(p) {
    if (this.values.length === 0) return undefined;
    const sorted = [...this.values].sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(p * sorted.length) - 1))];
  }
}

/** Events per second over a sliding window; at least one second must have passed before it says anything but 0. */
export class RateMeter {
  constructor(windowMs = 5000) {
    this.windowMs = windowMs;
    this.times = [];
  }

  mark(at) {
    this.times.push(at);
    this.#forget(at);
  }

  /** Intervals in the window over its length up to `at`: silence makes the rate fall, not freeze. */
  rate(at) {
    this.#forget(at);
    if (this.times.length < 2) return 0;
    const first = this.times[0], last = this.times[this.times.length - 1];
    const mean = (last - first) / (this.times.length - 1);
    const span = at - last > 2 * mean ? at - first : last - first; // late by more than one beat: count the silence too
    return span > 0 ? ((this.times.length - 1) * 1000) / span : 0;
  }

  #forget(at) {
    while (this.times.length > 0 && at - this.times[0] > this.windowMs) this.times.shift();
  }
}

/**
 * The SVG path of a history in a box of width × height, newest at the right edge, `slots` values wide. The scale starts at 0 and
 * ends at the largest value or `floor`, whichever is more, so that a calm line does not look wild.
 */
export function sparkPath(values, width, height, slots, floor = 1) {
  if (values.length === 0) return { line: '', area: '', max: floor };
  const max = Math.max(floor, ...values);
  const step = slots > 1 ? width / (slots - 1) : 0;
  const x0 = width - step * (values.length - 1);
  const points = values.map((v, i) => `${round(x0 + i * step)} ${round(height - (Math.max(0, v) / max) * height)}`);
  const line = `M${points.join('L')}`;
  return { line, area: `${line}L${round(width)} ${height}L${round(x0)} ${height}Z`, max };
}

const round = (n) => Math.round(n * 100) / 100;

const NONE = '–';

/** 83 412 bytes → "81.5 KiB". */
export function bytesText(n) {
  if (!Number.isFinite(n)) return NONE;
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}

/** A duration: "41 ms", "3.2 s", "2 min 5 s". */
export function durationText(ms) {
  if (!Number.isFinite(ms)) return NONE;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  const s = Math.round(ms / 1000);
  return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

/** Bits per second: "640 kbit/s", "1.2 Mbit/s". */
export function bitrateText(bps) {
  if (!Number.isFinite(bps)) return NONE;
  if (bps < 1000) return `${Math.round(bps)} bit/s`;
  if (bps < 1_000_000) return `${Math.round(bps / 1000)} kbit/s`;
  return `${(bps / 1_000_000).toFixed(1)} Mbit/s`;
}

export function sizeText(width, height) {
  return width > 0 && height > 0 ? `${width}×${height}` : NONE;
}

export function countText(n) {
  return Number.isFinite(n) ? String(n) : NONE;
}

export function rateText(r) {
  return Number.isFinite(r) ? (r >= 10 ? String(Math.round(r)) : r.toFixed(1)) : NONE;
}

/** A share 0…1 as per cent. */
export function shareText(s) {
  if (!Number.isFinite(s)) return NONE;
  const p = s * 100;
  if (p === 0) return '0 %';
  return p < 0.1 ? '< 0.1 %' : `${p.toFixed(p < 10 ? 1 : 0)} %`;
}
