// Levels of sound: how loud the microphone and the agent's voice are. The arithmetic is pure; Meters needs a browser.

const QUIET_DB = -60; // a meter's lower end: below is silence to a person

/** Loudness of samples −1…1 as dB of full scale (root mean square); −Infinity for silence or none. */
export function loudness(samples) {
  let sum = 0;
  for (const v of samples) sum += v * v;
  return samples.length && sum > 0 ? 10 * Math.log10(sum / samples.length) : -Infinity;
}

/** Where a meter of 0…1 stands for a loudness in dB: −60 dB and below are 0, full scale is 1. */
export function meterShare(db) {
  return Math.min(1, Math.max(0, 1 - db / QUIET_DB));
}

/** A loudness for people who cannot see the meter. */
export function loudnessWords(db) {
  return db <= QUIET_DB ? 'silent' : `${Math.round(db)} dB`;
}

/** Measures streams by an analyser each. The context is made at the first stream, inside a person's click as browsers want it. */
export class Meters {
  #context = null; #nodes = new Map();

  /** Measures a stream under a name from now on; null ends it. The same stream again changes nothing. */
  set(name, stream) {
    const had = this.#nodes.get(name);
    if (had?.stream === stream || (!had && !stream)) return;
    had?.source.disconnect();
    this.#nodes.delete(name);
    if (!stream || stream.getAudioTracks().length === 0) return;
    try {
      this.#context ??= new AudioContext();
      if (this.#context.state === 'suspended') this.#context.resume().catch(() => {});
      const source = this.#context.createMediaStreamSource(stream), analyser = this.#context.createAnalyser();
      analyser.fftSize = 1024;
      source.connect(analyser);
      this.#nodes.set(name, { stream, source, analyser, samples: new Float32Array(analyser.fftSize) });
    } catch (error) {
      console.warn(`no level of ${name}:`, error.message); // the call goes on without a meter
    }
  }

  /** The loudness of the last moment in dB, −Infinity when nothing is measured. */
  level(name) {
    const node = this.#nodes.get(name);
    if (!node) return -Infinity;
    node.analyser.getFloatTimeDomainData(node.samples);
    return loudness(node.samples);
  }
}
