// Waiting longer after each failure, pure but for the random source, which is passed in.

/** Delays grow from `first` ms by doubling to `most` ms, each spread by ±20 % so that many pages do not come back at once. */
export class Backoff {
  constructor({ first = 500, most = 10_000, random = Math.random } = {}) {
    this.first = first;
    this.most = most;
    this.random = random;
    this.failures = 0;
  }

  /** The wait before the next try, ms; `atLeast` is what the server asked for (Retry-After). */
  next(atLeast = 0) {
    const base = Math.min(this.most, this.first * 2 ** Math.min(this.failures, 30));
    this.failures++;
    return Math.round(Math.max(atLeast, base * (0.8 + 0.4 * this.random())));
  }

  reset() {
    this.failures = 0;
  }
}
