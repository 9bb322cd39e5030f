// What the programs here have in common: results on standard output, and waits that end.

const patience = 40_000;

/** Prints one result. */
export function print(step, result = {}) {
  console.log(JSON.stringify({ step, ...result }));
}

/** A promise that fails when it takes too long. */
export function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not come within ${patience / 1000} s`)), patience);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Pieces of a buffer, 100 ms of PCM16 at 24 kHz each. */
export function* pieces(buffer) {
  for (let i = 0; i < buffer.length; i += 4800) yield buffer.subarray(i, i + 4800);
}
