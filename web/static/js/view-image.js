// "What the agent sees": the very JPEG that came over the agent socket, with its figures.
import { $, replay, setText } from './dom.js';
import { RateMeter, Series, bytesText, countText, durationText, rateText, sizeText, sparkPath } from './figures.js';

const HISTORY = 40;
const STALE_FACTOR = 4; // an image older than this many beats is shown as stale

export class ImageView {
  constructor() {
    this.canvas = $('agent-image');
    this.clear();
  }

  clear() {
    this.last = null;
    this.shown = -1;
    this.received = 0;
    this.superseded = 0;
    this.latencies = new Series(HISTORY);
    this.meter = new RateMeter();
    this.sources = new Set();
    this.source = '*';
    this.fps = Number($('image-fps').value);
    this.canvas.getContext('2d').clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.canvas.setAttribute('aria-label', 'No image yet');
    $('view-empty').hidden = false;
    $('save-image').disabled = true;
    $('view-stage').classList.remove('stale');
    this.tick(performance.now());
  }

  /** Takes an image of the socket; `asked` marks the answer to a request. */
  async take({ header, payload, receivedAt }, asked) {
    this.#know(header.source);
    if (this.source !== '*' && header.source !== this.source && !asked) return;
    const order = ++this.received;
    this.superseded += header.superseded ?? 0;
    if (!asked) { // an image on request may be as old as it allowed: not a measure of the flow
      this.latencies.push(header.age_ms);
      this.meter.mark(receivedAt);
    }
    const blob = new Blob([payload], { type: header.mime || 'image/jpeg' });
    const bitmap = await createImageBitmap(blob);
    if (order < this.shown) return bitmap.close(); // decoded late: a newer one is on already
    this.shown = order;
    this.last = { header, blob, receivedAt, width: bitmap.width, height: bitmap.height, bytes: payload.byteLength };
    this.#draw(bitmap);
    if (asked) replay($('view-stage'), 'flash');
  }

  /** Writes what changes by itself: age, rate, whether the image is still of now. `over` says that no more can come now. */
  tick(at, over = false) {
    const last = this.last, age = last ? this.ageAt(at) : NaN;
    setText($('fig-age'), durationText(age));
    setText($('fig-rate'), last ? rateText(this.meter.rate(at)) : '–');
    const stale = Boolean(last) && (over || age > Math.max(3000, (STALE_FACTOR * 1000) / this.fps));
    if (stale !== !$('view-stale').hidden) {
      $('view-stage').classList.toggle('stale', stale);
      $('view-stale').hidden = !stale;
      if (last) this.#name(stale);
    }
    if (stale) setText($('view-stale'), `Last image, ${durationText(age)} old`);
    if (!last) for (const id of ['fig-size', 'fig-bytes', 'fig-latency', 'fig-superseded']) setText($(id), '–');
    if (!last) this.#history();
  }

  /** How old the picture on the page is now: its age at delivery plus the time since. */
  ageAt(at) {
    return this.last.header.age_ms + (at - this.last.receivedAt);
  }

  setSource(source) {
    this.source = source;
    this.latencies.clear();
  }

  save() {
    if (!this.last) return;
    const url = URL.createObjectURL(this.last.blob);
    const link = Object.assign(document.createElement('a'), { href: url, download: `${this.last.header.source || 'image'}-${this.last.header.seq}.jpg` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  #draw(bitmap) {
    const { header, width, height, bytes } = this.last;
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    this.canvas.getContext('2d').drawImage(bitmap, 0, 0);
    bitmap.close();
    this.#name(false);
    $('view-empty').hidden = true;
    $('save-image').disabled = false;
    setText($('fig-size'), sizeText(width, height));
    setText($('fig-bytes'), bytesText(bytes));
    setText($('fig-latency'), durationText(header.age_ms));
    setText($('fig-superseded'), countText(this.superseded));
    this.#history();
    this.tick(performance.now());
    replay(document.querySelector('#hop-agents .lamp'), 'beat');
  }

  #name(stale) {
    const { header, width, height } = this.last;
    this.canvas.setAttribute('aria-label', `${stale ? 'Last image, no longer of now: image' : 'Image'} ${header.seq} of ${header.source}, ${width} by ${height}`);
  }

  #history() {
    const { line, area, max } = sparkPath(this.latencies.values, 120, 24, HISTORY, 50);
    $('spark-line').setAttribute('d', line);
    $('spark-area').setAttribute('d', area);
    const p50 = this.latencies.quantile(0.5), worst = this.latencies.quantile(1);
    const note = p50 === undefined ? '' : `median ${durationText(p50)}, most ${durationText(worst)}`;
    setText($('spark-note'), note);
    $('spark').setAttribute('aria-label', note ? `Age when sent of the last ${this.latencies.values.length} images: ${note}; scale to ${durationText(max)}` : 'No age measured yet');
  }

  #know(source) {
    if (!source || this.sources.has(source)) return;
    this.sources.add(source);
    const pick = $('image-source');
    pick.replaceChildren(new Option('newest', '*'), ...[...this.sources].sort().map((s) => new Option(s, s)));
    pick.value = this.source;
    $('source-pick').hidden = this.sources.size < 2;
  }
}
